package services

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spore/cluster/facts"
)

// EnvironmentDir is where the node has its environment files.
const EnvironmentDir = "/etc/cluster-config/environment"

// Environment returns the environment files of a node by file name: cluster.env, node.env, and one for each program
// that its roles run. Each holds sorted lines KEY=VALUE that systemd (systemd.exec(5), EnvironmentFile=) and a POSIX
// shell read alike. Lists are separated by blanks. Secrets are never in them. memory is the machine's in bytes; what
// depends on it is left out where it is 0, for a machine that nobody has seen yet.
func Environment(c *facts.Cluster, n *facts.Node, memory uint64) map[string][]byte {
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
		out[p.Name+".env"] = environment(variables(c, n, p.Name, memory))
	}
	return out
}

// variables are those of a program, of the service that has it.
func variables(c *facts.Cluster, n *facts.Node, program string, memory uint64) map[string]string {
	for _, s := range Of(c).all {
		if of := s.Environment[program]; of != nil && c.Services.Has(s.Name) {
			return of(c, n, memory)
		}
	}
	return nil
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
