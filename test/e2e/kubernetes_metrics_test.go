//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	collector "spore/agent/metrics/ask"
	"spore/agent/metrics/serve"
	"spore/builder/cmd/reach"
	"spore/pki/vault"
	"spore/services/kubernetes"
	"spore/wire/nodeapi"
)

// Bounds of an answer (docs/metrics.md): series of a family, bytes of a label, and KiB of the collector's memory.
const (
	mostSeries  = 1000
	mostLabel   = 256
	mostMetrics = 25 << 10
)

// told is what a node tells of itself.
type told map[string]*dto.MetricFamily

// parseMetrics reads the text format of Prometheus.
func parseMetrics(text string) (told, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// reads returns a client of a node's API with the certificate of a file that `spore access` made.
func reads(t *testing.T, file string, addresses func(node string) ([]string, error)) nodeapi.Client {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	access, err := reach.ParseAccess(data)
	require.NoError(t, err)
	return nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{
				Certificate: []byte(access.Certificate), Key: []byte(access.Key), Authorities: []byte(access.Authorities),
			}, nil
		},
		Addresses: addresses,
	}
}

// number is the value of a series; of a histogram or a summary how much was counted.
func number(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return m.Untyped.GetValue()
}

// with are the series of a family that have these labels, each as name=value.
func (s told) with(name string, labels ...string) (out []*dto.Metric) {
	for _, m := range s[name].GetMetric() {
		has := func(want string) bool {
			return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName()+"="+l.GetValue() == want })
		}
		if !slices.ContainsFunc(labels, func(want string) bool { return !has(want) }) {
			out = append(out, m)
		}
	}
	return out
}

// sum adds up the series of a family that have these labels; -1 where there is none.
func (s told) sum(name string, labels ...string) float64 {
	series := s.with(name, labels...)
	if len(series) == 0 {
		return -1
	}
	sum := 0.0
	for _, m := range series {
		sum += number(m)
	}
	return sum
}

// values are those of a label in a family.
func (s told) values(name, label string) (out []string) {
	for _, m := range s[name].GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == label {
				out = append(out, l.GetValue())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scrapes asks a node of the lab for its metrics, as a reader, until each of these sources has answered once: what a
// program of a busy emulated machine cannot answer in a moment is in a later answer. It returns of each family what was
// told of it last. What the node tells keeps to the reference and to its bounds.
func (l *lab) scrapes(t *testing.T, node string, sources ...string) told {
	t.Helper()
	plant, file := filepath.Join(l.dir, "plant"), filepath.Join(t.TempDir(), "reader.access")
	require.NoError(t, spore("access", plant, "--user", "prometheus", "--role", "reader", "--lifetime", "1h", "-o", file))
	client := reads(t, file, func(string) ([]string, error) {
		at, err := l.master.Address("tcp", nodeEnds[node])
		return []string{at}, err
	})
	all, waits := told{}, map[string]bool{}
	for _, source := range append([]string{"machine", "node", "units"}, sources...) {
		waits[source] = true
	}
	var text []byte
	// Only while somebody asks at least once a minute are slow programs told of.
	l.within(kubeStep, node+" tells of all its programs", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begun := time.Now()
		if text, err = client.Read(ctx, node, nodeapi.Request{Path: nodeapi.MetricsPath}, collector.MaxAnswer); err != nil {
			return err
		}
		t.Logf("%s: %d bytes in %s", node, len(text), time.Since(begun))
		now, err := parseMetrics(string(text))
		if err != nil {
			return err
		}
		maps.Copy(all, now)
		for source := range waits {
			if now.sum("spore_source_up", "source="+source) == 1 {
				delete(waits, source)
			}
		}
		if len(waits) > 0 {
			return fmt.Errorf("no answer yet of %v", slices.Sorted(maps.Keys(waits)))
		}
		return nil
	})
	keepsToTheReference(t, all)
	l.requireNoSecretIn(t, node, text)
	return all
}

// keepsToTheReference requires that families, labels and their numbers are those of the list of families.
func keepsToTheReference(t *testing.T, all told) {
	t.Helper()
	labels := map[string][]string{}
	for _, f := range serve.Families() {
		labels[f.Name] = append(labels[f.Name], f.Labels...)
	}
	for name, f := range all {
		require.Contains(t, labels, name, "a family of no row")
		require.LessOrEqual(t, len(f.Metric), mostSeries, name)
		for _, m := range f.Metric {
			for _, l := range m.Label {
				require.Contains(t, labels[name], l.GetName(), name)
				require.LessOrEqual(t, len(l.GetValue()), mostLabel, "%s of %s", l.GetName(), name)
			}
		}
	}
}

// requireNoSecretIn looks for every secret of the cluster in what a node tells.
func (l *lab) requireNoSecretIn(t *testing.T, node string, text []byte) {
	t.Helper()
	v, err := vault.Open(filepath.Join(l.dir, "plant.pki"), vault.Keys{})
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Close()) }()
	require.NotEmpty(t, v.Tree.Secrets)
	for id, s := range v.Tree.Secrets {
		if value := strings.TrimSpace(string(s.Value)); len(value) >= 8 {
			require.False(t, strings.Contains(string(text), value), "%s tells the secret %s", node, id)
		}
	}
	require.NotContains(t, string(text), "PRIVATE KEY")
	require.NotRegexp(t, `eyJ[A-Za-z0-9_-]{20,}\.`, string(text), "a token of Kubernetes")
}

