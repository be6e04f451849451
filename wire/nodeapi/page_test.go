package nodeapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageOfTheStoreReadsAlone(t *testing.T) {
	v, found := FindVerb("metrics-page")
	require.True(t, found)
	for _, path := range []string{
		"/vmui/", "/vmui/index.html", "/vmui/assets/index-BiDX4bB6.js", "/vmui/config.json", "/api/v1/query", "/api/v1/query_range",
		"/api/v1/label/__name__/values", "/api/v1/label/job/values", "/api/v1/labels", "/api/v1/series", "/api/v1/status/tsdb",
	} {
		require.NoError(t, v.Check(Order{Arguments: map[string]string{"path": path, "query": "query=up&time=1"}}), path)
	}
	for _, path := range []string{
		"/", "/vmui", "vmui/", "/vmui/../metrics", "/vmui/..", "/vmui//x", "/vmui/./x", "/vmui/%2e%2e/flags", "/vmui/x?y", "/vmui/x#y", "/vmui/x y",
		"/api/v1/query/", "/api/v1/query/x", "//api/v1/query", "/api/v1/label//values", "/api/v1/label/../admin/values", "/api/v1/label/a/b/values", "/api/v1/label/x",
		"/api/v1/import", "/api/v1/import/prometheus", "/api/v1/write", "/write", "/api/v1/admin/tsdb/delete_series", "/api/v1/admin/status/metric_names_stats/reset",
		"/api/v1/export", "/federate", "/snapshot/create", "/snapshot/delete_all", "/internal/force_merge", "/internal/resetRollupResultCache", "/-/reload",
		"/flags", "/metrics", "/config", "/targets", "/debug/pprof/heap", "/tags/delSeries", "http://elsewhere/vmui/", "/vmui/" + strings.Repeat("x", maxPagePath),
	} {
		require.ErrorContains(t, v.Check(Order{Arguments: map[string]string{"path": path}}), "is not of the page", path)
	}
	require.Error(t, v.Check(Order{}), "no path")
	for _, q := range []string{"%zz", strings.Repeat("x", maxQuery+1), "a;b"} {
		require.Error(t, v.Check(Order{Arguments: map[string]string{"path": "/vmui/", "query": q}}), q)
	}
}

func FuzzPagePath(f *testing.F) {
	f.Add("/vmui/assets/a.js")
	f.Add("/api/v1/label/job/values")
	f.Fuzz(func(t *testing.T, path string) {
		if pagePath(path) == nil {
			require.NotContains(t, path, "..", "it stays where it is")
			require.NotContains(t, path, "admin")
			require.NotContains(t, path, "import")
		}
	})
}
