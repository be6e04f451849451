// Package kubernetes is the service kubernetes: Kubernetes with its etcd, containerd and Calico.
package kubernetes

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "kubernetes"

const (
	// portVXLAN is IANA's, and felix's own default.
	portVXLAN = 4789
	// The range of node ports is kube-apiserver's own default (--service-node-port-range).
	firstNodePort, lastNodePort = 30000, 32767
)

// Roles of its nodes.
const (
	master = "control-plane"
	worker = "worker"
)

// PartEndpoint is the virtual address of the API, which is a setting of the network and not of the service.
const PartEndpoint = "control-plane-endpoint"

// everyNode is what both roles of Kubernetes run.
var everyNode = []string{"containerd", "kubernetes-images", "kube-balancer", "kubernetes-api", "kubelet", "kube-proxy", "calico-node", "rbd-node", "cephfs-node"}

// controlPlane is what a control plane runs besides.
var controlPlane = []string{"etcd", "etcd-members", "etcd-snapshot", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "cluster-dns", "calico-controllers", "kubernetes-bootstrap", "signer", "control-plane-endpoint", "rbd-controller", "rbd-provisioner", "cephfs-controller", "cephfs-provisioner"}

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:       Name,
		Settings:   func() spec.Settings { return new(Settings) },
		Check:      checkSettings,
		Choices:    map[string][]string{"Settings.podSecurity": podSecurityLevels, "Settings.audit": auditLevels},
		Members:    checkMembers,
		NeedsRoles: true,
		NodeFile:   checkScheduling,
		Files:      archives,
		Roles: []service.Role{
			{Name: master, Aliases: []string{"master"}, Target: "kubernetes-master.target", RunsPods: true, Programs: slices.Concat(controlPlane, everyNode)},
			{Name: worker, Target: "kubernetes-worker.target", RunsPods: true, Programs: slices.Clone(everyNode)},
		},
		Programs: []service.Program{
			{Name: "etcd", Unit: "etcd.service", Payloads: []string{"etcd"}, Own: []string{"spore-etcd"}, User: "etcd", NeedsSecrets: true,
				Ports: []service.Port{
					service.TCP(PortEtcdClient, "clients of etcd").On(service.Node), service.TCP(PortEtcdClient, "clients of etcd").On(service.Loopback),
					service.TCP(PortEtcdPeer, "members of etcd").On(service.Node),
				},
				Secrets: service.Pairs("etcd-server", "etcd-peer")},
			// Keeps the members of etcd as cluster.yaml has the masters. What root asks etcd is asked with its certificate.
			{Name: "etcd-members", Unit: "etcd-members.service", Own: []string{"spore-etcd"}, User: "spore-etcd", NeedsSecrets: true, Secrets: service.Pairs("etcd-agent")},
			// Keeps encrypted snapshots of etcd, its own and those of the other masters.
			{Name: "etcd-snapshot", Unit: "etcd-snapshot.service", Payloads: []string{"etcd"}, Own: []string{"spore-etcd"}, User: "spore-snapshot", NeedsSecrets: true,
				Secrets: service.Pairs("etcd-agent", "agent", "etcd-snapshot-key")},
			{Name: "kube-apiserver", Unit: "kube-apiserver.service", Payloads: []string{"kubernetes"}, User: "kube-apiserver", NeedsSecrets: true,
				Ports:   []service.Port{service.TCP(PortAPI, "the Kubernetes API")},
				Secrets: service.Pairs("kube-apiserver", "kube-apiserver-kubelet", "front-proxy-client", "service-account-key", "etcd-encryption-key")},
			{Name: "kube-controller-manager", Unit: "kube-controller-manager.service", Payloads: []string{"kubernetes"}, User: "kube-controller-manager", NeedsSecrets: true,
				Ports:   []service.Port{service.TCP(PortControllerManager, "health and metrics").On(service.Loopback)},
				Secrets: service.Pairs("kube-controller-manager", "kube-controller-manager-server", "kubernetes-client-ca-key", "kubelet-serving-ca-key", "service-account-key")},
			{Name: "kube-scheduler", Unit: "kube-scheduler.service", Payloads: []string{"kubernetes"}, User: "kube-scheduler", NeedsSecrets: true,
				Ports:   []service.Port{service.TCP(PortScheduler, "health and metrics").On(service.Loopback)},
				Secrets: service.Pairs("kube-scheduler", "kube-scheduler-server")},
			// The DNS server of pods; the role dns-server is that of machines.
			{Name: "cluster-dns", Unit: "cluster-dns.service", Payloads: []string{"cluster-dns"}, User: "coredns", NeedsSecrets: true,
				Ports: []service.Port{service.UDP(PortClusterDNS, "DNS of pods").On(service.Node), service.TCP(PortClusterDNS, "DNS of pods").On(service.Node),
					service.TCP(PortClusterDNSMetrics, "metrics").On(service.Loopback)},
				Secrets: service.Pairs("cluster-dns")},
			// Takes back the addresses of pods and nodes that are gone.
			{Name: "calico-controllers", Unit: "calico-controllers.service", Payloads: []string{"calico"}, User: "calico-controllers", NeedsSecrets: true,
				Secrets: service.Pairs("calico-controllers")},
			// Part of spore-agent.
			{Name: "kubernetes-bootstrap", Unit: "kubernetes-bootstrap.service", User: "spore-kubernetes", NeedsSecrets: true, Secrets: service.Pairs("kubernetes-agent")},

			// The virtual address of the API, where the cluster has one.
			{Name: "control-plane-endpoint", Unit: "control-plane-endpoint.service", With: PartEndpoint, Own: []string{"spore-etcd"}, User: "spore-endpoint", NeedsSecrets: true,
				Secrets: service.Pairs("etcd-agent")},

			// Part of spore-agent. Signs what other nodes ask for, with the keys of all authorities.
			{Name: "signer", Unit: "spore-signer.socket", User: "spore-signer"},

			{Name: "containerd", Unit: "containerd.service", Packages: []string{"runc"}, Payloads: []string{"containerd", "crictl"}, User: "root",
				Ports: []service.Port{service.TCP(PortContainerd, "streams of containers").On(service.Loopback), service.TCP(PortContainerdMetrics, "metrics").On(service.Loopback)}},
			{Name: "kubernetes-images", Unit: "kubernetes-images.service", Payloads: []string{"containerd"}, User: "root"},
			{Name: "kube-balancer", Unit: "kube-balancer.service", Packages: []string{"haproxy"}, User: "kube-balancer",
				Ports: []service.Port{service.TCP(PortBalancer, "the Kubernetes API for this node's programs").On(service.Loopback)}},
			// Part of spore-agent.
			{Name: "kubernetes-api", Unit: "kubernetes-api.service", User: "spore-kubernetes", NeedsSecrets: true, Secrets: service.Pairs("kubelet-bootstrap")},
			{Name: "kubelet", Unit: "kubelet.service", Payloads: []string{"kubernetes"}, User: "root", NeedsSecrets: true, Secrets: service.Pairs("kubelet-bootstrap"),
				Ports: []service.Port{service.TCP(PortKubelet, "the API of kubelet").On(service.Node), service.TCP(PortKubeletHealth, "health").On(service.Loopback)}},
			{Name: "kube-proxy", Unit: "kube-proxy.service", Payloads: []string{"kubernetes"}, User: "root", NeedsSecrets: true, Secrets: service.Pairs("kube-proxy"),
				Ports: []service.Port{
					service.TCP(PortProxyMetrics, "metrics").On(service.Loopback), service.TCP(PortProxyHealth, "health").On(service.Loopback),
					// The rules of nftables take what comes there before any program has it; for the health of a Service,
					// kube-proxy listens.
					service.TCP(firstNodePort, "Services of the type NodePort").To(lastNodePort), service.UDP(firstNodePort, "Services of the type NodePort").To(lastNodePort),
				}},
			{Name: "calico-node", Unit: "calico-node.service", Packages: []string{"conntrack", "ipset", "iptables"}, Payloads: []string{"calico", "cni"}, User: "root", NeedsSecrets: true,
				Ports: []service.Port{service.UDP(portVXLAN, "tunnels between pods, by the kernel"), service.TCP(PortFelixHealth, "health").On(service.Loopback),
					service.TCP(PortFelixMetrics, "metrics").On(service.Loopback)},
				Secrets: service.Pairs("calico-node", "calico-cni")},
		},
		Authorities: authorities,
		Leaves:      leaves,
		Secrets:     secrets,
		Words:       words,
		Quorums:     []service.Quorum{EtcdQuorum()},
		Renewal:     renewal,
		Data:        data,
		Live: []service.Live{
			{Path: "members.control-plane", Why: "masters form a quorum"},
			{Path: "members.worker", Why: "the services of Kubernetes read it when they start"},
			{Path: "services." + Name, Why: "its services stand on each other"},
			{Path: "manifests/", Units: []string{"kubernetes-bootstrap.service"}},
		},
		Memory: map[string]service.Memory{
			master: service.MiB(2560),
			// The pods of a control plane that is a worker too have what is left of its own.
			worker: func(_ *facts.Cluster, n *facts.Node) int {
				if slices.Contains(n.Roles, master) {
					return 0
				}
				return 1536
			},
		},
		Slow: func(s spec.Services) int { return Of(s).Slow() },
		Parts: []service.Part{
			// In every image, so that an address can be added without another root; without one its unit does nothing.
			{Name: PartEndpoint, InEveryImage: true, On: func(c *facts.Cluster) bool { return c.Network.ControlPlaneEndpoint != "" }},
		},
		Environment: map[string]service.Variables{
			"kubelet": func(_ *facts.Cluster, n *facts.Node, _ uint64) map[string]string {
				return map[string]string{"KUBELET_HOSTNAME_OVERRIDE": n.Name, "KUBELET_NODE_IP": address(n)}
			},
			"kube-apiserver": func(c *facts.Cluster, n *facts.Node, _ uint64) map[string]string {
				return map[string]string{
					"KUBE_APISERVER_ADVERTISE_ADDRESS":        address(n),
					"KUBE_APISERVER_BIND_ADDRESS":             apiBindAddress(c, n),
					"KUBE_APISERVER_SECURE_PORT":              strconv.Itoa(PortAPI),
					"KUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE": strings.Join(c.Network.ServiceCIDRs, ","),
				}
			},
		},
	}
}

// address is the first of cluster.yaml, by which the others know the node; validation sees to it that nodes of
// Kubernetes have one.
func address(n *facts.Node) string {
	if len(n.IPs) == 0 {
		return ""
	}
	return n.IPs[0]
}

// apiBindAddress is every address of the node, since the virtual address comes and goes.
func apiBindAddress(c *facts.Cluster, n *facts.Node) string {
	for _, s := range []string{address(n), c.Network.ControlPlaneEndpoint} {
		if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
			return "::"
		}
	}
	return "0.0.0.0"
}
