// Package alerts is the verbs of alerts, on a node with the role alerts: they ask Alertmanager by its API (v2,
// api/v2/openapi.yaml of its source), which listens on this node alone and wants a password that programs of the role
// have. Where two nodes have the role, each has the alerts and the silences of both.
package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/services/metrics"
	"spore/storage/atomicfile"
)

const (
	// maxAnswer bounds what Alertmanager answers, in bytes, and maxProblem what is told of its complaint.
	maxAnswer  = 16 << 20
	maxProblem = 2 << 10
)

// Alertmanager is where that of this node listens; tests have their own.
type Alertmanager struct{ Address string }

// Here is that of a node.
func Here() Alertmanager {
	return Alertmanager{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics.PortManager))}
}

// answer is what Alertmanager answers.
type answer struct {
	status int
	data   []byte
}

// ask sends a request with the password; body is nil or becomes JSON.
func (a Alertmanager) ask(ctx context.Context, r *verbs.Run, method, path string, body any) (answer, error) {
	if !slices.Contains(r.Cluster.Members[metrics.AlertsRole], r.Node.Name) {
		return answer{}, fmt.Errorf("%s has no alerts; ask a node with the role %s", r.Node.Name, metrics.AlertsRole)
	}
	file := r.Machine.Root.At(filepath.Join(paths.Secrets, metrics.Manager, metrics.AlertsPassword))
	password, err := atomicfile.ReadLimited(file, 4<<10)
	if err != nil {
		return answer{}, fmt.Errorf("the password of Alertmanager: %w", err)
	}
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("internal error: %w", err)
		}
		content = bytes.NewReader(data)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+a.Address+path, content)
	if err != nil {
		return answer{}, fmt.Errorf("internal error: %w", err)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	q.SetBasicAuth(metrics.User, strings.TrimRight(string(password), "\n"))
	// Without proxies of an environment, and without another address: the password is for Alertmanager.
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(q)
	if err != nil {
		return answer{}, fmt.Errorf("ask Alertmanager, %s: %w", metrics.ManagerUnit, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read what Alertmanager answers: %w", err)
	case len(data) > maxAnswer:
		return answer{}, fmt.Errorf("the answer of Alertmanager has more than %d MiB", maxAnswer>>20)
	}
	return answer{res.StatusCode, data}, nil
}

// get asks for something and reads it.
func get[T any](ctx context.Context, a Alertmanager, r *verbs.Run, path string, read func([]byte) (T, error)) (T, error) {
	var none T
	got, err := a.ask(ctx, r, http.MethodGet, path, nil)
	if err != nil {
		return none, err
	}
	if got.status != http.StatusOK {
		return none, got.problem()
	}
	return read(got.data)
}

// problem is what Alertmanager complains of: a string of JSON, an object with a message, or text.
func (a answer) problem() error {
	var text string
	var object struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(a.data, &text) == nil && text != "":
	case json.Unmarshal(a.data, &object) == nil && object.Message != "":
		text = object.Message
	default:
		text = strings.TrimSpace(string(a.data))
	}
	return fmt.Errorf("alertmanager says: HTTP %d: %s", a.status, clip(text, maxProblem))
}

// clip is a text of at most that many bytes, and of valid UTF-8.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
