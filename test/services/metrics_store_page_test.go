//go:build e2e

package services

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/verbs/verbstest"
	"spore/builder/cmd/verb"
	"spore/builder/entrance"
	"spore/builder/metricspage"
	"spore/cluster/facts"
	"spore/test/testca"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// The page of the real store, through the verb of the node's API and the server of the operator's machine.
func TestThePageOfTheStoreOfMetrics(t *testing.T) {
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.start()
	s.post("/api/v1/import/prometheus", strings.NewReader("planted{line=\"7\"} 42\n"))
	s.flush()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := verb.Row("metrics-page")
	h, way, err := metricspage.New(metricspage.Options{Host: l.Addr().String(), Random: rand.Reader, Check: v.Check,
		Ask: func(_ context.Context, o nodeapi.Order, take func(machine.Page) error) error {
			events, _, err := verbstest.Do(t, s.machine, s.cluster, &facts.Node{Name: "observer-01"}, s.at.Page, o)
			for _, e := range events {
				var p machine.Page
				if err := json.Unmarshal(e.Result, &p); err != nil {
					return err
				}
				if err := take(p); err != nil {
					return err
				}
			}
			return err
		}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- entrance.Serve(ctx, l, h) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := http.Client{Jar: jar, Timeout: 30 * time.Second}
	get := func(path string) (int, string) {
		r, err := browser.Get("http://" + l.Addr().String() + path)
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(text)
	}

	code, _ := get("/vmui/")
	require.Equal(t, http.StatusForbidden, code, "before the address was opened")
	code, index := get(way)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, index, `<div id="root">`)
	files := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(index, -1)
	require.Greater(t, len(files), 4)
	for _, f := range files {
		code, text := get("/vmui/" + f[1])
		require.Equal(t, http.StatusOK, code, f[1])
		require.NotEmpty(t, text, f[1])
	}
	for _, path := range []string{
		"/vmui/config.json", "/vmui/timezone", "/api/v1/labels", "/api/v1/label/line/values", "/api/v1/label/__name__/values?match[]=planted", "/api/v1/status/tsdb?topN=10",
		"/api/v1/status/top_queries", "/api/v1/status/active_queries", "/api/v1/metadata",
	} {
		code, text := get(path)
		require.Equal(t, http.StatusOK, code, "%s: %s", path, text)
	}
	_, text := get("/api/v1/label/line/values")
	require.JSONEq(t, `{"status":"success","data":["7"]}`, text)
	require.Eventually(t, func() bool {
		_, text := get("/api/v1/query?query=planted&nocache=1")
		return strings.Contains(text, `"42"`)
	}, time.Minute, time.Second)

	for _, path := range []string{
		"/api/v1/admin/tsdb/delete_series?match[]=planted", "/api/v1/import/prometheus", "/snapshot/create", "/internal/force_merge", "/flags", "/metrics", "/api/v1/export?match[]=planted",
		"/-/reload", "/debug/pprof/cmdline", "/vmui/..%2fflags",
	} {
		code, _ := get(path)
		require.Equal(t, http.StatusNotFound, code, path)
	}
	_, text = get("/api/v1/series?match[]=planted")
	require.Contains(t, text, "planted", "nothing was deleted")
	code, text = get("/api/v1/query?query=sum(")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "error", "the store's own words")
}
