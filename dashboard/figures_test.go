package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"spore/builder/cmd/reach"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// rowsOf are the rows of the tables of a page, cell by cell, below the first two of its columns. What a reader of the page
// hears of a mark stands in front of a cell.
func rowsOf(root *html.Node) map[string][]string {
	out := map[string][]string{}
	var heads []string
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "table":
			heads = nil
		case n.Data == "th" && n.Parent.Parent.Data == "thead":
			heads = append(heads, strings.TrimSpace(words(n)))
		case n.Data == "tr" && n.Parent.Data == "tbody":
			var cells []string
			for cell := range n.ChildNodes() {
				cells = append(cells, strings.NewReplacer("✓ ", "", "! ", "", "✕ ", "").Replace(words(cell)))
			}
			name := strings.Join(heads[:min(len(heads), 2)], ", ")
			out[name] = append(out[name], strings.Join(strings.Fields(strings.Join(cells, " | ")), " "))
		}
	}
	return out
}

// figures are the rows of a page, and the text of it.
func (p *plant) figures(t *testing.T, path string) (map[string][]string, string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	root, err := html.Parse(strings.NewReader(w.Body.String()))
	require.NoError(t, err)
	return rowsOf(root), strings.Join(strings.Fields(words(root)), " ")
}

// Each figure of an answer is another one, so that a page which takes one for another is found out.
func TestEachFigureOnAPageIsThatOfTheAnswer(t *testing.T) {
	for path, c := range map[string]struct {
		roles   []string
		answers map[string]string
		rows    map[string][]string
		says    []string
	}{
		kubernetesPath: {[]string{master}, map[string]string{"kubernetes-status": `{"nodes":[{"name":"edge-01","ready":"True","version":"v1.34.2"},
{"name":"n-2","ready":"True","version":"v1.34.3","cordoned":true},{"name":"n-3","ready":"False","why":"KubeletNotReady: x","pressure":["PIDPressure","DiskPressure"],"version":"v1.33.9"}],
"counts":[{"kind":"Deployment","all":101,"well":102},{"kind":"StatefulSet","all":104,"well":103},{"kind":"PersistentVolumeClaim","all":105,"well":105}],
"behind":[{"kind":"Deployment","namespace":"line","name":"gate","wanted":107,"ready":106}],
"pods":[{"namespace":"line","name":"gate-1","node":"n-3","phase":"Running","why":"waits","restarts":108,"ended":"gate: OOMKilled, code 137"},{"namespace":"line","name":"gate-2","phase":"Pending","why":"Unschedulable"}],
"volumes":[{"kind":"PersistentVolumeClaim","namespace":"line","name":"data","state":"Pending","class":"ceph-block","size":"109Gi","why":"none fits"},{"kind":"PersistentVolume","name":"pv-1","state":"Failed","size":"110Gi"}]}`},
			map[string][]string{
				"node, ready": {"critical: n-3 | False | v1.33.9 | KubeletNotReady: x; PIDPressure; DiskPressure", "warning: n-2 | True | v1.34.3 | cordoned",
					"ok: edge-01 | True | v1.34.2 |"},
				"pod, node":      {"line/gate-1 | n-3 | Running | 108 | waits | gate: OOMKilled, code 137", "line/gate-2 | | Pending | 0 | Unschedulable |"},
				"kind, all":      {"ok: Deployment | 101 | 102", "warning: StatefulSet | 104 | 103", "ok: PersistentVolumeClaim | 105 | 105"},
				"workload, kind": {"line/gate | Deployment | 106 of 107"},
				"volume, kind": {"line/data | PersistentVolumeClaim | Pending | ceph-block | 109Gi | none fits",
					"pv-1 | PersistentVolume | Failed | | 110Gi |"},
			}, []string{"2 of 3 nodes are ready"}},
		kafkaPath: {[]string{broker}, map[string]string{
			"kafka-topics": `[{"name":"a","partitions":[{"leader":1,"replicas":[1,2,3],"inSync":[1,2,3]},{"leader":2,"replicas":[1,2,3],"inSync":[2,3]},{"leader":-1,"replicas":[1,2],"inSync":[1]}]},
{"name":"b","partitions":[{"leader":4,"replicas":[4],"inSync":[4]}]},{"name":"c","problem":"UNKNOWN_TOPIC_ID"}]`,
			"kafka-quorum": `{"leader":"k-2","epoch":12,"voters":[{"id":1,"name":"k-1","behind":111,"silent":2},{"id":2,"name":"k-2","behind":0,"silent":0},
{"id":3,"name":"k-3","behind":112,"silent":113},{"id":4,"name":"k-4","behind":114,"silent":-1},{"id":5,"name":"k-5","behind":0,"silent":29}],
"brokers":[{"id":1,"name":"k-1","up":true},{"id":3,"name":"k-3"}]}`,
			"kafka-lag": `[{"group":"g","state":"Stable","topic":"a","records":115},{"group":"g","state":"Stable","topic":"b","records":116,"unknown":117}]`,
		}, map[string][]string{
			"controller, state": {"k-3 | critical: was heard 113 s ago by the one that leads", "k-4 | critical: was not heard by the one that leads",
				"k-1 | ok: 111 records behind", "k-2 | ok: leads", "k-5 | ok: follows"},
			"broker, state":     {"k-1 | ok: up", "k-3 | critical: down"},
			"topic, partitions": {"critical: a | 3 | 3 | 2 | 1", "warning: c (UNKNOWN_TOPIC_ID) | 0 | 0 | 0 | 0", "ok: b | 1 | 1 | 0 | 0"},
			"group, state":      {"warning: g | Stable | b | 116 | 117", "g | Stable | a | 115 | 0"},
		}, []string{"3 of 5 serve; k-2 leads; none may be lost", "3 topics, 4 partitions; 2 with copies that are behind, 1 without a leader"}},
		cephPath: {[]string{monitor}, map[string]string{"ceph-status": `{"status":{"health":{"status":"HEALTH_ERR","checks":{"OSD_DOWN":{"severity":"HEALTH_WARN","summary":{"message":"118 osds down"}},
"MON_DOWN":{"severity":"HEALTH_ERR","summary":{"message":"119 mons down"}}}},"quorum_names":["s-1","s-2"]}}
{"monitors":{"all":["s-1","s-2","s-3","s-4"],"quorum":["s-1","s-2","s-4"],"leader":"s-4"}}
{"osds":{"nodes":[{"id":-1,"name":"default","type":"root"},{"id":-2,"name":"s-1","type":"host"},{"id":0,"name":"osd.0","type":"osd","status":"up","reweight":1,"kb":4194304,"kb_used":1048576,"pgs":120},
{"id":1,"name":"osd.1","type":"osd","status":"up","reweight":1,"kb":2147483648,"kb_used":2061584302,"pgs":121},{"id":-3,"name":"s-2","type":"host"},
{"id":2,"name":"osd.2","type":"osd","status":"up","reweight":0,"kb":1048576,"kb_used":0,"pgs":0},{"id":3,"name":"osd.3","type":"osd","status":"down","reweight":1,"kb":1048576,"kb_used":524288,"pgs":122}]}}
{"pools":{"pools":[{"name":"p","stats":{"stored":5368709120,"max_avail":3298534883328,"percent_used":0.86}},{"name":"q","stats":{"stored":2048,"max_avail":1048576,"percent_used":0.004}}]}}`},
			map[string][]string{
				"check, what it says": {"critical: MON_DOWN | 119 mons down", "warning: OSD_DOWN | 118 osds down"},
				"OSD, state": {"osd.0 | ok: up, in | 1.0 GiB of 4.0 GiB | 25 % | 120", "osd.1 | critical: up, in | 1.9 TiB of 2.0 TiB | 96 % | 121",
					"osd.2 | warning: up, out | 0 KiB of 1.0 GiB | 0 % | 0", "osd.3 | critical: down, in | 512.0 MiB of 1.0 GiB | 50 % | 122"},
				"pool, stored": {"p | 5.0 GiB | 3.0 TiB | warning: 86 %", "q | 2 KiB | 1.0 MiB | ok: 0 %"},
			}, []string{"critical: HEALTH_ERR", "3 of 4 in the quorum; s-4 leads. edge-01 says so."}},
		quorumsPath: {[]string{master, broker, monitor}, map[string]string{
			"etcd-members": `[{"name":"m-1","id":"1","started":true},{"name":"m-2","id":"2","started":true,"leader":true},{"name":"m-3","id":"3","started":true},
{"name":"m-4","id":"4","started":true},{"name":"m-5","id":"5","started":true,"problem":"timeout"},{"name":"m-6","id":"6","started":true,"learner":true}]`,
			"kafka-quorum": `{"leader":"k-1","voters":[{"id":1,"name":"k-1"},{"id":2,"name":"k-2","silent":90},{"id":3,"name":"k-3","silent":91}]}`,
			"ceph-status":  `{"monitors":{"all":["s-1","s-2","s-3"],"quorum":["s-1","s-2","s-3"],"leader":"s-2"}}`,
		}, map[string][]string{"member, state": {
			"m-5 | critical: does not answer: timeout", "m-6 | warning: is brought up to date, and does not vote yet", "m-1 | ok: follows", "m-2 | ok: leads",
			"m-3 | ok: follows", "m-4 | ok: follows", "k-2 | critical: was heard 90 s ago by the one that leads",
			"k-3 | critical: was heard 91 s ago by the one that leads", "k-1 | ok: leads", "s-1 | ok: follows", "s-2 | ok: leads", "s-3 | ok: follows",
		}}, []string{
			"warning: etcd 4 of 5 serve; m-2 leads; 1 may be lost.", "critical: Kafka's controllers 1 of 3 serve; k-1 leads; a majority is 2, so nothing is written.",
			"ok: Ceph's monitors 3 of 3 serve; s-2 leads; 1 may be lost.",
		}},
	} {
		t.Run(path, func(t *testing.T) {
			s := newServing(t, c.roles...)
			for verb, answer := range c.answers {
				s.answers[verb] = strings.ReplaceAll(strings.ReplaceAll(answer, ",\n", ","), "[\n", "[")
			}
			s.show(t, path)
			rows, text := s.figures(t, path)
			require.Equal(t, c.rows, rows)
			for _, want := range c.says {
				require.Contains(t, text, want)
			}
		})
	}
}

