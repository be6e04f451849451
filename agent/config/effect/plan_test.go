package effect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/ceph"
	"spore/services/dns"
	"spore/services/kubernetes"
	"spore/services/logs"
	"spore/services/mqtt"
	"spore/services/service"
)

func edge() Input {
	return Input{
		Cluster: &facts.Cluster{
			Name: "plant", ID: "id", Domain: "plant.example", Nodes: 3,
			Network:  spec.Network{NodeSubnets: []string{"10.77.0.0/24"}, Nameservers: []string{"10.77.0.3"}, NTPServers: []string{"10.77.0.2"}},
			Services: spec.Services{&dns.Settings{TTL: 60}, &mqtt.Settings{Port: 8883}},
			Members:  map[string][]string{"dns-server": {"edge-01"}, "mqtt-broker": {"edge-01"}},
		},
		Node:  &facts.Node{Name: "edge-01", Hostname: "edge-01", Roles: []string{"dns-server", "mqtt-broker"}, MACs: []string{"52:54:00:77:00:0b"}},
		Hosts: []byte("10.77.0.11 edge-01\n"), Keys: map[string][]byte{"mqtt.crt": []byte("old")},
	}
}

func master() Input {
	in := edge()
	in.Cluster.Services.Set(&kubernetes.Settings{MaxPods: 10})
	in.Cluster.Members["control-plane"] = []string{"edge-01"}
	in.Node.Roles = []string{"control-plane"}
	return in
}

func monitor() Input {
	in := edge()
	in.Cluster.Services.Set(&ceph.Settings{})
	in.Cluster.Members["ceph-mon"] = []string{"edge-01"}
	in.Node.Roles = []string{"ceph-mon"}
	return in
}

// logging adds a store of logs on another node.
func logging(base func() Input) func() Input {
	return func() Input {
		in := base()
		in.Cluster.Services.Set(&logs.Settings{})
		in.Cluster.Members["logs-store"] = []string{"a"}
		return in
	}
}

