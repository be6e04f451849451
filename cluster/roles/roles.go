// Package roles is the one table of what a machine can be: role, systemd target, services, their units, Debian packages,
// payloads, ports, users and whether they need secrets. Adding a service touches one row here, its unit, its template and
// its test.
package roles

import (
	"slices"
	"strings"

	"spore/cluster/spec"
)

// Role is one row of the contract between cluster.yaml and the image.
type Role struct {
	// Name is the canonical name.
	Name string
	// Aliases are other spellings that cluster.yaml may use.
	Aliases []string
	// Target is the systemd target that the agent starts.
	Target string
	// Service is the entry of cluster.yaml's services list that the role belongs to.
	Service string
	// Programs names what the target runs, each a row of Programs.
	Programs []string
}

// Program is one service program of the image.
type Program struct {
	// Name is the program's name and the argument of `spore-agent render`.
	Name string `json:"name"`
	// Unit is its systemd service. Of a template NAME@.service another program starts one for each disk of the node.
	Unit string `json:"unit"`
	// Packages are Debian packages that carry it.
	Packages []string `json:"packages,omitempty"`
	// Payloads are entries of payloads/ that carry it.
	Payloads []string `json:"payloads,omitempty"`
	// Own are programs of this source tree, agent/NAME, that it needs besides the agent.
	Own []string `json:"own,omitempty"`
	// Ports are all that it listens at, on loopback too. Two programs that one node may run never meet at a port
	// whose number is fixed here; the package cluster holds those whose numbers are settings to that.
	Ports []Port `json:"ports,omitempty"`
	// User is the account that it runs as.
	User string `json:"user"`
	// Secrets are the entries of the node's bundle that it is given.
	Secrets []string `json:"secrets,omitempty"`
	// NeedsSecrets gives it those entries, too, that its service's settings name. A role is held back until its programs
	// have what they are to be given.
	NeedsSecrets bool `json:"needsSecrets"`
	// With is a service that the program is for, besides that of its role, or a part of a service (spec.Services.Part): without
	// it, the role has no such program.
	With string `json:"with,omitempty"`
}

// WaitsForSecrets tells whether a role is held back until this program has its secrets.
func (p Program) WaitsForSecrets() bool { return p.NeedsSecrets || len(p.Secrets) > 0 }

// everyKubernetesNode is what both roles of Kubernetes run.
var everyKubernetesNode = []string{"containerd", "kubernetes-images", "kube-balancer", "kubernetes-api", "kubelet", "kube-proxy", "calico-node", "rbd-node", "cephfs-node"}

// controlPlane is what a control plane runs besides.
var controlPlane = []string{"etcd", "etcd-members", "etcd-snapshot", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "cluster-dns", "calico-controllers", "kubernetes-bootstrap", "signer", "control-plane-endpoint", "rbd-controller", "rbd-provisioner", "cephfs-controller", "cephfs-provisioner"}

// Roles whose program listens at different ports.
const (
	kafkaBroker     = "kafka-broker"
	kafkaController = "kafka-controller"
)

// EveryNode names the programs of every node, whatever its roles are. They start when the node has their secrets.
func EveryNode() []string { return []string{"api"} }

// Roles lists every role, in the order in which people think of them.
func Roles() []Role {
	return []Role{
		{Name: "control-plane", Aliases: []string{"master"}, Target: "kubernetes-master.target", Service: "kubernetes", Programs: slices.Concat(controlPlane, everyKubernetesNode)},
		{Name: "worker", Target: "kubernetes-worker.target", Service: "kubernetes", Programs: slices.Clone(everyKubernetesNode)},
		{Name: kafkaBroker, Target: "kafka.target", Service: "kafka", Programs: []string{"kafka-disks", "kafka", "kafka-bootstrap"}},
		{Name: kafkaController, Target: "kafka.target", Service: "kafka", Programs: []string{"kafka"}},
		{Name: "ceph-mon", Target: "ceph-mon.target", Service: "ceph", Programs: []string{"ceph-mon", "ceph-bootstrap", "ceph-mgr", "ceph-mds"}},
		{Name: "ceph-osd", Target: "ceph-osd.target", Service: "ceph", Programs: []string{"ceph-disks", "ceph-osd"}},
		{Name: "mqtt-broker", Target: "mqtt.target", Service: "mqtt", Programs: []string{"mosquitto"}},
		{Name: "dns-server", Target: "dns.target", Service: "dns", Programs: []string{"coredns"}},
	}
}

