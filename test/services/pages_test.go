//go:build e2e

package services

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/net/html"

	"spore/agent/bootinfo"
	"spore/agent/metrics/serve"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	verbkafka "spore/agent/verbs/kafka"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/dashboard"
	"spore/storage/atomicfile"
	"spore/test/client"
	"spore/wire/nodeapi"
)

// shownRows are the rows of the tables on a page of spore dashboard, by their first cell: what a person reads there when
// the page knows something.
func shownRows(t *testing.T, c *facts.Cluster, n facts.Node, a dashboard.Asker, path string) map[string][]string {
	t.Helper()
	a.Timeout = 10 * time.Second
	a.Node = func(context.Context, string) (nodeapi.Status, nodeapi.Health, error) {
		return nodeapi.Status{Node: n.Name}, nodeapi.Health{Node: n.Name, Time: time.Now()}, nil
	}
	watcher := dashboard.NewWatcher(*c, []facts.Node{n}, a, time.Now)
	pages, err := dashboard.NewServer(dashboard.Options{Cluster: c.Name, Dir: "configs", Now: time.Now}, watcher)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { watcher.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	var body string
	require.Eventually(t, func() bool {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		body = w.Body.String()
		return strings.Contains(body, "As of moments ago")
	}, 30*time.Second, 50*time.Millisecond, "the page knows nothing")
	root, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	out := map[string][]string{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "tr" || n.Parent.Data != "tbody" {
			continue
		}
		var cells []string
		for cell := range n.ChildNodes() {
			var text strings.Builder
			for part := range cell.Descendants() {
				if part.Type == html.TextNode {
					text.WriteString(part.Data)
				}
			}
			cells = append(cells, strings.Join(strings.Fields(text.String()), " "))
		}
		out[cells[0]] = append(out[cells[0]], cells[1:]...)
	}
	return out
}

// brokerOnPage compares the page of MQTT with what mosquitto tells a client in its topics: the agent's collector and the
// page are between the two.
func brokerOnPage(t *testing.T, root string, user *client.MQTT) {
	t.Helper()
	const prefix = "$SYS/broker/"
	topics := []string{
		"clients/connected", "clients/disconnected", "subscriptions/count", "publish/messages/dropped", "retained messages/count",
	}
	for _, topic := range topics {
		require.NoError(t, user.Subscribe(prefix+topic))
	}
	collector := serve.New(paths.Root(root), time.Now, func(s string) { t.Log(s) })
	asker := dashboard.Asker{Metrics: func(ctx context.Context, _ string) ([]byte, error) {
		w := httptest.NewRecorder()
		collector.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"programs":["mosquitto"]}`)).WithContext(ctx))
		return w.Body.Bytes(), nil
	}}
	n := facts.Node{Name: "edge-01", Roles: []string{"mqtt-broker"}}
	c := &facts.Cluster{Name: "plant", Members: map[string][]string{"mqtt-broker": {n.Name}}}
	// Mosquitto tells of itself every ten seconds; between two of these, both have the same.
	require.Eventually(t, func() bool {
		row := shownRows(t, c, n, asker, "/messaging")["✓ok: edge-01"]
		if len(row) != 9 { // The collector has just started.
			t.Log(row)
			return false
		}
		shown := []string{row[0], row[1], row[2], row[6], row[8]}
		var told []string
		for _, topic := range topics {
			all := user.Messages(prefix + topic)
			if len(all) == 0 {
				return false
			}
			told = append(told, all[len(all)-1].Payload)
		}
		t.Logf("the page has %v, and a client is told %v", shown, told)
		return fmt.Sprint(shown) == fmt.Sprint(told)
	}, 40*time.Second, time.Second)
}

// dnsRole is the role of nodes with CoreDNS.
const dnsRole = "dns-server"

func TestThePageOfDNSHasWhatCoreDNSCounts(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	addr := coredns(t, nil, "    prometheus ", fmt.Sprintf("    prometheus 127.0.0.1:%d\n    #", port))
	asker := dashboard.Asker{Metrics: func(context.Context, string) ([]byte, error) {
		res, err := http.Get("http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) + "/metrics")
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return append([]byte("spore_source_up{source=\"coredns\"} 1\n"), text...), err
	}}
	ask := func(name string, times int) {
		for range times {
			_, err := client.Ask("udp", addr, name, "A")
			require.NoError(t, err)
		}
	}
	ask("edge-01.plant.example", 1)
	ask("nobody.plant.example", 1)
	n := facts.Node{Name: "edge-01", Roles: []string{dnsRole}}
	c := &facts.Cluster{Name: "plant", Members: map[string][]string{dnsRole: {n.Name}}}
	row := shownRows(t, c, n, asker, "/messaging")["✓ok: edge-01"]
	require.Len(t, row, 5)
	require.Equal(t, "–", row[0], "a rate needs two questions")
	require.Contains(t, row[2], "NOERROR")
	require.Contains(t, row[2], "NXDOMAIN")
}

// onPage compares the page of Kafka with what a client of the operator is told, about a group that is behind, too.
func (l *kafkaLab) onPage(t *testing.T, n *kafkaNode) {
	t.Helper()
	const group, topic = "page", "measurements.page"
	l.topic(topic, 2)
	require.NoError(t, l.produce(l.as("sensor"), topic, "a", "b", "c", "d", "e"))
	admin := kadm.NewClient(l.as("admin"))
	begin := kadm.Offsets{}
	begin.AddOffset(topic, 0, 0, -1)
	begin.AddOffset(topic, 1, 0, -1)
	require.NoError(t, admin.CommitAllOffsets(l.ctx, group, begin))
	m := node.New("spore-agent", paths.Root(filepath.Join(n.dir, "agent")))
	files := l.tree.Public().Files()
	for _, known := range l.known {
		data, err := json.Marshal(known)
		require.NoError(t, err)
		files[filepath.Join(facts.NodeDir, known.Name+".json")] = data
	}
	for name, data := range files {
		_, err := atomicfile.Write(filepath.Join(m.Root.At(bootinfo.ClusterDir), name), data, 0o644)
		require.NoError(t, err)
	}
	for _, ref := range []string{"kafka-broker-certificate", "kafka-broker-key"} {
		at := filepath.Join(m.Root.At(paths.Secrets), "kafka", ref)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(n.secrets[ref]), 0o600))
	}
	handlers := map[string]verbs.Handler{"kafka-topics": verbkafka.Topics, "kafka-lag": verbkafka.Lag, "kafka-quorum": verbkafka.Quorum}
	asker := dashboard.Asker{Verb: func(_ context.Context, _, verb string, o nodeapi.Order) (dashboard.Reply, error) {
		events, _, err := verbstest.Do(t, m, l.cluster, &n.Node, handlers[verb], o)
		r := dashboard.Reply{Node: n.Name}
		for _, e := range events {
			if len(e.Result) > 0 {
				r.Results = append(r.Results, e.Result)
			}
		}
		return r, err
	}}
	rows := shownRows(t, l.cluster, n.Node, asker, "/kafka")
	told, err := admin.Metadata(l.ctx)
	require.NoError(t, err)
	topics := 0
	for name, d := range told.Topics {
		copies, behind, offline := 0, 0, 0
		for _, p := range d.Partitions {
			copies = max(copies, len(p.Replicas))
			if len(p.ISR) < len(p.Replicas) {
				behind++
			}
			if p.Leader < 0 {
				offline++
			}
		}
		require.Equal(t, []string{fmt.Sprint(len(d.Partitions)), fmt.Sprint(copies), fmt.Sprint(behind), fmt.Sprint(offline)}, rows["✓ok: "+name], name)
		topics++
	}
	require.Greater(t, topics, 1)
	lags, err := admin.Lag(l.ctx, group)
	require.NoError(t, err)
	lag := lags[group].Lag[topic]
	require.NotEmpty(t, lag)
	behind := int64(0)
	for _, p := range lag {
		behind += p.Lag
	}
	require.EqualValues(t, 5, behind)
	require.Equal(t, []string{lags[group].State, topic, fmt.Sprint(behind), "0"}, rows[group])
	require.Equal(t, []string{"✓ok: leads", "✓ok: up"}, rows[n.Name], "as a controller, and as a broker")
	require.Len(t, told.Brokers, 1)
}
