// Package node is what nodes link of the service dns: how the configuration and the zones of CoreDNS are rendered.
package node

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/dns"
	"spore/services/rendering"
)

// Renderings are the service's own, by program.
var Renderings = map[string]rendering.Func{"coredns": coredns}

// coredns renders a Corefile and a file for each zone: the cluster's domain, and the reverse zones of the node subnets.
func coredns(in rendering.Input) (map[string]rendering.File, error) {
	settings := dns.Of(in.Cluster.Services)
	if settings == nil {
		return nil, errors.New("the cluster has no dns settings; add services/dns.yaml")
	}
	own := rendering.Bindable(in.Addresses)
	if len(own) == 0 {
		return nil, errors.New("the node has no address to listen on yet")
	}
	hosts, err := rendering.NewHostTable(in.Hosts, in.Cluster.Domain)
	if err != nil {
		return nil, err
	}
	for _, a := range own {
		// The address of a DHCP lease, which only the node itself knows, stands in where cluster.yaml has none.
		if !hosts.Known[a] && len(in.Node.IPs) == 0 {
			hosts.Add(rendering.Host{Addr: a, Names: []string{in.Node.FQDN, in.Node.Hostname, in.Node.Name}}, in.Cluster.Domain)
		}
	}
	zones, err := clusterZones(in.Cluster, in.Node, settings, hosts)
	if err != nil {
		return nil, err
	}
	files := map[string]rendering.File{}
	for _, z := range zones {
		files[zoneFile(z.origin)] = rendering.File{Data: z.file(), Mode: 0o644}
	}
	up, err := forwarders(in.Cluster, settings, hosts, own)
	if err != nil {
		return nil, err
	}
	clients, err := answered(in.Cluster, settings, own)
	if err != nil {
		return nil, err
	}
	files["Corefile"] = rendering.File{Data: corefile(in.Dir, own, clients, zones, up), Mode: 0o644}
	return files, nil
}

func zoneFile(origin string) string { return "zone." + strings.TrimSuffix(origin, ".") }

func clusterZones(c *facts.Cluster, n *facts.Node, d *dns.Settings, hosts *rendering.HostTable) ([]*zone, error) {
	if err := rendering.CheckName(c.Domain); err != nil {
		return nil, fmt.Errorf("domain of the cluster: %w", err)
	}
	ttl := d.RecordTTL()
	servers := nameServers(c, n, hosts)
	forward := newZone(c.Domain, servers, ttl)
	for _, h := range hosts.List {
		for _, name := range h.Names {
			if full := rendering.Absolute(name, c.Domain); strings.HasSuffix(full, "."+forward.origin) {
				forward.address(full, h.Addr)
			}
		}
	}
	if err := addRecords(forward, d.Records); err != nil {
		return nil, err
	}
	addServices(forward, c, hosts)

	zones := []*zone{forward}
	for _, s := range c.Network.NodeSubnets {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("node subnet: %w", err)
		}
		for _, origin := range reverseZones(p) {
			if !slices.ContainsFunc(zones, func(z *zone) bool { return z.origin == origin }) {
				zones = append(zones, newZone(origin, servers, ttl))
			}
		}
	}
	addPointers(zones[1:], c.Domain, hosts)
	return zones, nil
}