func TestWhatIsTakenAtOnceAndWhatWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		base    func() Input
		change  func(*Input)
		changes []string
		units   []string
		reboot  []string
	}{
		"nothing": {change: func(*Input) {}},
		"the DNS server's records": {
			change:  func(in *Input) { in.Cluster.Services.Set(&dns.Settings{TTL: 60, Records: []dns.Record{{Name: "x"}}}) },
			changes: []string{"services.dns.records"}, units: []string{"coredns.service"},
		},
		"the broker's users": {
			change: func(in *Input) {
				in.Cluster.Services.Set(&mqtt.Settings{Port: 8883, Users: []mqtt.User{{Name: "x"}}})
			},
			changes: []string{"services.mqtt.users"}, units: []string{"mosquitto.service"},
		},
		"the broker's settings, on a node without it": {
			change: func(in *Input) {
				in.Node.Roles = []string{"dns-server"}
				in.Cluster.Services.Set(&mqtt.Settings{Port: 8884})
			},
			base:    func() Input { in := edge(); in.Node.Roles = []string{"dns-server"}; return in },
			changes: []string{"services.mqtt.port"},
		},
		"names of other nodes":              {change: func(in *Input) { in.Hosts = []byte("other") }, changes: []string{"hosts"}, units: []string{"coredns.service"}},
		"names of other nodes, on a master": {base: master, change: func(in *Input) { in.Hosts = []byte("other") }, changes: []string{"hosts"}},
		"resolvers and time servers": {
			change:  func(in *Input) { in.Cluster.Network.Nameservers = nil; in.Cluster.Network.NTPServers = []string{"a"} },
			changes: []string{"network.nameservers", "network.ntpServers"}, units: []string{"coredns.service", "systemd-timesyncd.service"},
		},
		"another node more": {
			change: func(in *Input) {
				in.Cluster.Nodes = 4
				in.Cluster.Members = map[string][]string{"dns-server": {"edge-01", "edge-02"}, "mqtt-broker": {"edge-01"}}
			},
			changes: []string{"members.dns-server", "nodes"},
		},
		"a bound for the next trial": {change: func(in *Input) { in.Cluster.TrialMinutes = 3 }, changes: []string{"trialMinutes"}},
		"who may read which logs": {
			change:  func(in *Input) { in.Cluster.LogRights = &spec.LogRights{Pods: []string{"reader"}} },
			changes: []string{"logRights.pods"},
		},
		"certificates that are withdrawn": {
			change:  func(in *Input) { in.Cluster.Withdrawn = []string{"4f"} },
			changes: []string{"withdrawn"},
		},
		"where updates are": {
			change:  func(in *Input) { in.Cluster.Updates = &spec.Updates{From: []string{"http://x"}, Every: 5} },
			changes: []string{"updates.every", "updates.from"},
		},
		"how long the next trial lasts":       {change: func(in *Input) { in.Cluster.TrialSettle = 3 }, changes: []string{"trialSettle"}},
		"where machines without a bundle ask": {change: func(in *Input) { in.Cluster.Enroll = "http://10.77.0.2/" }, changes: []string{"enroll"}},
		"another master": {
			base: master, change: func(in *Input) { in.Cluster.Members["control-plane"] = []string{"a", "b"} },
			changes: []string{"members.control-plane"}, reboot: []string{"members.control-plane: masters form a quorum"},
		},
		"another master, on a node that has nothing of Kubernetes": {
			change: func(in *Input) {
				in.Cluster.Members = map[string][]string{"dns-server": {"edge-01"}, "mqtt-broker": {"edge-01"}, "control-plane": {"a"}}
			},
			changes: []string{"members.control-plane"},
		},
		"another worker, on a monitor": {
			base: monitor, change: func(in *Input) { in.Cluster.Members["worker"] = []string{"a", "b"} },
			changes: []string{"members.worker"}, units: []string{"ceph-bootstrap.service"},
		},
		"members of roles whose names begin like ours": {
			base: func() Input {
				in := master()
				in.Node.Roles = append(in.Node.Roles, "kafka-broker", "ceph-mon")
				return in
			},
			change: func(in *Input) {
				for _, name := range []string{
					"kafka-exporter", "kafka-broker-ui", "worker-exporter", "control-plane-ui", "ceph-exporter",
				} {
					in.Cluster.Members[name] = []string{"edge-01"}
				}
			},
			changes: []string{"members.ceph-exporter", "members.control-plane-ui", "members.kafka-broker-ui",
				"members.kafka-exporter", "members.worker-exporter"},
		},
		"another node with Kafka, on a broker": {
			base: func() Input { in := edge(); in.Node.Roles = []string{"kafka-broker"}; return in },
			change: func(in *Input) {
				in.Cluster.Members["kafka-broker"] = []string{"a"}
				in.Cluster.Members["kafka-controller"] = []string{"a"}
			},
			changes: []string{"members.kafka-broker", "members.kafka-controller"},
			reboot: []string{"members.kafka-broker: controllers form a quorum",
				"members.kafka-controller: controllers form a quorum"},
		},
		"another node with OSDs, on a monitor": {
			base: monitor, change: func(in *Input) { in.Cluster.Members["ceph-osd"] = []string{"a"} },
			changes: []string{"members.ceph-osd"}, reboot: []string{"members.ceph-osd: monitors form a quorum"},
		},
		"settings of Kubernetes": {
			base: master, change: func(in *Input) { in.Cluster.Services.Set(&kubernetes.Settings{MaxPods: 50}) },
			changes: []string{"services.kubernetes.maxPods"}, reboot: []string{"services.kubernetes.maxPods: its services stand on each other"},
		},
		"the audit log of a master, which the sender of logs reads": {
			base: logging(master), change: func(in *Input) {
				in.Cluster.Services.Set(&kubernetes.Settings{MaxPods: 10, Audit: "none"})
			},
			changes: []string{"services.kubernetes.audit"}, units: []string{"spore-logs.service"},
			reboot: []string{"services.kubernetes.audit: its services stand on each other"},
		},
		"another store of logs, on a node without one": {
			base: logging(edge), change: func(in *Input) { in.Cluster.Members["logs-store"] = []string{"a", "b"} },
			changes: []string{"members.logs-store"}, units: []string{"spore-logs.service"},
		},
		"an object of manifests/, on a master": {
			base: master, change: func(in *Input) {
				in.Manifests = map[string]string{"manifests/web.yaml": "1"}
			},
			changes: []string{"manifests/web.yaml"}, units: []string{"kubernetes-bootstrap.service"},
		},
		"an object of manifests/, elsewhere": {
			change:  func(in *Input) { in.Manifests = map[string]string{"manifests/web.yaml": "1"} },
			changes: []string{"manifests/web.yaml"},
		},
		"a role of the node": {
			change:  func(in *Input) { in.Node.Roles = []string{"dns-server"} },
			changes: []string{"node.roles"}, reboot: []string{"node.roles: who the node is and what it has is found at the start"},
		},
		"its host name": {
			change:  func(in *Input) { in.Node.Hostname = "x" },
			changes: []string{"node.hostname"}, reboot: []string{"node.hostname: who the node is and what it has is found at the start"},
		},
		"the gateway": {
			change:  func(in *Input) { in.Cluster.Network.Gateways = []string{"10.77.0.9"} },
			changes: []string{"network.gateways"}, reboot: []string{"network.gateways: the network is set up at the start"},
		},
		"the domain": {change: func(in *Input) { in.Cluster.Domain = "x" }, changes: []string{"domain"}, reboot: []string{"domain: it is read at the start"}},
		"whom it trusts": {
			change:  func(in *Input) { in.Keys = map[string][]byte{"mqtt.crt": []byte("new")} },
			changes: []string{"keys.mqtt.crt"}, reboot: []string{"keys.mqtt.crt: whom the node trusts is read at the start (without one: spore pki rotate-ca)"},
		},
		"a service that goes": {
			change:  func(in *Input) { in.Cluster.Services.Remove("mqtt"); in.Node.Roles = []string{"dns-server"} },
			changes: []string{"node.roles", "services.mqtt.port"}, reboot: []string{"node.roles: who the node is and what it has is found at the start"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := edge
			if tt.base != nil {
				base = tt.base
			}
			old, fresh := base(), base()
			tt.change(&fresh)
			p, err := Compare(old, fresh)
			require.NoError(t, err)
			require.Equal(t, tt.changes, settled(p.Changes))
			require.Equal(t, tt.units, p.Units)
			require.Equal(t, tt.reboot, p.Reboot)
		})
	}
}

