//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	collector "spore/agent/metrics/ask"
	"spore/wire/nodeapi"
)

// tellsMetrics scrapes edge-01 as a reader, until all that it is made of has answered: what an emulated machine cannot
// answer in a moment is in the next answer.
func tellsMetrics(t *testing.T, at string) {
	file := filepath.Join(t.TempDir(), "prometheus.access")
	out, err := exec.Command(flashTool(t), "access", filepath.Join(sourceTree, "examples/edge"), "--pki", suite.dir,
		"--user", "prometheus", "--lifetime", "1h", "-o", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	client := reads(t, file, func(string) ([]string, error) { return []string{at}, nil })
	var all told
	down := func() (names []string) {
		for _, m := range all["spore_source_up"].GetMetric() {
			if m.GetGauge().GetValue() != 1 {
				names = append(names, m.Label[0].GetValue())
			}
		}
		return names
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		begun := time.Now()
		text, err := client.Read(ctx, "edge-01", nodeapi.Request{Path: nodeapi.MetricsPath}, collector.MaxAnswer)
		cancel()
		require.NoError(t, err)
		t.Logf("%d bytes in %s", len(text), time.Since(begun))
		all, err = parseMetrics(string(text))
		require.NoError(t, err)
		if len(down()) == 0 && all["node_cpu_seconds_total"] != nil {
			break
		}
	}
	require.Empty(t, down())
	for _, name := range []string{
		"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_disk_read_bytes_total", "node_disk_info",
		"node_filesystem_avail_bytes", "node_network_receive_bytes_total", "node_timex_sync_status",
		"node_systemd_unit_state", "spore_version_info", "spore_condition", "coredns_panics_total",
		"spore_certificate_end_timestamp_seconds",
	} {
		require.Contains(t, all, name)
	}
	require.NotContains(t, all, "spore_disk_failing", "a virtual disk says nothing of itself")
}
