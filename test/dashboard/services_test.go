//go:build e2e

package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/dashboard"
	"spore/fleet"
	"spore/fleet/devices"
	"spore/fleet/logs"
	"spore/fleet/trail"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// hash is that of the configuration which nodes run.
const hash = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0"

// serving is a cluster that has all services, each with something that is not well.
func serving() *plant {
	p := troubled()
	p.services, p.facts.Members = true, map[string][]string{}
	for i, role := range []string{"control-plane", "kafka-broker", "ceph-mon", "mqtt-broker", "dns-server", "metrics-store", "logs"} {
		n := &p.nodes[i%len(p.nodes)]
		if !slices.Contains(n.Roles, role) {
			n.Roles = append(n.Roles, role)
		}
		p.facts.Members[role] = append(p.facts.Members[role], n.Name)
	}
	for i, n := range p.nodes {
		p.says(n.Name, func(a *answer) {
			a.status.Configuration = &nodeapi.Configuration{RootHash: "0123456789abcdef", ClusterHash: hash, Serial: 7, Trial: i == 1}
			a.status.Updates = &nodeapi.Updates{At: time.Now().Add(-time.Hour), From: "https://updates.plant.example/", Problem: []string{"", "", "", "no route to host"}[i]}
			a.status.BuildTime = 1764000000 + int64(i/2)*86400
		})
	}
	p.says("edge-04", func(a *answer) {
		a.status.Configuration.Problem = "the update 8 did not bring up kafka.service; went back to 7"
	})
	return p
}

// verbs are what nodes answer, part by part.
var verbs = map[string][]string{
	"kubernetes-status": {
		`{"nodes":[{"name":"edge-01","ready":"True","version":"v1.34.2"},{"name":"edge-02","ready":"True","pressure":["DiskPressure"],"version":"v1.34.2","cordoned":true}]}`,
		`{"nodes":[{"name":"edge-03","ready":"Unknown","why":"NodeStatusUnknown: Kubelet stopped posting node status.","version":"v1.34.1"}],
"counts":[{"kind":"Deployment","all":14,"well":13},{"kind":"StatefulSet","all":2,"well":2},{"kind":"DaemonSet","all":5,"well":5},{"kind":"Job","all":1,"well":1},
{"kind":"PersistentVolume","all":6,"well":6},{"kind":"PersistentVolumeClaim","all":7,"well":6}],
"behind":[{"kind":"Deployment","namespace":"line-control","name":"press-gateway","wanted":3,"ready":1}],
"pods":[{"namespace":"line-control","name":"press-gateway-7d9c6f5b8-x2v9q","node":"edge-02","phase":"Running",
"why":"gateway waits, CrashLoopBackOff: back-off 5m0s restarting failed container=gateway pod=press-gateway-7d9c6f5b8-x2v9q_line-control(2b1e9c1a-5a0c-4b9e-8f0e-0a51e3ad1f1b)","restarts":17,"ended":"gateway: OOMKilled, code 137, 2026-11-26T02:51:07Z"},
{"namespace":"line-control","name":"press-gateway-7d9c6f5b8-k8s4m","phase":"Pending","why":"Unschedulable: 0/3 nodes are available: 1 node(s) had untolerated taint, 2 Insufficient memory."}],
"volumes":[{"kind":"PersistentVolumeClaim","namespace":"line-control","name":"recipes","state":"Pending","class":"ceph-block","size":"20Gi"}],"more":["pods that are not well"]}`,
	},
	"etcd-members": {`[{"name":"edge-01","id":"8e9e05c52164694d","started":true,"leader":true},{"name":"edge-02","id":"91bc3c398fb3c146","started":true},
{"name":"edge-03","id":"fd422379fda50e48","started":true,"problem":"context deadline exceeded"}]`},
	"kafka-quorum": {`{"leader":"edge-01","epoch":12,"voters":[{"id":1,"name":"edge-01","behind":0,"silent":0},{"id":2,"name":"edge-02","behind":3,"silent":1},
{"id":4,"name":"edge-04","behind":88210,"silent":5400}],"brokers":[{"id":1,"name":"edge-01","up":true},{"id":2,"name":"edge-02","up":true},{"id":4,"name":"edge-04"}]}`},
	"kafka-topics": {`[{"name":"press.temperature","partitions":[{"leader":1,"replicas":[1,2,4],"inSync":[1,2]},{"leader":2,"replicas":[2,4,1],"inSync":[2,1]}]},
{"name":"orders","partitions":[{"leader":1,"replicas":[1,2],"inSync":[1,2]}]},{"name":"scratch","partitions":[{"leader":-1,"replicas":[4],"inSync":[]}]}]`},
	"kafka-lag": {`[{"group":"historian","state":"Stable","topic":"press.temperature","records":48211},{"group":"erp","state":"Empty","topic":"orders","records":12,"unknown":1}]`},
	"ceph-status": {
		`{"status":{"health":{"status":"HEALTH_WARN","checks":{"OSD_DOWN":{"severity":"HEALTH_WARN","summary":{"message":"1 osds down","count":1}},
"PG_DEGRADED":{"severity":"HEALTH_WARN","summary":{"message":"Degraded data redundancy: 212/5931 objects degraded (3.574%), 31 pgs degraded, 31 pgs undersized","count":31}}}},"quorum_names":["edge-01","edge-02"]}}`,
		`{"monitors":{"all":["edge-01","edge-02","edge-03"],"quorum":["edge-01","edge-02"],"leader":"edge-01"}}`,
		`{"osds":{"nodes":[{"id":-1,"name":"default","type":"root"},{"id":-3,"name":"edge-01","type":"host"},
{"id":0,"name":"osd.0","type":"osd","status":"up","reweight":1,"kb":976762584,"kb_used":853690000,"pgs":97},{"id":-5,"name":"edge-02","type":"host"},
{"id":1,"name":"osd.1","type":"osd","status":"down","reweight":0,"kb":976762584,"kb_used":0,"pgs":0}]}}`,
		`{"pools":{"pools":[{"name":"kubernetes","stats":{"stored":312475648000,"max_avail":88046829568,"percent_used":0.78}},{"name":".mgr","stats":{"stored":459280,"max_avail":88046829568,"percent_used":0.0}}]}}`,
	},
	"configuration-show": {`[{"path":"cluster.yaml","sha256":"c0ffee"},{"path":"nodes/edge-09.yaml","sha256":"beef"}]`},
}

