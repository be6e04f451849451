package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/services"
)

// Compile returns the files of the cluster part by their path in it: the source as the user wrote it, and the compiled
// form that package facts describes. The same configuration gives the same bytes. The configuration is one that
// Validate found no error in; what cannot be compiled all the same is an error.
func Compile(c *Config) (map[string][]byte, error) {
	out := c.Source()
	shared, nodes := Facts(c)
	var err error
	if out[facts.ClusterFile], err = encode(shared); err != nil {
		return nil, fmt.Errorf("compile cluster: %w", err)
	}
	for i := range nodes {
		if out[path.Join(facts.NodeDir, nodes[i].Name+".json")], err = encode(nodes[i]); err != nil {
			return nil, fmt.Errorf("compile node %s: %w", nodes[i].Name, err)
		}
	}
	if out[facts.IdentityIndex], err = identity.Build(Identities(nodes)); err != nil {
		return nil, fmt.Errorf("compile identity index: %w", err)
	}
	out[facts.HostsFile] = hosts(nodes)
	if len(c.Manifests) > 0 {
		if out[facts.ManifestsFile], err = encodeManifests(c); err != nil {
			return nil, fmt.Errorf("compile the manifests: %w", err)
		}
	}
	if len(c.Revoked) > 0 {
		out[facts.RevokedFile] = c.Revoked
	}
	for name, data := range c.Public.Files {
		if _, taken := out[name]; taken {
			return nil, fmt.Errorf("internal error: the public half of the keys has a file %s, which the configuration has too", name)
		}
		out[name] = data
	}
	return out, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // What is compiled is no text of a page, and < would be six times as long.
	err := e.Encode(v)
	return b.Bytes(), err
}

func encodeManifests(c *Config) ([]byte, error) {
	data, err := encode(ManifestFacts(c))
	if err == nil && len(data) > facts.MaxManifests {
		err = fmt.Errorf("the objects of manifests/ have %d bytes as JSON; at most %d are read by a master: "+
			"give the masters less to apply", len(data), facts.MaxManifests)
	}
	return data, err
}

// Facts returns what every node knows of the cluster, and what each knows of itself, in the order of cluster.yaml.
func Facts(c *Config) (facts.Cluster, []facts.Node) {
	shared := facts.Cluster{
		Name: c.Cluster.Name, ID: strings.ToLower(c.Cluster.ID), Domain: c.Cluster.Domain, Network: c.Cluster.Network,
		Services: c.Services, Roles: c.listed().Facts(), Nodes: len(c.Cluster.Nodes), Members: map[string][]string{}, SigningKeys: c.Public.SigningKeys, TrialMinutes: c.Cluster.TrialMinutes,
		TrialSettle: c.Cluster.TrialSettle, Updates: c.Cluster.Updates, LogRights: c.Cluster.LogRights,
	}
	if e := c.Cluster.Enroll; e != "" {
		shared.Enroll = strings.TrimSuffix(e, "/") + "/"
	}
	files := map[string]spec.NodeFile{}
	for _, f := range c.NodeFiles {
		files[f.Node] = f
	}
	nodes := make([]facts.Node, 0, len(c.Cluster.Nodes))
	for _, n := range c.Cluster.Nodes {
		f := nodeFacts(c.List(), &c.Cluster, n, files[n.Name])
		nodes = append(nodes, f)
		for _, r := range f.Roles {
			shared.Members[r] = append(shared.Members[r], f.Name)
		}
	}
	for _, names := range shared.Members {
		slices.Sort(names)
	}
	for _, w := range c.Cluster.Withdrawn {
		shared.Withdrawn = append(shared.Withdrawn, w.Serial)
	}
	slices.Sort(shared.Withdrawn)
	shared.TimeNodes = facts.TimeNodes(nodes)
	return shared, nodes
}

// listed is the list of services that nodes are told of: of the configuration's own those that cluster.yaml lists.
func (c *Config) listed() *services.List {
	return c.List().Only(func(name string) bool { return slices.Contains(c.Cluster.Services, name) })
}

