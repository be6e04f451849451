package facts

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/roles"
)

// EnvironmentDir is where the node has its environment files.
const EnvironmentDir = "/etc/cluster-config/environment"

// Environment returns the environment files of a node by file name: cluster.env, node.env, and one for each program that
// its roles run. Each holds sorted lines KEY=VALUE that systemd (systemd.exec(5), EnvironmentFile=) and a POSIX shell read
// alike. Lists are separated by blanks. Secrets are never in them. memory is the machine's in bytes; what depends on it is left
// out where it is 0, for a machine that nobody has seen yet.
func Environment(c *Cluster, n *Node, memory uint64) map[string][]byte {
	out := map[string][]byte{
		"cluster.env": environment(map[string]string{
			"CLUSTER_NAME":                   c.Name,
			"CLUSTER_ID":                     c.ID,
			"CLUSTER_DOMAIN":                 c.Domain,
			"CLUSTER_NODE_COUNT":             strconv.Itoa(c.Nodes),
			"CLUSTER_NODE_SUBNETS":           strings.Join(c.Network.NodeSubnets, " "),
			"CLUSTER_GATEWAYS":               strings.Join(c.Network.Gateways, " "),
			"CLUSTER_NAMESERVERS":            strings.Join(c.Network.Nameservers, " "),
			"CLUSTER_NTP_SERVERS":            strings.Join(c.Network.NTPServers, " "),
			"CLUSTER_POD_CIDRS":              strings.Join(c.Network.PodCIDRs, " "),
			"CLUSTER_SERVICE_CIDRS":          strings.Join(c.Network.ServiceCIDRs, " "),
			"CLUSTER_CONTROL_PLANE_ENDPOINT": c.Network.ControlPlaneEndpoint,
		}),
		"node.env": environment(map[string]string{
			"NODE_NAME":     n.Name,
			"NODE_HOSTNAME": n.Hostname,
			"NODE_FQDN":     n.FQDN,
			"NODE_IPS":      strings.Join(n.IPs, " "),
			"NODE_ROLES":    strings.Join(n.Roles, " "),
		}),
	}
	for _, p := range NodePrograms(c, n) {
		out[p.Name+".env"] = environment(programEnvironment(c, n, p.Name, memory))
	}
	return out
}

// NodePrograms returns the rows of the programs that the node's roles run in this cluster, in the order of the
// program table. Their ports are those of this node: of its roles, with the numbers that settings give.
func NodePrograms(c *Cluster, n *Node) []roles.Program {
	wanted := map[string]bool{}
	for _, name := range n.Roles {
		if r, ok := roles.Lookup(name); ok {
			for _, p := range r.Enabled(c.Enabled) {
				wanted[p.Name] = true
			}
		}
	}
	var out []roles.Program
	for _, p := range roles.Programs() {
		if wanted[p.Name] {
			p.Ports = nodePorts(c, n, p.Ports)
			out = append(out, p)
		}
	}
	return out
}

// NodeTargets returns the systemd targets of the node's roles, sorted. Roles that the image cannot run have none.
func NodeTargets(n *Node) []string {
	var out []string
	for _, name := range n.Roles {
		if r, ok := roles.Lookup(name); ok && len(r.Programs) > 0 {
			out = append(out, r.Target)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// programEnvironment holds the settings of a program that its unit or a person may want; the rest is in its rendered
// configuration file. What a unit makes flags of is called as the flag is, behind the name of the program.
func programEnvironment(c *Cluster, n *Node, program string, memory uint64) map[string]string {
	switch {
	case program == "kubelet" && c.Services.Kubernetes != nil:
		return map[string]string{"KUBELET_HOSTNAME_OVERRIDE": n.Name, "KUBELET_NODE_IP": n.address()}
	case program == "kube-apiserver" && c.Services.Kubernetes != nil:
		return map[string]string{
			"KUBE_APISERVER_ADVERTISE_ADDRESS":        n.address(),
			"KUBE_APISERVER_BIND_ADDRESS":             apiBindAddress(c, n),
			"KUBE_APISERVER_SECURE_PORT":              strconv.Itoa(roles.PortKubernetesAPI),
			"KUBE_APISERVER_SERVICE_CLUSTER_IP_RANGE": strings.Join(c.Network.ServiceCIDRs, ","),
		}
	case program == "kafka" && c.Services.Kafka != nil:
		heap := c.KafkaHeap(memory)
		if heap == 0 {
			return nil
		}
		// The names are those of upstream's scripts.
		return map[string]string{"KAFKA_HEAP_OPTS": fmt.Sprintf("-Xmx%dm", heap), "KAFKA_JVM_PERFORMANCE_OPTS": strings.Join(kafkaCollector(heap), " ")}
	case program == "mosquitto" && c.Services.MQTT != nil:
		return map[string]string{"MQTT_PORT": strconv.Itoa(c.Services.MQTT.ListenPort())}
	case program == "coredns" && c.Services.DNS != nil:
		return map[string]string{
			"DNS_DOMAIN":     c.Domain,
			"DNS_FORWARDERS": strings.Join(c.Forwarders(), " "),
			"DNS_TTL":        strconv.Itoa(c.Services.DNS.RecordTTL()),
		}
	}
	return nil
}

// address is the first of cluster.yaml, by which the others know the node; validation sees to it that nodes of Kubernetes have one.
func (n *Node) address() string {
	if len(n.IPs) == 0 {
		return ""
	}
	return n.IPs[0]
}

// apiBindAddress is every address of the node, since the virtual address comes and goes.
func apiBindAddress(c *Cluster, n *Node) string {
	for _, s := range []string{n.address(), c.Network.ControlPlaneEndpoint} {
		if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
			return "::"
		}
	}
	return "0.0.0.0"
}

// Forwarders returns the resolvers that the DNS servers ask for foreign names: those of dns.yaml, else the cluster's
// nameservers.
func (c *Cluster) Forwarders() []string {
	if c.Services.DNS != nil && len(c.Services.DNS.Forwarders) > 0 {
		return c.Services.DNS.Forwarders
	}
	return c.Network.Nameservers
}

func environment(vars map[string]string) []byte {
	keys := slices.Sorted(maps.Keys(vars))
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s=%s\n", k, quote(vars[k]))
	}
	return []byte(b.String())
}

// quote puts a value into double quotes where it needs them, with the escapes that systemd and sh share: \ " $ `.
func quote(v string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/,@%+-", r)
	}
	if strings.IndexFunc(v, func(r rune) bool { return !plain(r) }) < 0 {
		return v
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(v) + `"`
}
