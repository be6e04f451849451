package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// hostile is a text of a node that a page must not take for anything but text.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\u202e\x1b[2J"

// asJSON is a text as a string of JSON.
func asJSON(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

// serving is a plant of which nodes have roles, whose services answer what the test says.
type serving struct {
	*plant
	mu      sync.Mutex
	answers map[string]string
	asks    map[string]int
	metrics string
	state   Machines
	err     error
}

func newServing(t *testing.T, roles ...string) *serving {
	t.Helper()
	s := &serving{plant: newPlant(t, "edge-01"), answers: map[string]string{}, asks: map[string]int{}}
	s.plant.nodes[0].Roles = roles
	s.plant.facts.Members = map[string][]string{}
	for _, r := range roles {
		s.plant.facts.Members[r] = []string{"edge-01"}
	}
	s.watch(t, Asker{
		Timeout: time.Second,
		Verb: func(_ context.Context, role, verb string, o nodeapi.Order) (Reply, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asks[verb]++
			v, found := nodeapi.FindVerb(verb)
			if !found || v.Kind != nodeapi.Looks || v.Check(o) != nil {
				return Reply{}, errors.New("internal error: no such look")
			}
			text, has := s.answers[verb]
			if s.err != nil || !has {
				return Reply{}, errors.Join(s.err, errors.New(verb+" fails"))
			}
			r := Reply{Node: "edge-01", Said: []string{"edge-01: " + hostile}}
			for part := range strings.SplitSeq(text, "\n") {
				r.Results = append(r.Results, json.RawMessage(part))
			}
			return r, nil
		},
		Metrics: func(context.Context, string) ([]byte, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return []byte(s.metrics), s.err
		},
		Machines: func(context.Context) (Machines, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			m := s.state
			m.Out = "my out"
			return m, s.err
		},
	})
	return s
}

// show asks once, and returns the page.
func (s *serving) show(t *testing.T, path string) string {
	t.Helper()
	s.watcher.askService(t.Context(), s.watcher.lookers[path])
	_, text := s.page(t, path)
	return text
}

func TestTheStorageIsShownByHostWithWhatIsWrong(t *testing.T) {
	s := newServing(t, monitor)
	s.answers["ceph-status"] = `{"status":{"health":{"status":"HEALTH_WARN","checks":{"OSD_DOWN":{"severity":"HEALTH_WARN","summary":{"message":` +
		asJSON(t, hostile) + `}}}},"quorum_names":["a","b"]}}
{"monitors":{"all":["a","b","c"],"quorum":["a","b"],"leader":"a"}}
{"osds":{"nodes":[{"name":"default","type":"root"},{"name":"storage-01","type":"host"},{"name":"osd.0","type":"osd","status":"up","reweight":1,"kb":1048576,"kb_used":943718,"pgs":7},{"name":"osd.1","type":"osd","status":"down","reweight":0}]}}
{"pools":{"pools":[{"name":"` + strings.Repeat("p", 5000) + `","stats":{"stored":1073741824,"max_avail":1e300,"percent_used":0.96}}]}}`
	text := s.show(t, cephPath)
	for _, want := range []string{
		"HEALTH_WARN", "OSD_DOWN", "<script>alert(1)</script>", "Monitors: 2 of 3 in the quorum; a leads. edge-01 says so.", "storage-01",
		"osd.0 ! warning: up, in 921.6 MiB of 1.0 GiB 90 % 7", "osd.1 ✕ critical: down, out", "1.0 GiB", "✕ critical: 96 %",
		"No node has the role metrics-store", "As of moments ago.",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.NotContains(t, text, strings.Repeat("p", maxText+1))
}

func TestTheUseOfTheStorageIsDrawnFromTheStoreOfMetrics(t *testing.T) {
	s := newServing(t, monitor, "metrics-store")
	s.answers["ceph-status"] = `{"status":{"health":{"status":"HEALTH_OK"}}}`
	require.Contains(t, s.show(t, cephPath), "The store of metrics does not answer: metrics-query fails")
	s.answers["metrics-query"] = `[{"samples":[{"at":1000,"value":"0.25"},{"at":2000,"value":"0.5"},{"at":3000,"value":"NaN"},{"at":4000,"value":"\"><script>"}]}]`
	require.Contains(t, s.show(t, cephPath), "25 % since 1970-01-01 00:16 UTC, 50 % now.")
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, httptest.NewRequest("GET", cephPath, nil))
	require.Contains(t, w.Body.String(), `<polyline points="0.0,90.0 600.0,60.0"/>`)
	s.answers["metrics-query"] = `[{"samples":[{"at":1e300,"value":"0.5"},{"at":-1,"value":"0.5"}]}]`
	require.Contains(t, s.show(t, cephPath), "has nothing of it yet")
}

func TestKafkaIsShownWithTheWorstOnTopAndWithoutWhatFails(t *testing.T) {
	s := newServing(t, broker)
	s.answers["kafka-topics"] = `[{"name":"a","partitions":[{"leader":1,"replicas":[1],"inSync":[1]}]},{"name":"b","partitions":[{"leader":-1,"replicas":[1,2],"inSync":[1]}]}]`
	s.answers["kafka-quorum"] = `{"leader":"k-1","voters":[{"name":"k-1","silent":0},{"name":"k-2","silent":500},{"name":"k-3","silent":1,"behind":4}],"brokers":[{"name":"k-1","up":true},{"name":` + asJSON(t, hostile) + `}]}`
	text := s.show(t, kafkaPath)
	require.Contains(t, text, "2 topics, 2 partitions; 1 with copies that are behind, 1 without a leader.")
	require.Less(t, strings.Index(text, "critical: b"), strings.Index(text, "ok: a"))
	require.Contains(t, text, "2 of 3 serve; k-1 leads; none may be lost.")
	require.Contains(t, text, "k-2 ✕ critical: was heard 500 s ago by the one that leads")
	require.Contains(t, text, "k-3 ✓ ok: 4 records behind")
	require.Contains(t, text, "It is not known how far they are behind: kafka-lag fails")
	s.answers["kafka-lag"] = `[{"group":"g1","state":"Stable","topic":"a","records":5},{"group":"g2","state":"Empty","topic":"a","records":900}]`
	text = s.show(t, kafkaPath)
	require.Less(t, strings.Index(text, "g2"), strings.Index(text, "g1"))

	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`{"name":"%05d-%s"}`, i, strings.Repeat("n", 100)))
	}
	s.answers["kafka-topics"] = "[" + strings.Join(many, ",") + "]"
	text = s.show(t, kafkaPath)
	require.Contains(t, text, "4700 more have no room here.")
	require.Less(t, len(text), 200<<10)
}