// ran is what the nodes have of the file that differs.
const ran = "name: plant\nnetwork:\n  gateways: [10.77.0.1]\nservices: [mqtt, kafka]\n"

func (p *plant) verb(ctx context.Context, role, verb string, o nodeapi.Order) (dashboard.Reply, error) {
	v, found := nodeapi.FindVerb(verb)
	if !found || v.Kind != nodeapi.Looks {
		return dashboard.Reply{}, fmt.Errorf("internal error: %s is no verb that looks", verb)
	}
	if err := v.Check(o); err != nil {
		return dashboard.Reply{}, err
	}
	r := dashboard.Reply{Node: "edge-01"}
	p.mu.Lock()
	gone := p.answers[r.Node].err
	p.mu.Unlock()
	broken, _ := p.broken(ctx, verb)
	if err := cmp.Or(gone, broken.err); err != nil {
		return dashboard.Reply{}, fmt.Errorf("%s: %w", r.Node, err)
	}
	if broken.answer != nil {
		for _, part := range broken.answer {
			r.Results = append(r.Results, json.RawMessage(part))
		}
		return r, nil
	}
	switch {
	case verb == "metrics-query":
		all, node, err := series(o)
		if err != nil {
			return r, err
		}
		part, err := json.Marshal(all)
		r.Node, r.Results = node, []json.RawMessage{part}
		return r, err
	case verb == "configuration-show" && o.Arguments["file"] != "":
		part, err := json.Marshal([]machine.ConfigurationFile{{Path: o.Arguments["file"], Text: ran}})
		r.Results = []json.RawMessage{part}
		return r, err
	case verb == "kafka-lag":
		r.Said = []string{"edge-04: no answer: connection refused"}
	}
	for _, part := range verbs[verb] {
		r.Results = append(r.Results, json.RawMessage(part))
	}
	return r, nil
}