// Programs lists every service program that an image can carry.
func Programs() []Program {
	return []Program{
		{Name: "mosquitto", Unit: "mosquitto.service", Packages: []string{"mosquitto"}, User: "mosquitto", NeedsSecrets: true,
			Ports: []Port{tcp(spec.DefaultMQTTPort, "MQTT").set(spec.SettingMQTTPort)}},
		// Part of spore-agent. Its certificate is also what this node asks others with.
		{Name: "api", Unit: "spore-api.service", User: "spore-api", Secrets: pairs("agent"),
			Ports: []Port{tcp(PortAPI, "the node's API")}},
		{Name: "coredns", Unit: "coredns.service", Payloads: []string{"coredns"}, User: "coredns",
			Ports: []Port{udp(PortDNS, "DNS").at(Node), tcp(PortDNS, "DNS").at(Node)}},

		// Broker, controller or both, as the node's roles are: clients, brokers, controllers.
		// Part of spore-agent.
		{Name: "kafka-disks", Unit: "kafka-disks.service", User: "root"},
		{Name: "kafka", Unit: "kafka.service", Packages: []string{"openjdk-21-jre-headless"}, Payloads: []string{"kafka"}, User: "kafka",
			Ports: []Port{
				tcp(PortKafkaClient, "clients of Kafka").only(kafkaBroker),
				tcp(PortKafkaBroker, "brokers of Kafka").at(Node).only(kafkaBroker),
				tcp(PortKafkaController, "controllers of Kafka").at(Node).only(kafkaController),
			},
			Secrets: append(pairs("kafka-broker"), "kafka-cluster-id")},
		// Part of spore-agent.
		{Name: "kafka-bootstrap", Unit: "kafka-bootstrap.service", User: "spore-kafka", NeedsSecrets: true,
			Secrets: append(pairs("kafka-broker"), "kafka-scram-admin")},

		{Name: "etcd", Unit: "etcd.service", Payloads: []string{"etcd"}, Own: []string{"spore-etcd"}, User: "etcd", NeedsSecrets: true,
			Ports: []Port{
				tcp(PortEtcdClient, "clients of etcd").at(Node), tcp(PortEtcdClient, "clients of etcd").at(Loopback),
				tcp(PortEtcdPeer, "members of etcd").at(Node),
			},
			Secrets: pairs("etcd-server", "etcd-peer")},
		// Keeps the members of etcd as cluster.yaml has the masters. What root asks etcd is asked with its certificate.
		{Name: "etcd-members", Unit: "etcd-members.service", Own: []string{"spore-etcd"}, User: "spore-etcd", NeedsSecrets: true, Secrets: pairs("etcd-agent")},
		// Keeps encrypted snapshots of etcd, its own and those of the other masters.
		{Name: "etcd-snapshot", Unit: "etcd-snapshot.service", Payloads: []string{"etcd"}, Own: []string{"spore-etcd"}, User: "spore-snapshot", NeedsSecrets: true,
			Secrets: pairs("etcd-agent", "agent", "etcd-snapshot-key")},
		{Name: "kube-apiserver", Unit: "kube-apiserver.service", Payloads: []string{"kubernetes"}, User: "kube-apiserver", NeedsSecrets: true,
			Ports:   []Port{tcp(PortKubernetesAPI, "the Kubernetes API")},
			Secrets: pairs("kube-apiserver", "kube-apiserver-kubelet", "front-proxy-client", "service-account-key", "etcd-encryption-key")},
		{Name: "kube-controller-manager", Unit: "kube-controller-manager.service", Payloads: []string{"kubernetes"}, User: "kube-controller-manager", NeedsSecrets: true,
			Ports:   []Port{tcp(PortControllerManager, "health and metrics").at(Loopback)},
			Secrets: pairs("kube-controller-manager", "kube-controller-manager-server", "kubernetes-client-ca-key", "kubelet-serving-ca-key", "service-account-key")},
		{Name: "kube-scheduler", Unit: "kube-scheduler.service", Payloads: []string{"kubernetes"}, User: "kube-scheduler", NeedsSecrets: true,
			Ports:   []Port{tcp(PortScheduler, "health and metrics").at(Loopback)},
			Secrets: pairs("kube-scheduler", "kube-scheduler-server")},
		// The DNS server of pods; the role dns-server is that of machines.
		{Name: "cluster-dns", Unit: "cluster-dns.service", Payloads: []string{"cluster-dns"}, User: "coredns", NeedsSecrets: true,
			Ports:   []Port{udp(PortClusterDNS, "DNS of pods").at(Node), tcp(PortClusterDNS, "DNS of pods").at(Node)},
			Secrets: pairs("cluster-dns")},
		// Takes back the addresses of pods and nodes that are gone.
		{Name: "calico-controllers", Unit: "calico-controllers.service", Payloads: []string{"calico"}, User: "calico-controllers", NeedsSecrets: true,
			Secrets: pairs("calico-controllers")},
		// Part of spore-agent.
		{Name: "kubernetes-bootstrap", Unit: "kubernetes-bootstrap.service", User: "spore-kubernetes", NeedsSecrets: true, Secrets: pairs("kubernetes-agent")},

		// The virtual address of the API, where the cluster has one.
		{Name: "control-plane-endpoint", Unit: "control-plane-endpoint.service", With: spec.PartEndpoint, Own: []string{"spore-etcd"}, User: "spore-endpoint", NeedsSecrets: true,
			Secrets: pairs("etcd-agent")},

		// Part of spore-agent. Signs what other nodes ask for, with the keys of all authorities.
		{Name: "signer", Unit: "spore-signer.socket", User: "spore-signer"},

		{Name: "containerd", Unit: "containerd.service", Packages: []string{"runc"}, Payloads: []string{"containerd", "crictl"}, User: "root",
			Ports: []Port{tcp(PortContainerd, "streams of containers").at(Loopback)}},
		{Name: "kubernetes-images", Unit: "kubernetes-images.service", Payloads: []string{"containerd"}, User: "root"},
		{Name: "kube-balancer", Unit: "kube-balancer.service", Packages: []string{"haproxy"}, User: "kube-balancer",
			Ports: []Port{tcp(PortBalancer, "the Kubernetes API for this node's programs").at(Loopback)}},
		// Part of spore-agent.
		{Name: "kubernetes-api", Unit: "kubernetes-api.service", User: "spore-kubernetes", NeedsSecrets: true, Secrets: pairs("kubelet-bootstrap")},
		{Name: "kubelet", Unit: "kubelet.service", Payloads: []string{"kubernetes"}, User: "root", NeedsSecrets: true, Secrets: pairs("kubelet-bootstrap"),
			Ports: []Port{tcp(PortKubelet, "the API of kubelet").at(Node), tcp(PortKubeletHealth, "health").at(Loopback)}},
		{Name: "kube-proxy", Unit: "kube-proxy.service", Payloads: []string{"kubernetes"}, User: "root", NeedsSecrets: true, Secrets: pairs("kube-proxy"),
			Ports: []Port{
				tcp(PortProxyMetrics, "metrics").at(Loopback), tcp(PortProxyHealth, "health").at(Loopback),
				// The rules of nftables take what comes there before any program has it; for the health of a Service,
				// kube-proxy listens.
				tcp(firstNodePort, "Services of the type NodePort").to(lastNodePort), udp(firstNodePort, "Services of the type NodePort").to(lastNodePort),
			}},
		{Name: "calico-node", Unit: "calico-node.service", Packages: []string{"conntrack", "ipset", "iptables"}, Payloads: []string{"calico", "cni"}, User: "root", NeedsSecrets: true,
			Ports:   []Port{udp(portVXLAN, "tunnels between pods, by the kernel"), tcp(PortFelixHealth, "health").at(Loopback)},
			Secrets: pairs("calico-node", "calico-cni")},

		// Volumes of pods. The controller makes images of Ceph when Kubernetes' provisioner asks for them; the node mounts them.
		{Name: "rbd-controller", Unit: "rbd-controller.service", With: "ceph", Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "spore-rbd",
			Secrets: []string{"ceph-fsid", "ceph-kubernetes-rbd-key"}},
		{Name: "rbd-provisioner", Unit: "rbd-provisioner.service", With: "ceph", Payloads: []string{"csi-provisioner"}, User: "spore-rbd",
			Secrets: pairs("rbd-provisioner")},
		{Name: "rbd-node", Unit: "rbd-node.service", With: "ceph", Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "root",
			Secrets: []string{"ceph-fsid", "ceph-kubernetes-rbd-key"}},

		// Shared volumes of pods: the controller makes and removes subvolumes of CephFS, the node mounts them.
		{Name: "cephfs-controller", Unit: "cephfs-controller.service", With: spec.PartCephFSVolumes, Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "spore-rbd",
			Secrets: []string{"ceph-fsid", "ceph-kubernetes-cephfs-node-key"}},
		{Name: "cephfs-provisioner", Unit: "cephfs-provisioner.service", With: spec.PartCephFSVolumes, Payloads: []string{"csi-provisioner"}, User: "spore-rbd",
			Secrets: pairs("rbd-provisioner")},
		{Name: "cephfs-node", Unit: "cephfs-node.service", With: spec.PartCephFSVolumes, Payloads: []string{"spore-rbd"}, User: "root",
			Secrets: []string{"ceph-fsid", "ceph-kubernetes-cephfs-node-key"}},

		{Name: "ceph-mon", Unit: "ceph-mon.service", Packages: []string{"ceph-mon", "ceph-base"}, User: "ceph", NeedsSecrets: true,
			Ports:   []Port{tcp(PortCephMon, "monitors of Ceph").at(Node)},
			Secrets: []string{"ceph-fsid", "ceph-mon-key", "ceph-admin-key", "ceph-mgr-key"}},
		// Part of spore-agent.
		{Name: "ceph-bootstrap", Unit: "ceph-bootstrap.service", Packages: []string{"ceph-common"}, User: "ceph", NeedsSecrets: true,
			Secrets: []string{"ceph-fsid", "ceph-mon-key", "ceph-admin-key", "ceph-mgr-key", "ceph-osd-seed", "ceph-rbd-seed", "ceph-mds-key", "ceph-cephfs-seed", "ceph-kubernetes-cephfs-key"}},
		// Part of spore-agent; cryptsetup opens encrypted disks.
		{Name: "ceph-disks", Unit: "ceph-disks.service", Packages: []string{"cryptsetup-bin"}, User: "root", Secrets: []string{"ceph-osd-encryption-key"}},
		{Name: "ceph-osd", Unit: "ceph-osd-disk@.service", Packages: []string{"ceph-osd", "ceph-common"}, User: "ceph", NeedsSecrets: true,
			Ports:   []Port{cephPorts("OSDs of Ceph")},
			Secrets: []string{"ceph-fsid", "ceph-osd-key"}},
		{Name: "ceph-mgr", Unit: "ceph-mgr.service", Packages: []string{"ceph-mgr", "ceph-mgr-modules-core"}, User: "ceph", NeedsSecrets: true,
			Ports:   []Port{cephPorts("managers of Ceph")},
			Secrets: []string{"ceph-fsid", "ceph-mgr-key"}},
		// A metadata server of CephFS beside each monitor.
		{Name: "ceph-mds", Unit: "ceph-mds.service", With: spec.PartCephFS, Packages: []string{"ceph-mds"}, User: "ceph", NeedsSecrets: true,
			Ports:   []Port{cephPorts("metadata servers of Ceph")},
			Secrets: []string{"ceph-fsid", "ceph-mds-key"}},
	}
}