func TestAQuorumSaysHowManyMayBeLost(t *testing.T) {
	voters := func(serve, all int, leader bool) *members {
		m := &members{}
		if leader {
			m.Leader = "m-0"
		}
		for i := range all {
			m.Members = append(m.Members, member{Name: fmt.Sprintf("m-%d", i), Votes: true, Serves: i < serve})
		}
		m.judge()
		return m
	}
	for name, tc := range map[string]struct {
		serve, all int
		leader     bool
		level      Level
		says       string
	}{
		"all of three":       {3, 3, true, Fine, "3 of 3 serve; m-0 leads; 1 may be lost"},
		"all of five":        {5, 5, true, Fine, "5 of 5 serve; m-0 leads; 2 may be lost"},
		"two of three":       {2, 3, true, Warning, "2 of 3 serve; m-0 leads; none may be lost"},
		"two":                {2, 2, true, Warning, "2 of 2 serve; m-0 leads; none may be lost"},
		"one alone":          {1, 1, true, Fine, "1 of 1 serve; m-0 leads; none may be lost"},
		"one of three":       {1, 3, false, Critical, "1 of 3 serve; nobody leads; a majority is 2, so nothing is written"},
		"three, and no head": {3, 3, false, Critical, "3 of 3 serve; nobody leads; 1 may be lost"},
		"nobody":             {0, 0, false, Critical, "0 of 0 serve; nobody leads; a majority is 1, so nothing is written"},
	} {
		m := voters(tc.serve, tc.all, tc.leader)
		require.Equal(t, tc.level, m.Level, name)
		require.Equal(t, tc.says, m.Says(), name)
	}
}

func TestEachQuorumIsShownForItself(t *testing.T) {
	s := newServing(t, master, monitor)
	s.answers["etcd-members"] = `[{"name":"m-1","started":true,"leader":true},{"name":"m-2","started":true,"problem":` + asJSON(t, hostile) +
		`},{"name":"m-3","started":true,"learner":true},{"id":"8e9","started":false}]`
	text := s.show(t, quorumsPath)
	require.Contains(t, text, "✕ critical: etcd 1 of 3 serve; m-1 leads; a majority is 2, so nothing is written.")
	require.Contains(t, text, "m-3 ! warning: is brought up to date, and does not vote yet")
	require.Contains(t, text, "8e9 ✕ critical: has not started yet")
	require.Contains(t, text, "Ceph's monitors It is not known how it is now: ceph-status fails")
	require.NotContains(t, text, "Kafka", "no node has its role")
	s.answers["ceph-status"] = `{"monitors":{"all":["a","b","c"],"quorum":["a","b"],"leader":"b"}}`
	require.Contains(t, s.show(t, quorumsPath), "2 of 3 serve; b leads; none may be lost.")
}