// series are two that rise and fall by the hour.
func series(o nodeapi.Order) ([]machine.Series, string, error) {
	var times [3]int64
	for i, name := range []string{"from", "until", "step"} {
		n, err := strconv.ParseInt(o.Arguments[name], 10, 64)
		if err != nil || n < 1 {
			return nil, "", fmt.Errorf("internal error: %s of the question is %q", name, o.Arguments[name])
		}
		times[i] = n
	}
	var all []machine.Series
	for i := range 2 {
		one := machine.Series{Labels: map[string]string{"__name__": "node_load1", "instance": fmt.Sprintf("edge-%02d", i+1)}}
		for at := times[0]; at <= times[1]; at += times[2] {
			one.Samples = append(one.Samples, machine.Sample{At: float64(at), Value: fmt.Sprintf("0.%02d", 30+20*i+int(at%3600)/120)})
		}
		all = append(all, one)
	}
	return all, "edge-02", nil
}

// asks has the questions of the pages of services.
func (p *plant) asks(a *dashboard.Asker) {
	now := time.Now()
	a.Verb = p.verb
	a.On = func(ctx context.Context, node, verb string, o nodeapi.Order) (dashboard.Reply, error) {
		return p.verb(ctx, "", verb, o)
	}
	a.Query = func(ctx context.Context, o nodeapi.Order) ([]machine.Series, string, error) {
		if broken, found := p.broken(ctx, "metrics"); found {
			return nil, "", broken.err
		}
		return series(o)
	}
	a.Files = func() (map[string][]byte, error) {
		return map[string][]byte{"cluster.yaml": []byte(strings.ReplaceAll(ran, "kafka", "dns")), "services/dns.yaml": []byte("forwarders: [10.77.0.1]\n")}, nil
	}
	a.Metrics = func(_ context.Context, node string) ([]byte, error) {
		if node == "edge-03" {
			return nil, errors.New("no answer: connection refused")
		}
		n := time.Since(now).Milliseconds()
		return fmt.Appendf(nil, `# TYPE mosquitto_clients_connected gauge
spore_source_up{source="mosquitto"} 1
spore_source_up{source="coredns"} 1
mosquitto_clients_connected 212
mosquitto_clients_disconnected 3
mosquitto_subscriptions 460
mosquitto_messages_retained 1031
mosquitto_messages_received_total %d
mosquitto_messages_sent_total %d
mosquitto_messages_dropped_total 7
mosquitto_connects_per_minute 4
coredns_dns_requests_total{program="coredns",server="dns://:53",zone=".",type="A",proto="udp"} %d
coredns_dns_responses_total{program="coredns",server="dns://:53",zone=".",rcode="NOERROR"} %d
coredns_dns_responses_total{program="coredns",server="dns://:53",zone=".",rcode="SERVFAIL"} %d
`, n, 2*n, n/4, n/5, n/20), nil
	}
	a.Machines = func(context.Context) (dashboard.Machines, error) {
		return dashboard.Machines{
			Out: "out",
			Asks: []dashboard.Claim{
				{Fingerprint: "3f2a-91c0-77de-0b42", State: "waiting", Waits: true, Remote: "10.77.0.24", Node: "edge-04"},
				{Fingerprint: "a401-5c22-e19b-6fd0", State: "approved", Delivered: true, Remote: "10.77.0.17", Node: "edge-01"},
			},
			Booted: []dashboard.Booted{
				{MACs: []string{"52:54:00:77:00:16"}, Serial: "CZJ2390T7V", Address: "10.77.0.17", Node: "edge-01", Did: "took the image", Last: now},
				{MACs: []string{"52:54:00:77:00:99"}, Address: "10.77.0.90", Advice: "no node has one of its addresses", Did: "asked for an address", Last: now},
			},
		}, nil
	}
	a.Logs = func(ctx context.Context, q logs.Question) (logs.Found, error) {
		if broken, found := p.broken(ctx, "logs"); found {
			return logs.Found{}, broken.err
		}
		f := logs.Found{Store: "edge-03", HasStore: true, Since: now.Add(-time.Hour), Until: now, Said: []string{"edge-03: the store has nothing of edge-04 since 02:10"}}
		for i := range 400 {
			l := logs.Line{Time: now.Add(time.Duration(i-400) * 9 * time.Second), Node: "edge-01", Unit: "mosquitto.service", Identifier: "mosquitto", Priority: 6,
				Message: fmt.Sprintf("New client connected from 10.77.4.%d:51512 as press-%d (p2, c1, k60, u'press').", i%250, i)}
			switch {
			case i%90 == 0:
				l.Unit, l.Identifier, l.Priority, l.Message = "", "kernel", 3, "ata1.00: failed command: READ FPDMA QUEUED"
			case i%40 == 0:
				l.Unit, l.Pod, l.Identifier, l.Priority = "", "line-control/press-gateway-7d9c6f5b8-x2v9q/gateway", "gateway", 4
			}
			f.Lines = append(f.Lines, l)
		}
		return f, nil
	}
	a.Trail = func(context.Context, trail.Question) (trail.Answer, error) {
		call := func(back time.Duration, node, call, result string, stage nodeapi.Stage) trail.Call {
			return trail.Call{
				TrailRecord: nodeapi.TrailRecord{
					ID: strings.Repeat("0a", 16), Stage: stage, Time: now.Add(-back), Node: node, User: "anna", Role: nodeapi.Operator, From: "10.77.9.4", Call: call,
					Arguments: map[string]string{"unit": "mosquitto.service"}, Result: result,
				},
				Ended: now.Add(-back + time.Second), Kept: []string{node},
			}
		}
		other := call(time.Hour, "edge-03", "reboot", "", nodeapi.Did)
		other.Kept = []string{"edge-01"}
		return trail.Answer{Asked: 4, Failed: map[string]error{"edge-03": errors.New("no answer: connection refused")}, Calls: []trail.Call{
			call(5*time.Hour, "edge-01", "unit-restart", "restarted", nodeapi.Did), call(4*time.Hour, "edge-04", "unit-restart", "it is not active after 30 s", nodeapi.Erred), other,
		}}, nil
	}
	a.Renewals = func(context.Context) []fleet.Answer[nodeapi.Renewal] {
		var all []fleet.Answer[nodeapi.Renewal]
		for i, n := range p.nodes {
			one := fleet.Answer[nodeapi.Renewal]{Node: facts.Node{Name: n.Name}, Value: nodeapi.Renewal{Serial: 3, Ends: now.Add(time.Duration(i*30+6)*24*time.Hour + time.Hour)}}
			if i == 1 {
				one.Value.Pending = []string{"kafka.service"}
			}
			if i == 2 {
				one.Err = errors.New("no answer: connection refused")
			}
			all = append(all, one)
		}
		return all
	}
	a.Devices = func(_ context.Context, node string) (string, string, error) {
		var onDisks, onNetwork strings.Builder
		disk, err := json.Marshal(machine.Disk{
			Name: "sda", Size: 4 << 40, Model: "ST4000", Transport: "sata", Rotational: true, Whose: machine.Role, About: "it is Kafka disk 1 of this node",
			Selectors: []machine.Selector{{Key: "serial", Value: "ZGY1"}, {Key: "wwn", Value: "0x5000c500a1b2c3d4"}},
			Partitions: []machine.Partition{{Number: 1, Name: "sda1", Size: 4 << 40, Label: "spore-kafka", FileSystem: "ext4", Mounts: []string{"/var/lib/kafka/disks/1"},
				Fill: &machine.Fill{Size: 100 << 30, Used: 25 << 30, Free: 70 << 30, Inodes: 1000, FreeInodes: 50}}},
		})
		if err != nil {
			return "", "", err
		}
		links, err := json.Marshal(machine.Network{
			Links: []machine.Link{{Name: "eth0", Kind: "device", MAC: "02:00:00:00:00:01", Up: true, Carrier: true, MTU: 1500, Speed: 1000, Duplex: "full", Addresses: []string{"10.77.0.17/24"}}},
			DNS:   []string{"10.77.0.53"},
		})
		if err != nil {
			return "", "", err
		}
		err = errors.Join(devices.ShowDisks(&onDisks, node, []json.RawMessage{disk}), devices.ShowNetwork(&onNetwork, node, []json.RawMessage{links}))
		return onDisks.String(), onNetwork.String(), err
	}
}