func TestEachFigureOfMQTTAndDNSIsThatOfTheNodesMetrics(t *testing.T) {
	s := newServing(t, mqttBroker, dnsServer)
	s.metrics = `spore_source_up{source="mosquitto"} 1
spore_source_up{source="coredns"} 1
mosquitto_clients_connected 201
mosquitto_clients_disconnected 202
mosquitto_subscriptions 203
mosquitto_messages_retained 204
mosquitto_connects_per_minute 205
mosquitto_messages_received_total 1000
mosquitto_messages_sent_total 2000
mosquitto_messages_dropped_total 3000
coredns_dns_requests_total{program="coredns",type="A"} 4000
coredns_dns_requests_total{program="coredns",type="AAAA"} 5000
coredns_dns_responses_total{program="coredns",rcode="NOERROR"} 6000
coredns_dns_responses_total{program="coredns",rcode="NXDOMAIN"} 7000
coredns_dns_responses_total{program="coredns",rcode="REFUSED"} 8000
coredns_cache_hits_total{program="coredns",type="success"} 100
coredns_cache_hits_total{program="coredns",type="denial"} 100
coredns_cache_requests_total{program="coredns"} 400
coredns_forward_healthcheck_broken_total{program="coredns"} 10
`
	s.show(t, messagingPath)
	// What is more in 20 seconds, by the value of before.
	more := strings.NewReplacer(" 1000\n", " 1020\n", " 2000\n", " 2044\n", " 3000\n", " 3066\n", " 4000\n", " 4088\n", " 5000\n", " 5022\n", " 6000\n", " 6132\n",
		" 7000\n", " 7154\n", " 8000\n", " 8176\n", "\"success\"} 100\n", "\"success\"} 125\n", "\"denial\"} 100\n", "\"denial\"} 105\n", " 400\n", " 480\n", " 10\n", " 30\n")
	s.metrics = more.Replace(s.metrics)
	s.later(20 * time.Second)
	s.show(t, messagingPath)
	rows, _ := s.figures(t, messagingPath)
	require.Equal(t, map[string][]string{
		"node, clients":     {"warning: edge-01 | 201 | 202 | 203 | 1.0 | 2.2 | 3.3 | 3066 | 205 | 204"},
		"node, questions/s": {"warning: edge-01 | 5.5 | 8.8 | ok: NOERROR 6.6 ok: NXDOMAIN 7.7 warning: REFUSED 8.8 | 38 % | 1.0"},
	}, rows)
}

