package feed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/spool"
)

// logs is a VictoriaLogs: it has what it took in memory, and on disk what it took a while ago.
type logs struct {
	mu             sync.Mutex
	start, taken   int
	memory, disk   []string
	at             []time.Time
	readOnly, away bool
	status         int
	flush          time.Duration
}

func (l *logs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case l.away:
		panic(http.ErrAbortHandler)
	case user != "spore" || password != "secret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/metrics":
		full := 0
		if l.readOnly {
			full = 1
		}
		fmt.Fprintf(w, "# HELP x\nprocess_start_time_seconds %d\nvl_storage_is_read_only{path=\"/a b\"} %d\nvl_rows_ingested_total{type=\"jsonline\"} %d\n",
			l.start, full, l.taken)
	case l.readOnly:
		http.Error(w, "read-only mode", http.StatusTooManyRequests)
	case l.status != 0:
		http.Error(w, "no", l.status)
	case r.URL.Path == "/insert/jsonline":
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("nonsense")) {
			http.Error(w, "what is that?", http.StatusBadRequest)
			return
		}
		for line := range bytes.Lines(body) {
			l.memory, l.at = append(l.memory, string(line)), append(l.at, time.Now())
			l.taken++
		}
	default:
		http.NotFound(w, r)
	}
}

// write has what is old enough be on disk; kill loses the rest.
func (l *logs) write() {
	for len(l.at) > 0 && time.Since(l.at[0]) >= l.flush {
		l.disk, l.memory, l.at = append(l.disk, l.memory[0]), l.memory[1:], l.at[1:]
	}
}

func (l *logs) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	l.memory, l.at, l.taken, l.start = nil, nil, 0, l.start+1
}

func (l *logs) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// bench has a feeder run between a spool and a VictoriaLogs.
func bench(t *testing.T) (*spool.Spool, *logs, *Feeder) {
	t.Helper()
	dir := t.TempDir()
	s, err := spool.Open(spool.Options{
		Dir: filepath.Join(dir, "spool"), Bound: 1 << 20, Consumers: []spool.Consumer{{Name: "victoria-logs", Keeps: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	q, err := s.Reader("victoria-logs")
	require.NoError(t, err)
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	l := &logs{start: 100, flush: 100 * time.Millisecond}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	f := New(Options{
		Queue: q, URL: server.URL, User: "spore", PasswordFile: password, Say: func(text string) { t.Log(text) },
		Settled: 300 * time.Millisecond, Look: 20 * time.Millisecond, Linger: time.Millisecond, Wait: 5 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return s, l, f
}

// settledIn waits until all are certain: a feeder that has failed for a while tries again after mostWait.
func settledIn(t *testing.T, s *spool.Spool) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Lag("victoria-logs").Bytes == 0 }, 3*mostWait, 10*time.Millisecond)
}

func TestNothingIsLostWhenVictoriaLogsDies(t *testing.T) {
	s, l, f := bench(t)
	const many = 400
	for i := range many {
		require.NoError(t, s.Append(t.Context(), fmt.Appendf(nil, "{\"n\":%d}\n", i)))
		if i%80 == 40 {
			l.kill()
		}
		time.Sleep(time.Millisecond)
	}
	settledIn(t, s)
	l.kill()
	seen := map[string]bool{}
	for _, line := range l.disk {
		seen[line] = true
	}
	require.Len(t, seen, many)
	require.Positive(t, f.Counts().Again)
	require.Contains(t, string(f.Metrics()), "spore_logs_store_full 0\n")
}

func TestItWaitsAsLongAsItTakesNothing(t *testing.T) {
	s, l, f := bench(t)
	for name, set := range map[string]func(on bool){
		"away":      func(on bool) { l.away = on },
		"read-only": func(on bool) { l.readOnly = on },
		"broken": func(on bool) {
			l.status = 0
			if on {
				l.status = http.StatusInternalServerError
			}
		},
	} {
		l.change(func() { set(true) })
		before := f.Counts().Failures
		require.NoError(t, s.Append(t.Context(), []byte(name+"\n")))
		require.Eventually(t, func() bool { return f.Counts().Failures > before+3 }, 5*time.Second, time.Millisecond, name)
		require.Positive(t, s.Lag("victoria-logs").Bytes, name)
		require.Equal(t, name == "read-only", f.Counts().ReadOnly)
		l.change(func() { set(false) })
		settledIn(t, s)
		require.False(t, f.Counts().ReadOnly)
	}
	l.kill()
	require.Len(t, l.disk, 3)
}

func TestTheQueueFillsUpWhileVictoriaLogsIsAway(t *testing.T) {
	s, l, _ := bench(t)
	l.change(func() { l.away = true })
	var err error
	n := 0
	for ; err == nil; n++ {
		// Lines that compress badly fill it sooner.
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, "%x%x\n", (n*200+i)*2654435761, (n*200+i)*40503*2246822519)
		}
		err = s.Append(t.Context(), []byte(b.String()))
	}
	require.ErrorIs(t, err, spool.ErrFull)
	l.change(func() { l.away = false })
	settledIn(t, s)
	l.kill()
	require.Len(t, l.disk, (n-1)*200, "all that was taken is there, once")
}

func TestWhatItNeverTakesHoldsNothingUp(t *testing.T) {
	s, l, f := bench(t)
	l.change(func() { l.status = http.StatusBadRequest })
	require.NoError(t, s.Append(t.Context(), []byte("x\n")))
	settledIn(t, s)
	require.EqualValues(t, 1, f.Counts().Refused)
}

func TestItsStateIsFoundInItsMetrics(t *testing.T) {
	s, err := parseState(strings.NewReader("x\nprocess_start_time_seconds 1790000000\nvl_storage_is_read_only{path=\"/a b\"} 1\n" +
		"vl_storage_is_read_only{path=\"/b\"} 0\nvl_rows_ingested_total{type=\"jsonline\"} 1.5e3\nvl_rows_ingested_total{type=\"loki\"} 9\nprocess_x NaN\n"))
	require.NoError(t, err)
	require.Equal(t, state{start: 1790000000, taken: 1500, readOnly: true}, s)
	require.True(t, s.sameAs(state{start: 1790000000, taken: 1500}))
	require.False(t, s.sameAs(state{start: 1790000000, taken: 1501}))
	require.False(t, s.sameAs(state{start: 1790000001}))
	_, err = parseState(strings.NewReader(strings.Repeat("x", 100<<10)))
	require.Error(t, err)
}

func TestALineThatItNeverTakesTakesNoOtherWithIt(t *testing.T) {
	s, l, f := bench(t)
	var lines []byte
	for i := range 1000 {
		text := "good"
		if i%300 == 0 {
			text = "nonsense"
		}
		lines = fmt.Appendf(lines, "{\"n\":%d,\"x\":%q}\n", i, text)
	}
	require.NoError(t, s.Append(t.Context(), lines))
	settledIn(t, s)
	l.kill()
	require.Len(t, l.disk, 996)
	require.EqualValues(t, 4, f.Counts().Refused)
	require.EqualValues(t, 996, f.Counts().Sent)
}

func TestTheMiddleOfLines(t *testing.T) {
	for lines, want := range map[string]string{"a\nb\n": "a\n", "a\nbbbbb\n": "a\n", "aaaaa\nb\n": "aaaaa\n", "\n\n": "\n", "a\nb\nc\n": "a\nb\n"} {
		require.Equal(t, want, lines[:middle([]byte(lines))], "%q", lines)
	}
}
