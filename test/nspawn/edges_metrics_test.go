//go:build e2e

package nspawn

import (
	"bytes"
	"context"
	"crypto/rand"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	collector "spore/agent/metrics/ask"
	"spore/pki"
	"spore/wire/nodeapi"
)

// ofOthers are names of node_exporter that promlint does not like.
var ofOthers = regexp.MustCompile(`^(node|go|process|coredns)_`)

// scraper asks a node for its metrics, as a Prometheus does.
func (l *Lab) scraper(t *testing.T, n *Node) (scrape func() []byte) {
	t.Helper()
	made, err := l.Keys.Access(&l.Cluster, pki.NodeScraper, "prometheus", time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	client := nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}, nil
		},
		Addresses: func(string) ([]string, error) { return n.Facts.IPs, nil },
	}
	return func() []byte {
		text, err := client.Read(context.Background(), n.Facts.Name, nodeapi.Request{Path: nodeapi.MetricsPath}, collector.MaxAnswer)
		require.NoError(t, err)
		return text
	}
}

// edgeTellsMetrics scrapes a node as a scraper, and looks at what that costs it.
func edgeTellsMetrics(t *testing.T, l *Lab, edge *Node) {
	active := func() string {
		return edge.MustExec("systemctl", "show", "--property=ActiveState", "--value", "spore-metrics.service")
	}
	require.Equal(t, "inactive", active(), "nobody has asked")
	scrape := l.scraper(t, edge)
	scrape()
	const scrapes = 20
	quickest, text := time.Hour, []byte(nil)
	before := cpuOf(t, edge)
	for range scrapes {
		begun := time.Now()
		text = scrape()
		quickest = min(quickest, time.Since(begun))
	}
	spent := (cpuOf(t, edge) - before) / scrapes
	require.Less(t, quickest, 150*time.Millisecond, "with the connection and its TLS")
	require.Less(t, spent, 150*time.Millisecond, "1 % of a processor at a scrape every 15 seconds")
	memory := edge.MustExec("sh", "-ec", "grep VmHWM /proc/$(systemctl show --property=MainPID --value spore-metrics.service)/status")
	kib, err := strconv.Atoi(strings.Fields(memory)[1])
	require.NoError(t, err)
	require.Less(t, kib, 25<<10, "KiB of memory at most")
	t.Logf("%d bytes, at best %s, %s of processor time a scrape, %d KiB", len(text), quickest, spent, kib)

	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	for _, name := range []string{
		"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "node_filesystem_avail_bytes",
		"node_network_receive_bytes_total", "node_systemd_unit_state", "node_systemd_service_restart_total",
		"spore_version_info", "spore_condition",
		"spore_certificate_end_timestamp_seconds", "spore_authority_end_timestamp_seconds", "coredns_dns_requests_total",
		"mosquitto_clients_connected", "mosquitto_uptime_seconds",
	} {
		require.Contains(t, all, name)
	}
	require.True(t, has(all["node_systemd_unit_state"], 1, "mosquitto.service", "active"))
	require.True(t, has(all["spore_role"], 1, "dns-server"))
	require.True(t, has(all["spore_source_up"], 1, "coredns"))
	require.True(t, has(all["spore_source_up"], 1, "mosquitto"))
	require.True(t, has(all["spore_source_up"], 1, "units"))
	require.True(t, has(all["spore_source_up"], 1, "node"))
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.Regexp(t, ofOthers, p.Metric, p.Text)
	}
}

// has tells whether a family has a series with a value and, among its labels, these.
func has(f *dto.MetricFamily, value float64, labels ...string) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		return m.GetGauge().GetValue() == value && !slices.ContainsFunc(labels, func(want string) bool {
			return !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == want })
		})
	})
}

// cpuOf is the processor time of the collector.
func cpuOf(t *testing.T, n *Node) time.Duration {
	text := n.MustExec("sh", "-ec", "cat /proc/$(systemctl show --property=MainPID --value spore-metrics.service)/stat")
	_, rest, ok := strings.Cut(text, ") ")
	require.True(t, ok)
	fields, sum := strings.Fields(rest), 0
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second (proc_pid_stat(5))
		n, err := strconv.Atoi(f)
		require.NoError(t, err)
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