func TestRatesOfMQTTAndDNSComeFromTwoQuestions(t *testing.T) {
	s := newServing(t, mqttBroker, dnsServer)
	values := func(received, questions, failed int) string {
		return fmt.Sprintf(`# HELP x y
spore_source_up{source="mosquitto"} 1
spore_source_up{source="coredns"} 1
mosquitto_clients_connected 12
mosquitto_messages_received_total %d
coredns_dns_requests_total{program="coredns",zone=".",type="A",proto="udp"} %d
coredns_dns_requests_total{program="cluster-dns",zone=".",type="A",proto="udp"} 5e9
coredns_dns_responses_total{program="coredns",zone=".",rcode="NOERROR"} 3
coredns_dns_responses_total{program="coredns",zone=".",rcode="SERVFAIL"} %d
coredns_cache_hits_total{program="coredns",type="success"} %d
coredns_cache_requests_total{program="coredns"} %d
`, received, questions, failed, questions/2, questions)
	}
	s.metrics = values(100, 40, 0)
	text := s.show(t, messagingPath)
	require.Contains(t, text, "edge-01 12 – – –", "no rate yet")
	s.later(20 * time.Second)
	s.metrics = values(300, 240, 10)
	text = s.show(t, messagingPath)
	require.Contains(t, text, "edge-01 12 – – 10.0 –")
	require.Contains(t, text, "! warning: edge-01 10.0 0.5 ✓ ok: NOERROR 0.0 ! warning: SERVFAIL 0.5 50 %")
	s.later(20 * time.Second)
	s.metrics = values(1, 1, 0)
	require.Contains(t, s.show(t, messagingPath), "edge-01 12 – – –", "a program that started again has no rate")
	s.metrics = "mosquitto_clients_connected{"
	require.Contains(t, s.show(t, messagingPath), "the metrics are malformed: a line is no sample")
	s.metrics = ""
	require.Contains(t, s.show(t, messagingPath), "coredns does not answer the node's collector")
	s.err = errors.New(hostile)
	require.Contains(t, s.show(t, messagingPath), "<script>alert(1)</script>")
}

func TestAMachineThatWaitsIsShownWithTheCommandThatLetsItIn(t *testing.T) {
	s := newServing(t)
	s.state = Machines{
		Asks: []Claim{
			{Fingerprint: "9999", State: "approved", Delivered: true, Node: "edge-02"},
			{Fingerprint: "3f2a-91c0", State: "waiting", Waits: true, Remote: "10.0.0.9", Node: hostile},
			{Fingerprint: "1; reboot", State: "waiting", Waits: true},
		},
		Booted: []Booted{{MACs: []string{"52:54:00:77:00:16"}, Did: hostile, Advice: "add it to nodes in cluster.yaml\x1b"}},
	}
	text := s.show(t, machinesPath)
	require.Contains(t, text, "spore approve 'my out' 3f2a-91c0")
	require.Contains(t, text, "spore approve 'my out' '1; reboot'", "a fingerprint is one word for a shell")
	require.Less(t, strings.Index(text, "3f2a-91c0"), strings.Index(text, "9999"))
	require.Contains(t, text, "has its bundle")
	require.Contains(t, text, "add it to nodes in cluster.yaml")
	require.NotContains(t, text, "\x1b")
	for i := range 4 * maxRows {
		s.state.Booted = append(s.state.Booted, Booted{Serial: fmt.Sprint(i)})
	}
	require.Contains(t, s.show(t, machinesPath), "901 more have no room here.")
}

func TestWhatAServiceSaidGrowsOld(t *testing.T) {
	s := newServing(t, monitor)
	_, text := s.page(t, cephPath)
	require.Contains(t, text, "The nodes are asked …")
	s.answers["ceph-status"] = `{"status":{"health":{"status":"HEALTH_OK"}}}`
	require.NotContains(t, s.show(t, cephPath), "20 s ago")
	const old = soonest + spare
	require.Equal(t, s.time().Add(old), s.watcher.view.grows(s.time()))
	s.later(old - time.Second)
	_, text = s.page(t, cephPath)
	require.Contains(t, text, "As of moments ago.")
	s.later(2 * time.Second)
	_, text = s.page(t, cephPath)
	require.Contains(t, text, "As of 10 s ago.")
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, httptest.NewRequest("GET", cephPath, nil))
	require.Contains(t, w.Body.String(), `<div class="stale">`)
	s.err = errors.New("storage-01: no route")
	text = s.show(t, cephPath)
	require.Contains(t, text, "It is not known how it is now: storage-01: no route")
	require.Contains(t, text, "HEALTH_OK", "what it said last is kept")
	s.answers["ceph-status"], s.err = `[]`, nil
	require.Contains(t, s.show(t, cephPath), "the answer is malformed")
}

