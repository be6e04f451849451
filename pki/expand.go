package pki

import (
	"net/netip"
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/services"
	"spore/services/service"
)

// expand fills in a text of the table for a node. A text that is one word gives all that the word stands for; an empty
// one gives none. Each service has words of its own (Service.Words); those of every cluster are
//
//	{node} {hostname} {fqdn} {domain}    names
//	{ips}                                the node's addresses
func expand(text string, c *facts.Cluster, n *facts.Node) []string {
	for _, words := range []map[string]service.Word{everyWord, services.Of(c).Words()} {
		if of, ok := words[text]; ok {
			return slices.DeleteFunc(slices.Clone(of(c, n)), func(s string) bool { return s == "" })
		}
	}
	for _, words := range []map[string]service.Word{everyWord, services.Of(c).Words()} {
		for word, of := range words {
			if strings.Contains(text, word) {
				text = strings.ReplaceAll(text, word, strings.Join(of(c, n), ""))
			}
		}
	}
	return some(text)
}

// everyWord has the words of every cluster.
var everyWord = map[string]service.Word{
	"{node}":     func(_ *facts.Cluster, n *facts.Node) []string { return []string{n.Name} },
	"{hostname}": func(_ *facts.Cluster, n *facts.Node) []string { return []string{n.Hostname} },
	"{fqdn}":     func(_ *facts.Cluster, n *facts.Node) []string { return []string{n.FQDN} },
	"{domain}":   func(c *facts.Cluster, _ *facts.Node) []string { return []string{c.Domain} },
	"{ips}":      func(_ *facts.Cluster, n *facts.Node) []string { return n.IPs },
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
