//go:build e2e

package services

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/service"
	"spore/agent/metrics/source"
	"spore/agent/paths"
	"spore/pki"
)

// absent are families of the table that these programs tell of only when something has happened: a request that failed,
// another member, a pod, another master.
var absent = []string{
	"apiserver_flowcontrol_rejected_requests_total", "apiserver_request_terminations_total",
	"apiserver_audit_requests_rejected_total", "apiserver_tls_handshake_errors_total", "etcd_request_errors_total",
	"leader_election_master_status", "etcd_network_peer_round_trip_time_seconds", "etcd_network_peer_sent_failures_total",
	"node_collector_evictions_total", "node_collector_unhealthy_nodes_in_zone", "node_collector_zone_size",
	"scheduler_unschedulable_pods", "scheduler_pod_scheduling_sli_duration_seconds",
	"scheduler_schedule_attempts_total",
}

// TestMetricsOfAControlPlane reads etcd, the API server, the controller manager and the scheduler as the collector of a
// master does, and holds what they say to the table of families.
func TestMetricsOfAControlPlane(t *testing.T) {
	p := newControlPlane(t)
	root := p.metricsRoot()
	endpoints := slices.DeleteFunc(service.Endpoints(), func(e service.Endpoint) bool { return !slices.Contains(everyProgram, e.Program) })
	for i, e := range endpoints {
		switch e.Program {
		case "kube-apiserver":
			endpoints[i].URL = p.Server + "/metrics"
		case "kube-controller-manager", "kube-scheduler":
			endpoints[i].URL = fmt.Sprintf("https://127.0.0.1:%s/metrics", p.port(e.Program))
		}
	}
	require.Len(t, endpoints, len(everyProgram))
	q := ask.Question{Programs: append([]string{"kubernetes-bootstrap"}, everyProgram...)}

	var said []string
	sources := source.New(service.Sources(root, endpoints), time.Now, func(s string) { said = append(said, s) })
	var all []*dto.MetricFamily
	var missing []string
	// A program that has begun a moment ago tells a few families later.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		begun := time.Now()
		var err error
		all, err = sources.Gather(t.Context(), q)
		require.NoError(t, err)
		require.Less(t, time.Since(begun), time.Second, "an answer does not wait for a service")
		if missing = missingOf(all); len(missing) == 0 {
			break
		}
	}
	require.Empty(t, missing, "%v", said)
	series := 0
	for _, f := range all {
		series += len(f.Metric)
	}
	t.Logf("%d series of %d families", series, len(all))
	require.Less(t, series, 2500)
	lint(t, all)
}

// missingOf are the families of the table that the programs of a master do not tell.
func missingOf(all []*dto.MetricFamily) []string {
	have := map[string]bool{}
	for _, f := range all {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "program" {
					have[l.GetValue()+" "+f.GetName()] = true
				}
			}
		}
	}
	var out []string
	for program, rows := range service.Table() {
		for _, f := range rows {
			name := program + " " + f.Name
			if slices.Contains(everyProgram, program) && !slices.Contains(absent, f.Name) && !have[name] {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// lint has promlint look at families; what it says of the names of others stays as it is.
func lint(t *testing.T, all []*dto.MetricFamily) {
	t.Helper()
	var text bytes.Buffer
	for _, f := range all {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	problems, err := promlint.New(&text).Lint()
	require.NoError(t, err)
	for _, problem := range problems {
		require.False(t, strings.HasPrefix(problem.Metric, "spore_"), "%s: %s", problem.Metric, problem.Text)
	}
}

// metricsRoot is the root of a node with what the collector reads.
func (p *controlPlane) metricsRoot() paths.Root {
	p.t.Helper()
	root := p.t.TempDir()
	c, err := p.Credentials("master-01", "kubernetes-bootstrap", "kubernetes-agent")
	require.NoError(p.t, err)
	secrets := filepath.Join(root, paths.Secrets, "kubernetes-bootstrap")
	require.NoError(p.t, os.MkdirAll(secrets, 0o700))
	require.NoError(p.t, os.WriteFile(filepath.Join(secrets, "kubernetes-agent-certificate"), c.Certificate, 0o600))
	require.NoError(p.t, os.WriteFile(filepath.Join(secrets, "kubernetes-agent-key"), c.Key, 0o600))
	require.NoError(p.t, os.Symlink(filepath.Join(p.Dir, pki.PublicDir), filepath.Join(root, paths.Trust)))
	require.NoError(p.t, os.Symlink(filepath.Join(p.Dir, "run", "etcd"), filepath.Join(root, "run", "etcd")))
	return paths.Root(root)
}

// securePort is the argument that a program was given last.
var securePort = regexp.MustCompile(`\x00--secure-port=([0-9]+)\x00?$`)

// port is where a program of this control plane listens.
func (p *controlPlane) port(program string) string {
	p.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(p.t, err)
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(line, []byte(p.Dir)) || !bytes.HasPrefix(line, []byte(filepath.Join(p.programs, program))) {
			continue
		}
		if m := securePort.FindSubmatch(line); m != nil {
			return string(m[1])
		}
	}
	p.t.Fatalf("%s does not run", program)
	return ""
}
