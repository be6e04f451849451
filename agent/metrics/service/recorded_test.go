package service

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/paths"
)

// TestEachFamilyOfTheTableIsOfTheProgram holds the table to what the programs of the image said, which were started
// with the settings that a node renders: Felix beside an etcd with nothing in it, the others alone.
func TestEachFamilyOfTheTableIsOfTheProgram(t *testing.T) {
	for program, tt := range map[string]struct {
		recorded string
		// later are families that the program tells of only when something has happened.
		later []string
	}{
		"calico-node": {"calico-node-3.31.0", nil},
		"cluster-dns": {"cluster-dns-1.15.0", []string{
			"coredns_kubernetes_dns_programming_duration_seconds", "coredns_proxy_request_duration_seconds",
		}},
		// Its names are in internal/cri/server/metrics.go, to which github.com/docker/go-metrics adds _total and _seconds.
		"containerd": {"containerd-2.4.2", []string{
			"containerd_cri_sandbox_runtime_create_seconds", "containerd_cri_container_create_seconds",
			"containerd_cri_container_start_seconds", "containerd_cri_container_stop_seconds",
			"containerd_cri_network_plugin_operations_total_total",
			"containerd_cri_network_plugin_operations_errors_total_total",
		}},
	} {
		t.Run(program, func(t *testing.T) {
			answer, err := os.ReadFile("testdata/" + tt.recorded)
			require.NoError(t, err)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
			t.Cleanup(server.Close)
			source := Sources(paths.Root(t.TempDir()), []Endpoint{{Program: program, URL: server.URL}})[0]
			all, err := source.Ask(t.Context(), ask.Question{})
			require.NoError(t, err, "each is of the type that the table says")
			var want, got []string
			for _, f := range Table()[program] {
				if !slices.Contains(tt.later, f.Name) {
					want = append(want, f.Name)
				}
			}
			series := 0
			for _, f := range all {
				got = append(got, f.GetName())
				series += len(f.Metric)
			}
			require.ElementsMatch(t, want, got)
			require.Less(t, series, 100)
		})
	}
}
