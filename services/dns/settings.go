package dns

import (
	"slices"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

// Settings is configs/services/dns.yaml, for CoreDNS.
type Settings struct {
	// Forwarders answer what lies outside the cluster's domain; the cluster's nameservers when empty.
	Forwarders []string `yaml:"forwarders,omitempty" json:"forwarders,omitempty"`
	// TTL is the lifetime of records in seconds; 60 when 0.
	TTL int `yaml:"ttl,omitempty" json:"ttl,omitempty"`
	// Records adds names to the cluster's domain.
	Records []Record `yaml:"records,omitempty" json:"records,omitempty"`
	// Clients holds further networks that are answered, besides nodeSubnets and podCIDRs; all others are refused.
	// 0.0.0.0/0 and ::/0 are everybody.
	Clients []string `yaml:"clients,omitempty" json:"clients,omitempty"`
}

// Record is one further name in the cluster's domain.
type Record struct {
	// Name is relative to the domain.
	Name string `yaml:"name" json:"name"`
	// Addresses makes A and AAAA records.
	Addresses []string `yaml:"addresses,omitempty" json:"addresses,omitempty"`
	// CNAME makes an alias instead.
	CNAME string `yaml:"cname,omitempty" json:"cname,omitempty"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

// defaultTTL is the lifetime of records where dns.yaml says nothing, in seconds.
const defaultTTL = 60

// RecordTTL is the lifetime of records in seconds.
func (s *Settings) RecordTTL() int {
	if s.TTL == 0 {
		return defaultTTL
	}
	return s.TTL
}

// Forwarders returns the resolvers that the DNS servers ask for foreign names: those of dns.yaml, else the cluster's
// nameservers.
func Forwarders(c *facts.Cluster) []string {
	if s := Of(c.Services); s != nil && len(s.Forwarders) > 0 {
		return s.Forwarders
	}
	return c.Network.Nameservers
}

// Aliases returns the further names of dns.yaml that lead to a node, by address or by other name, as full names.
func Aliases(c *facts.Cluster, n *facts.Node) []string {
	if Of(c.Services) == nil {
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
		for _, r := range Of(c.Services).Records {
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
