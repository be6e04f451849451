package answers

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/cluster"
	"spore/services/logs"
	"spore/wire/nodeapi"
)

// storeNode is a node of a cluster with a store of logs, which is on kafka-1. h is the store's program; nil is none.
func storeNode(t *testing.T, name string, h http.HandlerFunc) *node.Machine {
	t.Helper()
	machines, _, _ := nodetest.BrokersOf(t, func(c *cluster.Config) {
		c.Cluster.Services = append(c.Cluster.Services, logs.Name)
		c.Services = append(c.Services, &logs.Settings{})
		c.Cluster.Nodes[0].Roles = append(c.Cluster.Nodes[0].Roles, logs.Role)
	}, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	m := machines[name]
	m.Say = func(text string) { t.Log(text) }
	if h != nil {
		socket := m.Root.At(logs.TakerSocket)
		require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
		l, err := net.Listen("unix", socket)
		require.NoError(t, err)
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		server.Start()
		t.Cleanup(server.Close)
	}
	return m
}

// brought brings a batch to a node as a caller.
func brought(t *testing.T, m *node.Machine, from nodeapi.Caller, body io.Reader) *httptest.ResponseRecorder {
	t.Helper()
	c, n, err := m.Self()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, nodeapi.EntriesPath, body)
	r.Header.Set("Content-Type", "application/vnd.fdo.journal")
	r.Header.Set("Content-Encoding", "zstd")
	r.Header.Set(nodeapi.EntriesOf, "kafka-3") // forged
	r.Header.Set("Cookie", "x=y")
	r.Header.Set("Date", "Thu, 26 Nov 2026 12:00:00 GMT")
	row := entriesRow(m, c, n)
	r.Body = http.MaxBytesReader(w, r.Body, row.Body)
	row.Handle(w, r, from)
	return w
}

func TestABatchGoesToTheStoreWithTheNameOfTheCertificate(t *testing.T) {
	var from []string
	var got string
	m := storeNode(t, "kafka-1", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		from, got = append(from, r.Header.Values(nodeapi.EntriesOf)...), string(data)
		if r.Header.Get("Cookie") != "" || r.Header.Get("Date") != "Thu, 26 Nov 2026 12:00:00 GMT" || r.URL.Path != nodeapi.EntriesPath || r.Header.Get("Content-Encoding") != "zstd" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if got == "later" {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Set-Cookie", "x=y")
			http.Error(w, "the queue is full", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	w := brought(t, m, nodeapi.Caller{Name: "kafka-2", Roles: nodeapi.Senders()}, strings.NewReader("batch"))
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Equal(t, "batch", got)
	require.Equal(t, []string{"kafka-2"}, from)
	w = brought(t, m, nodeapi.Caller{Name: "kafka-2"}, strings.NewReader("later"))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "7", w.Header().Get("Retry-After"))
	require.Empty(t, w.Header().Get("Set-Cookie"))
	require.Equal(t, "the queue is full\n", w.Body.String())
	w = brought(t, m, nodeapi.Caller{Name: "kafka-2"}, bytes.NewReader(make([]byte, nodeapi.MaxPackedEntries+1)))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, w.Body)
}

func TestWhoIsNoNodeOfTheConfigurationBringsNothing(t *testing.T) {
	m := storeNode(t, "kafka-1", func(http.ResponseWriter, *http.Request) { t.Error("it was handed over") })
	for _, from := range []nodeapi.Caller{
		{}, {Name: "kafka-9"}, {Name: "../nodes/kafka-2"}, {Name: "kafka-2\x00"}, {Name: "."}, {Name: strings.Repeat("x", 300)},
		{Name: "kafka-2", Ended: true}, {Name: "kafka-2.lab.internal"},
	} {
		w := brought(t, m, from, strings.NewReader("batch"))
		require.Equal(t, http.StatusForbidden, w.Code, from.Name)
	}
}

func TestANodeWithoutAStoreTakesNothing(t *testing.T) {
	m := storeNode(t, "kafka-2", func(http.ResponseWriter, *http.Request) { t.Error("it was handed over") })
	w := brought(t, m, nodeapi.Caller{Name: "kafka-1"}, strings.NewReader("batch"))
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "kafka-2 has no store of logs")
}

func TestAStoreThatDoesNotAnswerHasTheNodeKeepItsBatch(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{"away": nil, "dies": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }} {
		w := brought(t, storeNode(t, "kafka-1", h), nodeapi.Caller{Name: "kafka-2"}, strings.NewReader("batch"))
		require.Equal(t, http.StatusServiceUnavailable, w.Code, name)
		require.Equal(t, "5", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), "see the journal of spore-logs-store.service")
	}
}

func TestItIsSaidOnceThatNobodyTakesWhatNodesLog(t *testing.T) {
	m := storeNode(t, "kafka-1", nil)
	var said []string
	m.Say = func(text string) { said = append(said, text) }
	c, n, err := m.Self()
	require.NoError(t, err)
	row := entriesRow(m, c, n)
	for _, name := range []string{"kafka-2", "kafka-3", "kafka-2"} {
		r := httptest.NewRequest(http.MethodPost, nodeapi.EntriesPath, strings.NewReader("batch"))
		w := httptest.NewRecorder()
		row.Handle(w, r, nodeapi.Caller{Name: name})
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	}
	require.Len(t, said, 1)
	require.Contains(t, said[0], "hand over what kafka-2 logs")
}
