package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/logs/logsql"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/services/logs"
	"spore/storage/atomicfile"
	"spore/wire/machine"
)

const (
	// maxLine bounds one line of the store's answer, in bytes; it has to fit into an event, too (nodeapi.MaxEvent).
	maxLine = 768 << 10
	// maxProblem is what is told of the store's complaint, in bytes, and maxRows how many rows of a count are read.
	maxProblem = 2 << 10
	maxRows    = 100_000
	// recent is the time in which nearly every node has written something, and day the time for the others.
	recent = 10 * time.Minute
	day    = 24 * time.Hour
)

// kept is for how long entries are kept, and the day of which some are left.
func kept(r *verbs.Run) time.Duration {
	return time.Duration(logs.Of(r.Cluster.Services).KeptDays())*day + day
}

// Store is where the store of this node listens; tests have their own.
type Store struct{ Address string }

// Here is the store of a node.
func Here() Store {
	return Store{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(logs.Port))}
}

// newest is when the last entry of each node's journal was written that the store has.
func (s Store) newest(ctx context.Context, r *verbs.Run, q asked) (map[string]time.Time, error) {
	of := logsql.Filter{Nodes: q.Nodes, Sources: []string{machine.LogJournal}}
	now := r.Machine.Now()
	out := map[string]time.Time{}
	for _, begin := range []time.Time{now.Add(-recent), now.Add(-day)} {
		of.Without = slices.Sorted(maps.Keys(out))
		if len(q.Nodes) > 0 && len(of.Without) >= len(q.Nodes) {
			break
		}
		err := s.lines(ctx, r, of.Newest(), begin, now.Add(future), maxRows, func(fields map[string]string) error {
			at, err := time.Parse(time.RFC3339Nano, fields["newest"])
			if err != nil {
				return fmt.Errorf("the store's answer is malformed: a node has the time %.64q", fields["newest"])
			}
			out[fields[logsql.Node]] = at
			return nil
		}, new(int))
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// boots are the ids of the start that is asked for: 0 is the last of each node, -1 the one before.
func (s Store) boots(ctx context.Context, r *verbs.Run, q asked, boot string) ([]string, error) {
	back, _ := strconv.Atoi(boot) // The table of verbs has checked it.
	type start struct {
		id   string
		last time.Time
	}
	starts := map[string][]start{}
	of := logsql.Filter{Nodes: q.Nodes, Sources: []string{machine.LogJournal}}
	from := time.Unix(1, 0)
	err := s.lines(ctx, r, of.BootsOf(), from, r.Machine.Now().Add(future), maxRows, func(fields map[string]string) error {
		at, err := time.Parse(time.RFC3339Nano, fields["newest"])
		if err != nil {
			return fmt.Errorf("the store's answer is malformed: a start has the time %.64q", fields["newest"])
		}
		node := fields[logsql.Node]
		starts[node] = append(starts[node], start{fields["_BOOT_ID"], at})
		return nil
	}, new(int))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, node := range slices.Sorted(maps.Keys(starts)) {
		of := starts[node]
		slices.SortFunc(of, func(a, b start) int { return b.last.Compare(a.last) })
		if -back < len(of) {
			out = append(out, of[-back].id)
		}
	}
	return out, nil
}

// errBroken is the error of an answer that the store broke off. VictoriaLogs does that to a search that takes too long:
// it answers 503, or, where it has begun an answer, writes a line that is no HTTP and closes the connection
// (VictoriaMetrics, lib/httpserver, Errorf). What it has not flushed by then is lost, even the answer's first line.
var errBroken = errors.New("the store broke off its answer, as it does when a search takes it longer than a minute; " +
	"ask for less time, for single nodes or units, or for whole words")

// lines asks the store, and calls each for every row of its answer. It counts rows that are too long.
func (s Store) lines(
	ctx context.Context, r *verbs.Run, query string, begin, end time.Time, limit int, each func(map[string]string) error, long *int,
) error {
	if len(query) > logsql.MaxQuery {
		return fmt.Errorf("this question has %d bytes, and the store takes %d; ask for fewer nodes", len(query), logsql.MaxQuery)
	}
	form := url.Values{
		"query": {query}, "limit": {strconv.Itoa(limit)},
		"start": {begin.UTC().Format(time.RFC3339Nano)}, "end": {end.UTC().Format(time.RFC3339Nano)},
	}
	answer, err := s.do(ctx, r, "/select/logsql/query", form)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
		said := strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
		if answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(said, "couldn't be executed in") {
			return fmt.Errorf("%w (%s)", errBroken, said)
		}
		return fmt.Errorf("the store says: HTTP %d: %s", answer.StatusCode, said)
	}
	in := bufio.NewReaderSize(answer.Body, maxLine)
	for rows := 0; ; rows++ {
		line, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w (%w)", errBroken, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if rows >= limit {
				return fmt.Errorf("the store answers more than the %d rows that it was asked for", limit)
			}
			if tooLong {
				*long++
			} else if bad := row(line, each); bad != nil {
				var syntax *json.SyntaxError
				if errors.As(bad, &syntax) { // Behind the reason for which it breaks off, there is no end of the answer.
					if _, err := io.Copy(io.Discard, io.LimitReader(in, maxLine)); err != nil {
						return fmt.Errorf("%w (%w)", errBroken, err)
					}
				}
				return bad
			}
		}
		if err != nil {
			return nil
		}
	}
}

// row reads one row.
func row(line []byte, each func(map[string]string) error) error {
	var fields map[string]string
	if err := json.Unmarshal(line, &fields); err != nil {
		return fmt.Errorf("the store's answer is malformed: %w", err)
	}
	return each(fields)
}

// do asks the store with its password. The body of the answer is to be closed.
func (s Store) do(ctx context.Context, r *verbs.Run, path string, form url.Values) (*http.Response, error) {
	file := r.Machine.Root.At(filepath.Join(paths.Secrets, logs.Program, logs.PasswordEntry))
	password, err := atomicfile.ReadLimited(file, 4<<10)
	if err != nil {
		return nil, fmt.Errorf("the password of the store: %w", err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Address+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("internal error: %w", err)
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.SetBasicAuth(logs.User, strings.TrimRight(string(password), "\n"))
	// Without proxies of an environment, and without another address: the password is for the store.
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(q)
	if refused := new(net.OpError); err != nil && ctx.Err() == nil && !(errors.As(err, &refused) && refused.Op == "dial") {
		return nil, fmt.Errorf("%w (%w)", errBroken, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the store, %s: %w", logs.Unit, err)
	}
	return answer, nil
}
