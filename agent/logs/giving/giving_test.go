package giving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/spool"
	"spore/services/logs/store"
)

// open opens a queue with a consumer for each receiver.
func open(t *testing.T, dir string, receivers []store.Receiver) *spool.Spool {
	t.Helper()
	var consumers []spool.Consumer
	for _, r := range receivers {
		consumers = append(consumers, spool.Consumer{Name: Consumer(r.Name)})
	}
	s, err := spool.Open(spool.Options{Dir: dir, Bound: 64 << 20, Consumers: consumers, Now: time.Now,
		Say: func(s string) { t.Log(s) }})
	require.NoError(t, err)
	return s
}

func fileOf(name string, least int, sources ...string) store.Receiver {
	return store.Receiver{Name: name, Sources: sources, Least: least, File: &store.FileReceiver{Size: 64 << 20}}
}

func lines(from, to int) []byte {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"_time":%q,"_msg":"entry %d","_SPORE_SOURCE":"journal","node":"n","PRIORITY":"%d","__CURSOR":"i=%x"}`+"\n",
			time.Now().UTC().Format(time.RFC3339Nano), i, i%8, i)
	}
	return []byte(b.String())
}

// count is how many lines a file has.
func count(path string) int {
	data, _ := os.ReadFile(path)
	return strings.Count(string(data), "\n")
}

// run gives to all receivers until the function that it returns is called.
func run(t *testing.T, q *spool.Spool, o Options) (g *Giving, stop func()) {
	t.Helper()
	g = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, r := range o.Receivers {
		reader, err := q.Reader(Consumer(r.Name))
		require.NoError(t, err)
		run := g.Begin(r, reader)
		all.Go(func() {
			if err := errors.Join(run(ctx), reader.Close()); ctx.Err() == nil {
				t.Errorf("%s: %s", r.Name, err)
			}
		})
	}
	return g, func() {
		cancel()
		all.Wait()
	}
}

func TestOneThatHangsHoldsUpNoOther(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	var taken atomic.Int64
	takes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		taken.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(takes.Close)
	all := []string{"journal", "pod", "audit"}
	receivers := []store.Receiver{
		{Name: "silent", Sources: all, Least: 7, Syslog: &store.Syslog{Address: silent.Addr().String(), Transport: "tls"}},
		{Name: "gone", Sources: all, Least: 7, Syslog: &store.Syslog{Address: "127.0.0.1:1", Transport: "tcp"}},
		{Name: "hangs", Sources: all, Least: 7, Loki: &store.Loki{URL: hangs.URL}},
		{Name: "endless", Sources: all, Least: 7, Elasticsearch: &store.Elasticsearch{URL: endless.URL, Index: "logs"}},
		{Name: "takes", Sources: all, Least: 7, Loki: &store.Loki{URL: takes.URL}},
		{Name: "broken", Sources: all, Least: 7, Loki: &store.Loki{URL: "x"}},
		fileOf("some", 3, "journal"), fileOf("every", 7, all...),
	}
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "spool"), receivers)
	var mu sync.Mutex
	var said []string
	g, stop := run(t, s, Options{Receivers: receivers, Dir: dir, Now: time.Now, Say: func(s string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, s)
	}})
	require.NoError(t, s.Append(t.Context(), lines(0, 80)))
	every := filepath.Join(dir, store.GiveDir, "every.log")
	require.Eventually(t, func() bool { return count(every) == 80 && taken.Load() == 1 }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return count(filepath.Join(dir, store.GiveDir, "some.log")) == 40 }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		metrics := string(g.Metrics())
		return !strings.Contains(metrics, `failures_total{receiver="endless"} 0`) &&
			!strings.Contains(metrics, `failures_total{receiver="gone"} 0`) &&
			!strings.Contains(metrics, `failures_total{receiver="broken"} 0`) &&
			s.Lag(Consumer("every")).Bytes == 0 && s.Lag(Consumer("takes")).Bytes == 0 && s.Lag(Consumer("some")).Bytes == 0
	}, 20*time.Second, 10*time.Millisecond)
	metrics := string(g.Metrics())
	for _, want := range []string{
		`spore_logs_given_total{receiver="every"} 80`, `spore_logs_given_total{receiver="takes"} 80`,
		`spore_logs_given_total{receiver="gone"} 0`, `spore_logs_give_filtered_total{receiver="some"} 40`,
		`spore_logs_give_refused_total{receiver="hangs"} 0`, `spore_logs_given_total{receiver="broken"} 0`,
	} {
		require.Contains(t, metrics, want)
	}
	require.Zero(t, s.Lag(Consumer("every")).Bytes)
	require.NotZero(t, s.Lag(Consumer("hangs")).Bytes)
	stop()
	require.NoError(t, s.Close())
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, strings.Join(said, "\n"), "give to gone: connect to the syslog server: ")
	require.Contains(t, strings.Join(said, "\n"), "give to broken: the url is malformed")
	require.Contains(t, strings.Join(said, "\n"), "give to endless: the answer of the HTTP server has more than ")
}

func TestAFileHasEachLineOnceOverStarts(t *testing.T) {
	receivers := []store.Receiver{fileOf("plant", 7, "journal")}
	dir := t.TempDir()
	path := filepath.Join(dir, store.GiveDir, "plant.log")
	for i := range 4 {
		s := open(t, filepath.Join(dir, "spool"), receivers)
		_, stop := run(t, s, Options{Receivers: receivers, Dir: dir, Now: time.Now, Say: func(s string) { t.Log(s) }})
		require.NoError(t, s.Append(t.Context(), lines(i*100, i*100+100)))
		require.Eventually(t, func() bool { return count(path) == i*100+100 }, 20*time.Second, 10*time.Millisecond)
		stop()
		require.NoError(t, s.Close())
		// As after a loss of power, the queue has an older position.
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "spool", "positions")))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range 400 {
		require.Equal(t, 1, strings.Count(string(data), fmt.Sprintf(`"entry %d"`, i)), i)
	}
}

func TestSettingsThatAreMalformed(t *testing.T) {
	for want, r := range map[string]store.Receiver{
		"neither syslog, loki":       {Name: "x"},
		"certificates of ca":         {Name: "x", Syslog: &store.Syslog{CA: "nonsense"}},
		"the url is malformed":       {Name: "x", Loki: &store.Loki{URL: "x"}},
		"the url is":                 {Name: "x", Elasticsearch: &store.Elasticsearch{URL: "ftp://x"}},
		"the name is none of a file": {Name: "../x", File: &store.FileReceiver{Size: 1}},
	} {
		_, err := receiverOf(r, Options{})
		require.ErrorContains(t, err, want)
	}
}