// nameServers are the FQDNs of the nodes with the role dns-server, this one where there is no list.
func nameServers(c *facts.Cluster, n *facts.Node, hosts *rendering.HostTable) []string {
	var out []string
	for _, m := range c.Members["dns-server"] {
		out = append(out, hosts.Canonical(rendering.Absolute(m, c.Domain), c.Domain))
	}
	if len(out) == 0 {
		out = []string{rendering.Absolute(n.FQDN, c.Domain)}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// addRecords adds the records of dns.yaml.
func addRecords(z *zone, records []dns.Record) error {
	for _, r := range records {
		if err := rendering.CheckName(r.Name); err != nil {
			return fmt.Errorf("record of dns.yaml: %w", err)
		}
		name := strings.ToLower(strings.TrimSuffix(r.Name, ".")) + "." + z.origin
		for _, s := range r.Addresses {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return fmt.Errorf("record %s of dns.yaml: %w", r.Name, err)
			}
			z.address(name, a)
		}
		if r.CNAME == "" {
			continue
		}
		if err := rendering.CheckName(r.CNAME); err != nil {
			return fmt.Errorf("record %s of dns.yaml: %w", r.Name, err)
		}
		target := strings.ToLower(r.CNAME) // of the domain, unless it ends with a dot
		if !strings.HasSuffix(target, ".") {
			target += "." + z.origin
		}
		z.add(record{name, "CNAME", target})
	}
	return z.checkAliases()
}

// addServices adds a name for each role and each service that has nodes. Names of nodes and of dns.yaml go before.
func addServices(z *zone, c *facts.Cluster, hosts *rendering.HostTable) {
	for _, r := range services.Of(c).Roles() {
		var addrs []netip.Addr
		for _, m := range c.Members[r.Name] {
			addrs = append(addrs, hosts.Addresses(rendering.Absolute(m, c.Domain))...)
		}
		addService(z, r.Name, addrs)
		if firstRole(c, r.Service) != r.Name {
			continue
		}
		if vip, err := netip.ParseAddr(c.Network.ControlPlaneEndpoint); err == nil && r.Service == "kubernetes" {
			addrs = []netip.Addr{vip}
		}
		addService(z, r.Service, addrs)
	}
}

// firstRole is the role whose nodes the name of a service stands for.
func firstRole(c *facts.Cluster, name string) string {
	s, _ := services.Of(c).Find(name)
	return s.Roles[0].Name
}

func addService(z *zone, label string, addrs []netip.Addr) {
	name := label + "." + z.origin
	if z.has(name) {
		return
	}
	for _, a := range addrs {
		z.address(name, a)
	}
}

// addPointers adds a PTR record for the first name of each address to the zone that the address lies in.
func addPointers(zones []*zone, domain string, hosts *rendering.HostTable) {
	done := map[netip.Addr]bool{}
	for _, h := range hosts.List {
		name := reverseName(h.Addr, h.Addr.BitLen())
		for _, z := range zones {
			if !done[h.Addr] && strings.HasSuffix(name, "."+z.origin) {
				z.add(record{name, "PTR", rendering.Absolute(h.Names[0], domain)})
				done[h.Addr] = true
			}
		}
	}
}

// forwarders answer what lies outside the cluster: those of dns.yaml, else the cluster's nameservers. A server never
// asks itself, and never asks a fellow by default, who would ask back.
func forwarders(c *facts.Cluster, d *dns.Settings, hosts *rendering.HostTable, own []netip.Addr) ([]netip.Addr, error) {
	list, avoid := d.Forwarders, own
	if len(list) == 0 {
		list = c.Network.Nameservers
		for _, m := range c.Members["dns-server"] {
			avoid = append(slices.Clone(avoid), hosts.Addresses(rendering.Absolute(m, c.Domain))...)
		}
	}
	var out []netip.Addr
	for _, s := range list {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("forwarder: %w", err)
		}
		if !slices.Contains(avoid, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	return out, nil
}

// answered are the networks whose machines are answered: those of nodes and pods, and those of dns.yaml. The node's own
// addresses are there as well: it asks itself by them, and a DHCP lease can lie outside the node subnets.
func answered(c *facts.Cluster, d *dns.Settings, own []netip.Addr) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, list := range []struct {
		what     string
		networks []string
	}{{"node subnet", c.Network.NodeSubnets}, {"pod network", c.Network.PodCIDRs}, {"client of dns.yaml", d.Clients}} {
		for _, s := range list.networks {
			p, err := netip.ParsePrefix(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list.what, err)
			}
			out = append(out, p.Masked())
		}
	}
	for _, a := range own {
		if !slices.ContainsFunc(out, func(p netip.Prefix) bool { return p.Contains(a) }) {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out), nil
}

// corefile binds the node's own addresses and nothing else. Files are read once: a change renders and starts anew.
//
// Whoever is not a client gets REFUSED, which is hardly longer than the question: an open resolver would send the long
// answers of others to whatever address a question claims to come from. acl comes before cache, file and forward; only
// localhost, which the plugin local answers, comes before it.
func corefile(dir string, own []netip.Addr, clients []netip.Prefix, zones []*zone, up []netip.Addr) []byte {
	var b bytes.Buffer
	bind := "    bind " + rendering.Join(own) + "\n    errors\n    bufsize 1232\n" +
		fmt.Sprintf("    prometheus 127.0.0.1:%d\n", dns.PortMetrics) +
		"    acl {\n        allow net " + rendering.Join(clients) + "\n        block\n    }\n"
	b.WriteString("# Rendered by spore-agent from cluster.yaml and services/dns.yaml; made again at each start.\n")
	for _, z := range zones {
		fmt.Fprintf(&b, "%s:%d {\n%s", strings.TrimSuffix(z.origin, "."), dns.Port, bind)
		fmt.Fprintf(&b, "    loadbalance\n    file %s {\n        reload 0\n    }\n}\n", filepath.Join(dir, zoneFile(z.origin)))
	}
	if len(up) > 0 {
		fmt.Fprintf(&b, ".:%d {\n%s", dns.Port, bind)
		fmt.Fprintf(&b, "    local\n    cache 300\n    forward . %s {\n        policy sequential\n        max_concurrent 1000\n    }\n}\n", rendering.Join(up))
	}
	return b.Bytes()
}