func TestEachFigureOfCertificatesAndVersionsIsThatOfTheNode(t *testing.T) {
	p := newPlant(t, "edge-01", "edge-02", "edge-03")
	p.facts.Members = map[string][]string{masterRole: {"edge-01"}}
	p.watch(t, Asker{Timeout: time.Second, Ends: p.time().Add(8 * time.Hour), Renewals: func(context.Context) []reach.Answer[nodeapi.Renewal] {
		var all []reach.Answer[nodeapi.Renewal]
		for i, n := range p.nodes {
			all = append(all, reach.Answer[nodeapi.Renewal]{Node: facts.Node{Name: n.Name}, Value: nodeapi.Renewal{Ends: p.now.Add(time.Duration(40*i+21)*24*time.Hour + time.Minute)}})
		}
		return all
	}})
	p.says("edge-01", func(a *answer) {
		a.status.BuildTime = 1764000000
		a.status.Configuration = &nodeapi.Configuration{RootHash: "aaaaaaaaaaaaaaaa", Serial: 31, Staged: "cccccccccccccccc", Loader: "another"}
		a.status.Updates = &nodeapi.Updates{At: p.now.Add(-time.Hour), From: "https://updates/"}
	})
	p.says("edge-02", func(a *answer) {
		a.status.BuildTime = 1764086400
		a.status.Configuration = &nodeapi.Configuration{RootHash: "bbbbbbbbbbbbbbbb", Serial: 32, Trial: true, StagedRoot: "dddddddddddddddd", Problem: "33 went back"}
	})
	p.says("edge-03", func(a *answer) { a.err = nodeapi.Refusal{Status: http.StatusForbidden, Text: "withdrawn"} })
	p.round()
	rows, text := p.figures(t, "/versions")
	require.Equal(t, map[string][]string{
		"image, nodes": {"aaaaaaaaaaaa of 2025-11-24 16:00 | 1 node | edge-01", "bbbbbbbbbbbb of 2025-11-25 16:00 | 1 node | edge-02"},
		"node, runs": {
			"critical: edge-02 | bbbbbbbbbbbb of 2025-11-25 16:00 | 32, on trial | another root, dddddddddddd | 33 went back | none: it takes nothing by itself",
			"critical: edge-03 it has not answered yet | not known | not known | not known | not known | not known",
			"ok: edge-01 | aaaaaaaaaaaa of 2025-11-24 16:00 | 31 | another configuration, cccccccccccc; boot loader: another | no | at 2026-11-26T02:00:00Z, https://updates/",
		},
	}, rows)
	require.Contains(t, text, "Not known of: edge-03.")
	rows, _ = p.figures(t, "/certificates")
	renewed := " | a master, by itself, when two thirds of its life are over | all that is new is in use"
	for i, n := range rows["whose, ends"] {
		rows["whose, ends"][i] = strings.TrimSuffix(n, renewed)
	}
	require.Equal(t, []string{
		"of this page: what the nodes are shown | ok: 2026-11-26 11:00 UTC | 8 h | start spore dashboard again, or spore access configs |",
		"edge-01 , the first of those of the node | ok: 2026-12-17 03:01 UTC | 21 days", "edge-02 , the first of those of the node | ok: 2027-01-26 03:01 UTC | 61 days",
		"edge-03 , the first of those of the node | ok: 2027-03-07 03:01 UTC | 101 days",
	}, rows["whose, ends"])
}
