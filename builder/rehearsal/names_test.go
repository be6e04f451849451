package rehearsal

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dns"
)

func TestHostsAreWhatTheClustersDNSSaysOfThem(t *testing.T) {
	c := &facts.Cluster{
		Domain:  "plant.example",
		Network: spec.Network{ControlPlaneEndpoint: "10.77.0.9"},
		Services: spec.Services{&dns.Settings{Records: []dns.Record{
			{Name: "mqtt", CNAME: "edge-01"},
			{Name: "a.deep", Addresses: []string{"10.77.0.99", "fd00::1"}},
			{Name: "outer", CNAME: "edge-01.plant.example."},
			{Name: "one", CNAME: "two"}, {Name: "two", CNAME: "one"},
			{Name: "away", CNAME: "elsewhere.example."},
		}}},
		Members: map[string][]string{
			"control-plane": {"master-01"}, "mqtt-broker": {"edge-01"}, "kafka-broker": {"kafka-01", "kafka-02"}, "worker": {"leased"},
		},
	}
	nodes := []facts.Node{
		{Name: "edge-01", Hostname: "edge", FQDN: "edge.plant.example", IPs: []string{"fd00::b", "10.77.0.11"}},
		{Name: "master-01", Hostname: "master-01", FQDN: "master-01.plant.example", IPs: []string{"10.77.0.21"}},
		{Name: "kafka-01", Hostname: "kafka-01", FQDN: "kafka-01.plant.example", IPs: []string{"10.77.0.41"}},
		{Name: "kafka-02", Hostname: "kafka-02", FQDN: "kafka-02.plant.example", IPs: []string{"10.77.0.42"}},
		{Name: "leased", Hostname: "leased", FQDN: "leased.plant.example"},
	}
	names := NewNames(c, nodes)
	leased := func(node string) []netip.Addr {
		require.Equal(t, "leased", node)
		return []netip.Addr{netip.MustParseAddr("10.77.0.253")}
	}
	for host, want := range map[string][]string{
		"edge-01":                     {"10.77.0.11"},
		"edge":                        {"10.77.0.11"},
		"EDGE-01.Plant.Example.":      {"10.77.0.11"},
		"mqtt":                        {"10.77.0.11"},
		"mqtt-broker.plant.example":   {"10.77.0.11"},
		"outer.plant.example":         {"10.77.0.11"},
		"a.deep.plant.example":        {"10.77.0.99"},
		"kubernetes.plant.example":    {"10.77.0.9"},
		"control-plane.plant.example": {"10.77.0.21"},
		"kafka":                       {"10.77.0.41", "10.77.0.42"},
		"leased.plant.example":        {"10.77.0.253"},
		"leased":                      {"10.77.0.253"},
		"10.77.0.9":                   {"10.77.0.9"},
		"::ffff:10.77.0.9":            {"10.77.0.9"},
		"one":                         nil,
		"away":                        nil,
		"worker":                      nil,
		"example.org":                 nil,
		"edge-01.other.example":       nil,
		"":                            nil,
	} {
		var got []string
		for _, a := range names.Lookup(host, leased) {
			got = append(got, a.String())
		}
		require.Equal(t, want, got, host)
	}
}