// loopbackPod is a pod in the network of a node, which asks programs at its loopback. It listens nowhere.
const loopbackPod = `
apiVersion: v1
kind: Pod
metadata: {name: ask-%[1]s, namespace: kube-system}
spec:
  nodeName: %[1]s
  hostNetwork: true
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
    - name: hello
      image: %[2]s
      imagePullPolicy: IfNotPresent
      command: [/hello, watch, "http://127.0.0.1:%[3]d/v1/metrics"]
`

// own is what a program of Kubernetes says by itself, asked through the API server or by a pod.
func (l *lab) own(ask func() (string, error)) told {
	l.t.Helper()
	var all told
	l.within(kubeStep, "a program says itself what it has", func() error {
		text, err := ask()
		if err == nil {
			all, err = parseMetrics(text + "\n")
		}
		return err
	})
	return all
}

// podsOn are pods on a node: those that run, their containers that run, and those with a network of their own.
func (l *lab) podsOn(t *testing.T, node string) (pods, containers, endpoints int) {
	t.Helper()
	var list struct {
		Items []struct {
			Spec   struct{ HostNetwork bool }
			Status struct {
				ContainerStatuses []struct {
					State struct{ Running *struct{} }
				}
			}
		}
	}
	text := l.must("get", "pods", "-A", "--field-selector", "spec.nodeName="+node+",status.phase=Running", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	for _, p := range list.Items {
		pods++
		if !p.Spec.HostNetwork {
			endpoints++
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running != nil {
				containers++
			}
		}
	}
	return pods, containers, endpoints
}

// tellsMetrics scrapes the worker and the master, and compares what they tell with what the API server and the
// programs say themselves.
func (l *lab) tellsMetrics(t *testing.T) {
	l.apply(fmt.Sprintf(loopbackPod, workerName, helloImage, kubernetes.PortContainerdMetrics))
	defer l.must("delete", "pod", "-n", "kube-system", "ask-"+workerName, "--wait=true")
	l.must("wait", "-n", "kube-system", "--for=condition=Ready", "pod/ask-"+workerName, "--timeout="+kubeStep.String())
	l.tellsOfANode(t, workerName, lookWorker, []string{"kubelet", "containerd", "calico-node", "kube-proxy"})
	l.tellsOfTheControlPlane(t)
}

// tellsOfANode is what a node of Kubernetes tells: its machine, kubelet, containerd and Felix.
func (l *lab) tellsOfANode(t *testing.T, node, pod string, sources []string) {
	t.Helper()
	var s told
	var pods, containers, endpoints int
	// A pod that starts just now is known to one of them a moment before the other.
	l.within(kubeStep, node+" tells of the pods that it has", func() error {
		before, _, _ := l.podsOn(t, node)
		s = l.scrapes(t, node, sources...)
		if pods, containers, endpoints = l.podsOn(t, node); pods != before {
			return errors.New("pods come and go")
		}
		var err error
		for _, c := range []struct {
			what string
			got  float64
			want int
		}{
			{"running pods", s.sum("kubelet_running_pods", "program=kubelet"), pods},
			{"running containers", s.sum("kubelet_running_containers", "program=kubelet", "container_state=running"), containers},
			{"interfaces of pods", s.sum("felix_active_local_endpoints", "program=calico-node"), endpoints},
		} {
			if c.got != float64(c.want) {
				err = errors.Join(err, fmt.Errorf("%v %s, and the API server knows %d", c.got, c.what, c.want))
			}
		}
		return err
	})
	require.Positive(t, pods, node)
	require.Positive(t, endpoints, node)

	kubelet := l.own(func() (string, error) { return l.kubectl("get", "--raw", "/api/v1/nodes/"+node+"/proxy/metrics") })
	require.Equal(t, kubelet.sum("process_start_time_seconds"), s.sum("process_start_time_seconds", "program=kubelet"), "the kubelet of this node")
	began := s.sum("kubelet_started_pods_total", "program=kubelet")
	require.GreaterOrEqual(t, began, float64(pods))
	require.LessOrEqual(t, began, kubelet.sum("kubelet_started_pods_total"), "asked a moment later")
	require.Less(t, s.sum("process_resident_memory_bytes", "program=kubelet"), float64(512<<20))

	for program, at := range map[string]string{
		"containerd":  fmt.Sprintf("http://127.0.0.1:%d/v1/metrics", kubernetes.PortContainerdMetrics),
		"calico-node": fmt.Sprintf("http://127.0.0.1:%d/metrics", kubernetes.PortFelixMetrics),
		"kube-proxy":  fmt.Sprintf("http://127.0.0.1:%d/metrics", kubernetes.PortProxyMetrics),
	} {
		mine := l.own(func() (string, error) { return l.in("kube-system/ask-"+node, "fetch", at) })
		require.Equal(t, mine.sum("process_start_time_seconds"), s.sum("process_start_time_seconds", "program="+program), "%s of %s", program, node)
	}
	require.GreaterOrEqual(t, s.sum("containerd_cri_container_start_seconds", "program=containerd"), float64(containers), "starts that were counted")
	require.Equal(t, 3.0, s.sum("felix_resync_state", "program=calico-node"), "Felix knows all")
	nodes := len(strings.Fields(l.must("get", "nodes", "-o", "name")))
	require.Equal(t, float64(nodes), s.sum("felix_cluster_num_hosts", "program=calico-node"))
	require.Positive(t, s.sum("felix_nft_rules", "program=calico-node"))
	l.tellsOfItsMachine(t, s, node, pod)
}

// tellsOfItsMachine compares what a node tells of its machine with what kubelet has found.
func (l *lab) tellsOfItsMachine(t *testing.T, s told, node, pod string) {
	t.Helper()
	capacity := func(key string) float64 {
		text := l.must("get", "node", node, "-o", "jsonpath={.status.capacity."+key+"}")
		kib, has := strings.CutSuffix(text, "Ki")
		n, err := strconv.ParseFloat(kib, 64)
		require.NoError(t, err, text)
		if has {
			n *= 1024
		}
		return n
	}
	require.Equal(t, capacity("memory"), s.sum("node_memory_MemTotal_bytes"))
	free := s.sum("node_memory_MemAvailable_bytes")
	require.Positive(t, free)
	require.Less(t, free, s.sum("node_memory_MemTotal_bytes"))
	require.Len(t, s.values("node_cpu_seconds_total", "cpu"), int(capacity("cpu")))
	require.InEpsilon(t, capacity("ephemeral-storage"), s.sum("node_filesystem_size_bytes", "mountpoint=/var"), 0.01)
	require.Equal(t, []string{node}, s.values("spore_version_info", "node"))
	require.Equal(t, []string{node}, s.values("node_uname_info", "nodename"))
	require.Positive(t, s.sum("node_network_receive_bytes_total"))
	require.InDelta(t, float64(time.Now().Unix()), s.sum("node_time_seconds"), 600, "the time of its clock")
	require.Equal(t, 1.0, s.sum("node_systemd_unit_state", "name=kubelet.service", "state=active"))
	require.Positive(t, s.sum("spore_certificate_end_timestamp_seconds"))

	out, err := l.in(pod, "node", "/host")
	require.NoError(t, err)
	var n struct{ Memory map[string]memory }
	require.NoError(t, json.Unmarshal([]byte(out), &n))
	require.Contains(t, n.Memory, "spore-metrics", "somebody has just asked")
	require.Less(t, n.Memory["spore-metrics"].All, mostMetrics, "KiB of the collector of %s", node)
	t.Logf("the collector of %s has %d KiB (PSS)", node, n.Memory["spore-metrics"].All)
}

// tellsOfTheControlPlane is what a master tells. An API server of an emulated machine takes longer for its metrics than
// the collector waits for a program.
func (l *lab) tellsOfTheControlPlane(t *testing.T) {
	t.Helper()
	s := l.scrapes(t, masterName, "etcd", "kube-controller-manager", "kube-scheduler")
	require.Equal(t, 1.0, s.sum("etcd_server_has_leader", "program=etcd"))
	require.Equal(t, 1.0, s.sum("etcd_server_is_leader", "program=etcd"), "it is the only member")
	size := s.sum("etcd_mvcc_db_total_size_in_bytes", "program=etcd")
	require.Greater(t, size, float64(1<<20))
	require.Less(t, size, s.sum("etcd_server_quota_backend_bytes", "program=etcd"))
	require.Positive(t, s.sum("scheduler_schedule_attempts_total", "program=kube-scheduler", "result=scheduled"))
	nodes := len(strings.Fields(l.must("get", "nodes", "-o", "name")))
	require.Equal(t, float64(nodes), s.sum("node_collector_zone_size", "program=kube-controller-manager"))
	require.Zero(t, s.sum("node_collector_unhealthy_nodes_in_zone", "program=kube-controller-manager"))
}