func nodeFacts(l *services.List, c *spec.Cluster, n spec.Node, f spec.NodeFile) facts.Node {
	hostname := n.Hostname
	if hostname == "" {
		hostname = n.Name
	}
	out := facts.Node{
		Name: n.Name, Hostname: hostname, FQDN: hostname + "." + c.Domain,
		MACs: normal(identity.MAC, n.MACs), IPs: normal(identity.IP, n.IPs),
		Roles: canonicalRoles(l, n.Roles), Disks: f.Disks, Rack: f.Rack, Labels: f.Labels, Taints: f.Taints, Sysctl: f.Sysctl,
	}
	out.Serial = normalOrEmpty(identity.Serial, n.Serial)
	out.UUID = normalOrEmpty(identity.UUID, n.UUID)
	out.Interfaces = interfaces(&c.Network, out, f.Interfaces)
	out.State = stateOf(c, f)
	return out
}

// stateOf is how a node's state is encrypted, as its file says or else cluster.yaml; nil when it is not.
func stateOf(c *spec.Cluster, f spec.NodeFile) *spec.State {
	s := c.State
	if f.State != nil {
		s = f.State
	}
	if !s.Encrypted() {
		return nil
	}
	out := *s
	if out.ByTPM() && out.WithoutTPM == "" {
		out.WithoutTPM = spec.RefuseWithoutTPM
	}
	return &out
}

// interfaces fills in the defaults of a node's interfaces. A node without any gets its addresses on its first card, or
// DHCP there where it has none; a node without known cards gets no interface here, which is DHCP on every card.
func interfaces(net *spec.Network, n facts.Node, list []spec.Interface) []spec.Interface {
	if len(list) == 0 {
		if len(n.MACs) == 0 {
			return nil
		}
		list = []spec.Interface{{MAC: n.MACs[0], DHCP: len(n.IPs) == 0}}
		for _, ip := range n.IPs {
			list[0].Addresses = append(list[0].Addresses, facts.WithPrefix(net.NodeSubnets, ip))
		}
	}
	out := make([]spec.Interface, len(list))
	for i, in := range list {
		in.MAC = normalOrEmpty(identity.MAC, in.MAC)
		if in.Bond != nil {
			bond := *in.Bond
			bond.Members = normal(identity.MAC, bond.Members)
			if bond.Mode == "" {
				bond.Mode = defaultBondMode
			}
			in.Bond = &bond
		}
		if in.VLAN != nil {
			vlan := *in.VLAN
			if mac := normalOrEmpty(identity.MAC, vlan.Parent); mac != "" {
				vlan.Parent = mac
			}
			in.VLAN = &vlan
		}
		if len(in.Gateways) == 0 {
			in.Gateways = defaultGateways(net, in.Addresses)
		}
		out[i] = in
	}
	return out
}

// defaultBondMode needs nothing of the switch.
const defaultBondMode = "active-backup"

// defaultGateways returns the cluster's gateways that one of the addresses reaches.
func defaultGateways(net *spec.Network, addresses []string) []string {
	var out []string
	for _, g := range net.Gateways {
		gw, err := netip.ParseAddr(g)
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a); err == nil && p.Contains(gw) {
				out = append(out, gw.String())
				break
			}
		}
	}
	return out
}

// canonicalRoles returns the names of the role table, sorted, each once; unknown ones are left out.
func canonicalRoles(l *services.List, names []string) []string {
	out := []string{}
	for _, name := range names {
		if r, ok := l.Lookup(name); ok {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func normal(kind identity.Kind, values []string) []string {
	var out []string
	for _, v := range values {
		if n, err := identity.Normalize(kind, v); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func normalOrEmpty(kind identity.Kind, value string) string {
	n, err := identity.Normalize(kind, value)
	if err != nil {
		return ""
	}
	return n
}

// Identities returns what the identity index is built from.
func Identities(nodes []facts.Node) []identity.Node {
	out := make([]identity.Node, len(nodes))
	for i, n := range nodes {
		out[i] = identity.Node{Name: n.Name, Hostnames: []string{n.Hostname, n.FQDN}, MACs: n.MACs, IPs: n.IPs, Serial: n.Serial, UUID: n.UUID}
	}
	return out
}

// hosts is the body of /etc/hosts: one line for each address of each node, in the order of cluster.yaml. A node whose
// hostname is not its name is known by both.
func hosts(nodes []facts.Node) []byte {
	var b strings.Builder
	for _, n := range nodes {
		for _, ip := range n.IPs {
			fmt.Fprintf(&b, "%s %s %s", ip, n.FQDN, n.Hostname)
			if n.Name != n.Hostname {
				b.WriteString(" " + n.Name)
			}
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}
