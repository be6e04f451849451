package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/services"
)

// configDir is where the node has its configuration (a contract of the design).
const configDir = "/etc/cluster-config"

// agentFiles are written on every node (agent/systemfiles, agent/network).
var agentFiles = []string{
	configDir + "/cluster.yaml", configDir + "/current-node.yaml", configDir + "/node-identity",
	"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/sysctl.d/90-spore-node.conf", "/etc/systemd/network/*",
}

// timeFile names the time servers to the program that sets the clock (agent/systemfiles).
func timeFile(packages []string) string {
	if slices.Contains(packages, "chrony") {
		return "/etc/chrony/sources.d/10-spore.sources"
	}
	return "/etc/systemd/timesyncd.conf.d/10-spore.conf"
}

// nodeFiles lists the files that the agent writes on a node, sorted. Of nodes/ it names the node's own only.
func nodeFiles(c *cluster.Config, n *facts.Node, env map[string][]byte) []string {
	out := append(slices.Clone(agentFiles), timeFile(c.Image.Packages))
	for name := range c.Source() {
		if strings.HasPrefix(name, "services/") || name == "nodes/"+n.Name+".yaml" {
			out = append(out, path.Join(configDir, name))
		}
	}
	for name := range env {
		out = append(out, path.Join(services.EnvironmentDir, name))
	}
	slices.Sort(out)
	return out
}

// network says how the node gets its addresses.
func network(n *facts.Node) string {
	if len(n.Interfaces) == 0 {
		return "DHCP on every card"
	}
	var parts []string
	for _, in := range n.Interfaces {
		name := in.MAC
		if name == "" {
			name = in.Name
		}
		how := slices.Clone(in.Addresses)
		if in.DHCP {
			how = append(how, "DHCP")
		}
		parts = append(parts, fmt.Sprintf("%s: %s", name, orNone(how)))
	}
	return strings.Join(parts, "; ")
}