// Programs of System that not every node has sockets of.
const (
	// TimeServer is of the few nodes that are asked for the time.
	TimeServer = "time"
	// DHCPClient listens while it has a lease.
	DHCPClient = "networkd"
)

// System lists what every image runs besides, as far as it has ports. Its units are systemd's own, but for the time
// server.
func System() []Program {
	return []Program{
		{Name: TimeServer, Unit: "spore-time.service", User: "spore-time", Ports: []Port{udp(portNTP, "the time, for other nodes").at(Node)}},
		{Name: "timesyncd", Unit: "systemd-timesyncd.service", User: "systemd-timesync",
			// It binds the socket by which it asks, and does not connect it.
			Ports: []Port{udp(firstEphemeral, "answers of time servers").to(lastEphemeral)}},
		{Name: DHCPClient, Unit: "systemd-networkd.service", User: "systemd-network", Ports: []Port{udp(portDHCP, "answers of DHCP servers").at(Node)}},
	}
}

// Enabled returns the rows of the programs that the role runs where these services are enabled, in the order of the role.
func (r Role) Enabled(service func(name string) bool) []Program {
	var out []Program
	for _, name := range r.Programs {
		if p, ok := LookupProgram(name); ok && (p.With == "" || service(p.With)) {
			out = append(out, p)
		}
	}
	return out
}

// pairs names the bundle entries of certificates, a chain and a key each. A name that ends in -key is an entry of its own.
func pairs(names ...string) []string {
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, "-key") {
			out = append(out, name)
			continue
		}
		out = append(out, name+"-certificate", name+"-key")
	}
	return out
}

// Lookup finds a role by its name or alias.
func Lookup(name string) (Role, bool) {
	for _, r := range Roles() {
		if r.Name == name {
			return r, true
		}
		for _, a := range r.Aliases {
			if a == name {
				return r, true
			}
		}
	}
	return Role{}, false
}

// LookupProgram finds a program by its name.
func LookupProgram(name string) (Program, bool) {
	for _, p := range Programs() {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}
