package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/service"
	"spore/services/logs"
	"spore/services/logs/store"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

// bench runs the program before a server, until it is stopped.
func bench(t *testing.T, dir string, h http.HandlerFunc, give ...store.Receiver) (o Options, stop func() error) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("secret"), 0o600))
	ready := make(chan struct{})
	o = Options{
		Config: store.Config{
			Cluster: "plant", Node: "store-01", Roles: map[string]string{"edge-01": "worker"}, Days: 30, Queue: 64 << 20,
			URL: server.URL, User: "spore", PasswordFile: password,
			Give: give,
		},
		Socket: filepath.Join(dir, "socket"), Metrics: filepath.Join(dir, "metrics.prom"), Data: dir,
		Ready: func() { close(ready) }, Say: func(text string) { t.Log(text) }, Now: time.Now, Floor: 1,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return o, stop
}

func TestWhatIsBroughtComesToVictoriaLogs(t *testing.T) {
	var mu sync.Mutex
	var got string
	dir := t.TempDir()
	o, stop := bench(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintln(w, "process_start_time_seconds 5")
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got += string(body)
	})
	st, err := os.Stat(o.Socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), st.Mode().Perm())
	bring(t, o)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(got, `"cluster":"plant","node":"edge-01","role":"worker"`) && strings.HasSuffix(got, `"_msg":"hello"}`+"\n")
	}, 10*time.Second, 10*time.Millisecond)
	text := told(t, o)
	require.Contains(t, text, "spore_logs_queue_bound_bytes 67108864\n")
	require.Contains(t, text, `spore_logs_queue_dropped_total{consumer="victoria-logs"} 0`+"\n")
	require.NoError(t, stop(), "it ends when it is told to")
}

// told are the counts: they are written soon after the program is ready.
func told(t *testing.T, o Options) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(o.Metrics)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return string(text)
}

// bring brings an entry of edge-01 that says hello.
func bring(t *testing.T, o Options) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
	}}}
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	batch := journalexport.Append(nil, journalexport.Entry{{Name: "MESSAGE", Value: []byte("hello")}})
	r, err := http.NewRequest(http.MethodPost, "http://store"+nodeapi.EntriesPath, bytes.NewReader(e.EncodeAll(batch, nil)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", journalexport.ContentType)
	r.Header.Set("Content-Encoding", "zstd")
	r.Header.Set(nodeapi.EntriesOf, "edge-01")
	answer, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
}

func TestWhatIsBroughtIsGivenOn(t *testing.T) {
	all := []string{"journal", "pod", "audit"}
	dir := t.TempDir()
	o, stop := bench(t, dir, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		store.Receiver{Name: "away", Sources: all, Least: 7, Syslog: &store.Syslog{Address: "127.0.0.1:1", Transport: "tls"}},
		store.Receiver{Name: "broken", Sources: all, Least: 7, Loki: &store.Loki{URL: "nonsense"}},
		store.Receiver{Name: "every", Sources: all, Least: 7, File: &store.FileReceiver{Size: 1 << 20}},
		store.Receiver{Name: "some", Sources: all, Least: 3, File: &store.FileReceiver{Size: 1 << 20}})
	bring(t, o)
	file := filepath.Join(dir, store.GiveDir, "every.log")
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(file)
		return strings.Contains(string(data), `"cluster":"plant","node":"edge-01","role":"worker"`) &&
			strings.HasSuffix(string(data), `"_msg":"hello"}`+"\n")
	}, 10*time.Second, 10*time.Millisecond)
	require.NoFileExists(t, filepath.Join(dir, store.GiveDir, "some.log"))
	text := told(t, o)
	require.Equal(t, 1, strings.Count(text, "# TYPE spore_logs_given_total counter\n"), "a metric is named once")
	require.Contains(t, text, `spore_logs_given_total{receiver="away"} 0`+"\n")
	require.Contains(t, text, `spore_logs_queue_dropped_total{consumer="give-some"} 0`+"\n")
	var tells, known []string
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, "# TYPE "); is {
			tells = append(tells, strings.Fields(name)[0])
		}
	}
	for _, f := range service.Table()[logs.Taker] {
		known = append(known, f.Name)
	}
	require.ElementsMatch(t, known, tells, "the collector of metrics knows what it tells, and nothing else")
	require.NoError(t, stop(), "it ends when it is told to")
}

func TestItDoesNotStartWithoutItsFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "queue"), nil, 0o600))
	o := Options{Config: store.Config{Queue: 64 << 20}, Data: dir, Socket: filepath.Join(dir, "socket"), Say: func(string) {}, Now: time.Now}
	require.ErrorContains(t, Run(t.Context(), o), "folder of the queue")
	o.Data, o.Socket = t.TempDir(), filepath.Join(dir, "none", "socket")
	require.ErrorContains(t, Run(t.Context(), o), "make the socket")
}
