package answers

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/wire/nodeapi"
)

// scraped asks the row of metrics of a node whose collector answers by h; nil is none.
func scraped(t *testing.T, h http.HandlerFunc, header http.Header) (*httptest.ResponseRecorder, *node.Machine) {
	t.Helper()
	m, c, _ := nodetest.BrokersWithKeys(t, "127.0.0.1")
	one := m["kafka-1"]
	if h != nil {
		socket := one.Root.At(ask.Socket)
		require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
		l, err := net.Listen("unix", socket)
		require.NoError(t, err)
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
		server.Start()
		t.Cleanup(server.Close)
	}
	_, n, err := one.Self()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, nodeapi.MetricsPath, nil)
	r.Header = header
	metricsRow(one, c, n, nil).Handle(w, r, nodeapi.Caller{})
	return w, one
}

func TestTheCollectorIsToldWhatFollowsFromTheConfiguration(t *testing.T) {
	var q ask.Question
	w, _ := scraped(t, func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, json.NewDecoder(r.Body).Decode(&q))
		require.Equal(t, ask.Path, r.URL.Path)
		require.Equal(t, "application/openmetrics-text", r.Header.Get("Accept"))
		require.Empty(t, r.Header.Get("Authorization"), "nothing else of the request is passed on")
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
		w.Header().Set("Set-Cookie", "x=y")
		_, _ = io.WriteString(w, "# EOF\n")
	}, http.Header{"Accept": {"application/openmetrics-text"}, "Authorization": {"x"}})
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "# EOF\n", w.Body.String())
	require.Equal(t, "application/openmetrics-text; version=1.0.0", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get("Set-Cookie"))
	require.Contains(t, q.Programs, "kafka")
	require.NotZero(t, q.Broker)
}

func TestANodeWhoseCollectorDoesNotAnswerSaysSo(t *testing.T) {
	w, _ := scraped(t, nil, nil)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "see the journal of spore-metrics.service")
}

func TestAnAnswerThatIsCutOffHasNoEnd(t *testing.T) {
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		scraped(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, strings.Repeat("x", 10))
		}, nil)
	})
}

func TestAnAnswerThatDoesNotEndIsCutOff(t *testing.T) {
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		scraped(t, func(w http.ResponseWriter, _ *http.Request) {
			part := make([]byte, 1<<20)
			for range ask.MaxAnswer>>20 + 1 {
				_, _ = w.Write(part)
			}
		}, nil)
	})
}

func TestACollectorThatJustEndsIsAskedAgain(t *testing.T) {
	var times atomic.Int64
	w, _ := scraped(t, func(w http.ResponseWriter, r *http.Request) {
		if times.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&ask.Question{}), "the whole question")
		_, _ = io.WriteString(w, "# EOF\n")
	}, nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "# EOF\n", w.Body.String())
	w, _ = scraped(t, func(http.ResponseWriter, *http.Request) {
		times.Add(1)
		panic(http.ErrAbortHandler)
	}, nil)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.EqualValues(t, 4, times.Load(), "once more, and no more")
}

func TestConditionsThatComeLateAreToldNextTime(t *testing.T) {
	goOn := make(chan struct{})
	l := &latest{find: func() []nodeapi.Condition {
		<-goOn
		return []nodeapi.Condition{{Name: "agent", State: nodeapi.OK}}
	}}
	require.Nil(t, l.within(context.Background(), time.Millisecond))
	close(goOn)
	require.Len(t, l.within(context.Background(), time.Minute), 1)
	l.at = time.Now().Add(-2 * healthKept)
	l.find = func() []nodeapi.Condition { select {} }
	require.Nil(t, l.within(context.Background(), time.Millisecond), "they are too old")
}
