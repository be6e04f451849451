package pki

import (
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services/dns"
	"spore/services/mqtt"
)

// expand fills in a text of the table for a node. A text that is one of the list words gives any number of texts; an empty
// one gives none. The words are
//
//	{node} {hostname} {fqdn} {domain}    names
//	{ips}                                the node's addresses
//	{endpoint}                           the virtual address of the Kubernetes API, when there is one
//	{service-ips}                        the first address of each service prefix, which the API answers on
//	{service-domain}                     the DNS domain of Kubernetes services
//	{aliases}                            the names of dns.yaml that lead to the node
//	{mqtt-certificate} {mqtt-key}        the bundle entries that mqtt.yaml names
func expand(text string, c *facts.Cluster, n *facts.Node) []string {
	switch text {
	case "{ips}":
		return n.IPs
	case "{endpoint}":
		return some(c.Network.ControlPlaneEndpoint)
	case "{service-ips}":
		return serviceIPs(c.Network.ServiceCIDRs)
	case "{aliases}":
		return aliases(c, n)
	}
	words := []string{"{node}", n.Name, "{hostname}", n.Hostname, "{fqdn}", n.FQDN, "{domain}", c.Domain, "{service-domain}", c.Services.Kubernetes().ServiceDomain()}
	if m := mqtt.Of(c.Services); m != nil {
		words = append(words, "{mqtt-certificate}", m.TLS.Certificate.SecretRef, "{mqtt-key}", m.TLS.Key.SecretRef)
	}
	return some(strings.NewReplacer(words...).Replace(text))
}

// expandOne is expand for a text that gives one.
func expandOne(text string, c *facts.Cluster, n *facts.Node) string {
	return strings.Join(expand(text, c, n), "")
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// sans parts the names of the table into DNS names and addresses, each once, in the order of the table.
func sans(texts []string, c *facts.Cluster, n *facts.Node) (names []string, ips []netip.Addr) {
	for _, t := range texts {
		for _, s := range expand(t, c, n) {
			if ip, err := netip.ParseAddr(s); err == nil {
				if ip = ip.Unmap(); !slices.Contains(ips, ip) {
					ips = append(ips, ip)
				}
			} else if s = strings.ToLower(s); !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	return names, ips
}

func serviceIPs(cidrs []string) []string {
	var out []string
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked().Addr().Next().String())
		}
	}
	return out
}

// aliases returns the further names of dns.yaml that lead to a node, by address or by other name, as full names.
func aliases(c *facts.Cluster, n *facts.Node) []string {
	if dns.Of(c.Services) == nil {
		return nil
	}
	mine := map[string]bool{}
	for _, name := range []string{n.Name, n.Hostname} {
		mine[name+"."+c.Domain] = true
	}
	full := func(name string) string {
		if name = strings.ToLower(name); strings.HasSuffix(name, ".") {
			return strings.TrimSuffix(name, ".")
		}
		if strings.HasSuffix(name, "."+c.Domain) {
			return name
		}
		return name + "." + c.Domain
	}
	var out []string
	for range 2 { // an alias may lead to a record that has the address; no alias leads to an alias
		for _, r := range dns.Of(c.Services).Records {
			name := full(r.Name)
			if mine[name] || strings.Contains(name, "*") {
				continue
			}
			if r.CNAME != "" && mine[full(r.CNAME)] || slices.ContainsFunc(r.Addresses, func(a string) bool { return slices.Contains(n.IPs, a) }) {
				mine[name] = true
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}