func TestAServiceIsAskedOnlyWhileSomebodyLooksAtItsPage(t *testing.T) {
	s := newServing(t, monitor, broker)
	s.answers["ceph-status"] = `{"status":{"health":{"status":"HEALTH_OK"}}}`
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.watcher.Run(ctx) })
	defer running.Wait()
	defer cancel()
	asked := func(verb string) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asks[verb]
	}
	s.page(t, "/")
	s.page(t, cephPath)
	require.Eventually(t, func() bool { return asked("ceph-status") > 0 }, 10*time.Second, time.Millisecond)
	require.Zero(t, asked("kafka-topics"), "nobody looks at Kafka's page")
}

func TestAPageOfAServiceIsThereWhereANodeHasItsRole(t *testing.T) {
	for role, want := range map[string]string{
		"alerts": "History Configuration Machines The nodes", mqttBroker: "History MQTT and DNS Configuration Machines", broker: "History Quorums Kafka Configuration Machines",
		monitor: "History Quorums Ceph Configuration Machines",
	} {
		_, text := newServing(t, role).page(t, "/")
		require.Contains(t, text, want)
	}
}

func FuzzReadSamples(f *testing.F) {
	f.Add("coredns_a{b=\"c\\\"\\n\\\\\",d=\"e\"} 1.5 1700000000\n# x\ncoredns_b NaN\n")
	f.Add("coredns_{")
	f.Add("coredns_a{b=\"")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		_ = readSamples(strings.NewReader(text), []string{"coredns_"}, func(s sample) {
			n++
			require.True(t, strings.HasPrefix(s.name, "coredns_"))
		})
		require.LessOrEqual(t, n, strings.Count(text, "\n")+1)
	})
}

func FuzzPagesOfServices(f *testing.F) {
	for _, seed := range []string{
		`{"status":{"health":{"status":"x"}},"osds":{"nodes":[{"type":"osd","kb":1e308,"kb_used":1e308}]}}`,
		`[{"name":"a","partitions":[{}]}]`, `[{"samples":[{"at":1,"value":"0.5"},{"at":2,"value":"1"}]}]`, `{"monitors":{"all":["a"]}}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newServing(t, monitor, broker, master, "metrics-store")
		for _, verb := range []string{"ceph-status", "kafka-topics", "kafka-lag", "kafka-quorum", "etcd-members", "metrics-query"} {
			s.answers[verb] = string(data)
		}
		for _, path := range []string{cephPath, kafkaPath, quorumsPath} {
			s.show(t, path)
		}
	})
}

func TestKubernetesIsShownWithWhatIsNotWell(t *testing.T) {
	s := newServing(t, master)
	s.answers["kubernetes-status"] = `{"nodes":[{"name":"edge-01","ready":"True","version":"v1.34.2"}]}
{"nodes":[{"name":"b","ready":"False","why":` + asJSON(t, hostile) + `,"pressure":["DiskPressure"]}],"counts":[{"kind":"Deployment","all":3,"well":2}],
"behind":[{"kind":"Deployment","namespace":"n","name":"web","wanted":3,"ready":1}],"pods":[{"namespace":"n","name":"web-1","phase":"Running","why":"c waits, CrashLoopBackOff","restarts":7,"ended":"c: OOMKilled, code 137"}],"volumes":[{"kind":"PersistentVolumeClaim","namespace":"n","name":"c","state":"Pending"}],"more":["pods that are not well"]}`
	s.answers["kubernetes-status"] = strings.ReplaceAll(s.answers["kubernetes-status"], "],\n", "],")
	text := s.show(t, kubernetesPath)
	for _, want := range []string{
		"There are more than are shown: pods that are not well.", "1 of 2 nodes are ready", "✕ critical: b False", "<script>alert(1)</script>",
		"✓ ok: edge-01 True v1.34.2", "n/web-1 Running 7 c waits, CrashLoopBackOff c: OOMKilled, code 137", "! warning: Deployment 3 2",
		"Deployment 1 of 3", "PersistentVolumeClaim Pending",
	} {
		require.Contains(t, strings.Join(strings.Fields(text), " "), want)
	}
	many := `{"name":"x","namespace":"` + strings.Repeat("n", 300) + `"}`
	list := "[" + strings.Repeat(many+",", 5000) + many + "]"
	s.answers["kubernetes-status"] = `{"nodes":` + list + `,"pods":` + list + `,"volumes":` + list + `,"behind":` + list + `}`
	require.Less(t, len(s.show(t, kubernetesPath)), 600<<10)
}
