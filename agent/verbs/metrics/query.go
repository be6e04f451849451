// Package metrics is the verbs metrics-query and metrics-page, on a node with a store of metrics: they ask the store,
// which listens on this node alone and wants a password that the store's own programs have.
package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/services/metrics"
	"spore/storage/atomicfile"
	"spore/wire/machine"
)

const (
	// maxAnswer bounds what the store answers, in bytes, and maxProblem what is told of its complaint.
	maxAnswer  = 32 << 20
	maxProblem = 2 << 10
	// maxPart is the size of a part of a page, in bytes, and maxSamples how many samples a series has: one alone fits into
	// an event, too (nodeapi.MaxEvent).
	maxPart    = 256 << 10
	maxSamples = 10_000
	// maxPoints is how many points a query over a time may have; the store would answer more.
	maxPoints = 10_000
)

// Store is where the store of this node listens; tests have their own.
type Store struct{ Address string }

// Here is the store of a node.
func Here() Store {
	return Store{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics.Port))}
}

// Query answers a query in PromQL: at a moment, or from one to another in steps.
func (s Store) Query(ctx context.Context, r *verbs.Run) (string, error) {
	if !metrics.Stores(r.Cluster, r.Node.Name) {
		return "", fmt.Errorf("%s has no store of metrics; ask a node with the role %s", r.Node.Name, metrics.Role)
	}
	path, values, err := question(r)
	if err != nil {
		return "", err
	}
	answer, err := s.ask(ctx, r, path, values)
	if err != nil {
		return "", err
	}
	if err := verbs.Results(r, answer); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d series", len(answer)), nil
}

// question is what the store is asked (Prometheus, HTTP API, expression queries).
func question(r *verbs.Run) (path string, values url.Values, err error) {
	values = url.Values{"query": {r.Argument("query", "")}}
	from, until, step := r.Argument("from", ""), r.Argument("until", ""), r.Argument("step", "")
	if from == "" {
		if step != "" {
			return "", nil, errors.New("a step is for a time with a begin; give that, too")
		}
		if until != "" {
			values.Set("time", until)
		}
		return "/api/v1/query", values, nil
	}
	begin, _ := strconv.Atoi(from)
	end := int(r.Machine.Now().Unix())
	if until != "" {
		end, _ = strconv.Atoi(until)
	}
	if end < begin {
		return "", nil, errors.New("the end is before the begin")
	}
	every, _ := strconv.Atoi(step)
	if every == 0 {
		every = max(30, (end-begin)/500)
	}
	if (end-begin)/every+1 > maxPoints {
		return "", nil, fmt.Errorf("that are more than %d points; take a longer step", maxPoints)
	}
	values.Set("start", strconv.Itoa(begin))
	values.Set("end", strconv.Itoa(end))
	values.Set("step", strconv.Itoa(every))
	return "/api/v1/query_range", values, nil
}

// ask sends the query with the store's password.
func (s Store) ask(ctx context.Context, r *verbs.Run, path string, values url.Values) ([]machine.Series, error) {
	answer, err := s.do(ctx, r, http.MethodPost, path, values)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read what the store answers: %w", err)
	case len(data) > maxAnswer:
		return nil, errTooMuch
	}
	return parse(answer.StatusCode, data)
}

var errTooMuch = fmt.Errorf("the answer has more than %d MiB; ask for less", maxAnswer>>20)

// do asks the store with its password. The body of the answer is to be closed.
func (s Store) do(ctx context.Context, r *verbs.Run, method, target string, form url.Values) (*http.Response, error) {
	file := r.Machine.Root.At(filepath.Join(paths.Secrets, metrics.Program, metrics.PasswordEntry))
	password, err := atomicfile.ReadLimited(file, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("the password of the store: %w", err)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+s.Address+target, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	q.SetBasicAuth(metrics.User, strings.TrimRight(string(password), "\n"))
	// Without proxies of an environment, and without another address: the password is for the store.
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("ask the store, %s: %w", metrics.Unit, err)
	}
	return answer, nil
}

// parse reads an answer of the API (Prometheus, HTTP API, format overview).
func parse(code int, data []byte) ([]machine.Series, error) {
	var a struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &a); err != nil || a.Status != "success" {
		text := a.Error
		if text == "" {
			text = fmt.Sprintf("HTTP %d: %s", code, strings.ToValidUTF8(string(data[:min(len(data), maxProblem)]), "?"))
		}
		return nil, fmt.Errorf("the store says: %s", text[:min(len(text), maxProblem)])
	}
	switch a.Data.ResultType {
	case "scalar", "string":
		var p point
		if err := json.Unmarshal(a.Data.Result, &p); err != nil {
			return nil, fmt.Errorf("the store's answer is malformed: %w", err)
		}
		return []machine.Series{{Samples: []machine.Sample{p.sample()}}}, nil
	case "vector", "matrix":
	default:
		return nil, fmt.Errorf("the store's answer is of the type %.64q, which is none", a.Data.ResultType)
	}
	var rows []struct {
		Metric map[string]string `json:"metric"`
		Value  *point            `json:"value"`
		Values []point           `json:"values"`
	}
	if err := json.Unmarshal(a.Data.Result, &rows); err != nil {
		return nil, fmt.Errorf("the store's answer is malformed: %w", err)
	}
	out := make([]machine.Series, 0, len(rows))
	for _, row := range rows {
		s := machine.Series{Labels: row.Metric}
		if row.Value != nil {
			s.Samples = append(s.Samples, row.Value.sample())
		}
		for _, p := range row.Values {
			s.Samples = append(s.Samples, p.sample())
		}
		if len(s.Samples) > maxSamples {
			return nil, fmt.Errorf("a series has more than %d samples; take a longer step", maxSamples)
		}
		out = append(out, s)
	}
	return out, nil
}

// point is [SECONDS, "VALUE"].
type point struct {
	at    float64
	value string
}

func (p *point) UnmarshalJSON(data []byte) error {
	parts := []any{&p.at, &p.value}
	n := len(parts)
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != n {
		return fmt.Errorf("a sample has %d parts instead of %d", len(parts), n)
	}
	return nil
}

func (p *point) sample() machine.Sample { return machine.Sample{At: p.at, Value: p.value} }