// store is a role of a configuration's own, of which port is taken at once.
type store struct {
	Name  string `json:"name"`
	Files string `json:"files"`
}

func (d store) Service() service.Service {
	return service.Service{
		Name:     d.Name,
		Roles:    []service.Role{{Name: d.Name, Target: d.Name + ".target", Programs: []string{d.Name}}},
		Programs: []service.Program{{Name: d.Name, Unit: d.Name + ".service", User: d.Name}},
		Settings: func() spec.Settings { return &storeSettings{name: d.Name} },
		Live: []service.Live{
			{Path: "services." + d.Name + ".port", Units: []string{d.Name + ".service"}},
			{Path: "services." + d.Name, Why: "it is read when it starts"},
		},
	}
}

type storeSettings struct {
	name string
	Port int    `json:"port"`
	Mode string `json:"mode"`
}

// noSettings are {} in the compiled configuration.
type noSettings struct{ name string }

func (s *noSettings) Service() string { return s.name }

func (s *storeSettings) Service() string { return s.name }

func withStores(t *testing.T, own ...services.Definition) Input {
	in := edge()
	l, err := services.With(own)
	require.NoError(t, err)
	in.Cluster.Roles = l.Facts()
	in.Node.Roles = append(in.Node.Roles, "valkey")
	in.Cluster.Members["valkey"], in.Cluster.Members["series"] = []string{"edge-01"}, []string{"edge-02"}
	for _, d := range own {
		in.Cluster.Services.Set(&storeSettings{name: d.Service().Name, Port: 1})
	}
	return in
}

func TestRolesOfAConfigurationsOwn(t *testing.T) {
	valkey, series := store{"valkey", "a"}, store{"series", "a"}
	for name, tt := range map[string]struct {
		old, fresh Input
		units      []string
		reboot     []string
	}{
		"nothing": {old: withStores(t, valkey, series), fresh: withStores(t, valkey, series)},
		"another definition": {
			old: withStores(t, valkey, series), fresh: withStores(t, store{"valkey", "b"}, series),
			reboot: []string{"roles.valkey.files: the role is made at the start"},
		},
		"one of a role that the node does not have": {
			old: withStores(t, valkey, series), fresh: withStores(t, valkey, store{"series", "b"}),
		},
		"one that comes to other nodes": {old: withStores(t, valkey), fresh: withStores(t, valkey, series)},
		"one that other nodes had":      {old: withStores(t, valkey, series), fresh: withStores(t, valkey)},
		"a setting that is taken at once": {
			old: withStores(t, valkey), fresh: changed(withStores(t, valkey), &storeSettings{name: "valkey", Port: 2}), units: []string{"valkey.service"},
		},
		"one that waits": {
			old: withStores(t, valkey), fresh: changed(withStores(t, valkey), &storeSettings{name: "valkey", Port: 1, Mode: "x"}),
			reboot: []string{"services.valkey.mode: it is read when it starts"},
		},
		"one whose name begins with that of ours": {
			old: withStores(t, store{Name: "mqtt-bridge"}, valkey), units: nil,
			fresh: changed(withStores(t, store{Name: "mqtt-bridge"}, valkey), &storeSettings{name: "mqtt-bridge", Port: 2}),
		},
		"settings of which nothing is said any more": {
			old: withStores(t, valkey), fresh: changed(withStores(t, valkey), &noSettings{"valkey"}),
			units: []string{"valkey.service"}, reboot: []string{"services.valkey: it is read when it starts"},
		},
		"such settings of a role that others have": {
			old:   withStores(t, valkey, series),
			fresh: changed(withStores(t, valkey, series), &noSettings{"series"}),
		},
		"one of a role that others have": {
			old: withStores(t, valkey, series), fresh: changed(withStores(t, valkey, series), &storeSettings{name: "series", Port: 1, Mode: "x"}),
		},
	} {
		p, err := Compare(tt.old, tt.fresh)
		require.NoError(t, err, name)
		require.Equal(t, tt.units, p.Units, name)
		require.Equal(t, tt.reboot, p.Reboot, name)
	}
}

func TestARowIsOfWholeNames(t *testing.T) {
	for _, tt := range []struct {
		path, of string
		want     bool
	}{
		{"services.kafka.heap", "services.kafka", true},
		{"services.kafka", "services.kafka", true},
		{"services.kafka-ui.port", "services.kafka", false},
		{"services.valkey.maxMemory", "services.valkey.max", false},
		{"services.valkey.max.bytes", "services.valkey.max", true},
		{"services.valkey.max", "services.valkey.", true},
		{"members.kafka-broker", "members.kafka-broker", true},
		{"members.kafka-broker-exporter", "members.kafka-broker", false},
		{"members.worker-exporter", "members.worker", false},
		{"manifests/web.yaml", "manifests/", true},
		{"network.nameservers", "network.nameservers", true},
		{"hostsfile", "hosts", false},
		{"hosts", "hosts", true},
		{"services.dns.ttl", "hosts", false},
	} {
		require.Equal(t, tt.want, isOf(tt.path, tt.of), "%s of %s", tt.path, tt.of)
	}
}

func changed(in Input, s spec.Settings) Input {
	in.Cluster.Services.Set(s)
	return in
}

// settled leaves out what comes with every change of a service's settings in this test: empty values of its form.
func settled(changes []string) []string {
	var out []string
	for _, c := range changes {
		if c != "services.mqtt.tls.certificate.secretRef" && c != "services.mqtt.tls.key.secretRef" {
			out = append(out, c)
		}
	}
	return out
}

// What nobody has thought of waits for a start.
func TestTheTableEndsWithAStart(t *testing.T) {
	last := table[len(table)-1]
	require.Empty(t, last.path)
	require.NotEmpty(t, last.why)
}
