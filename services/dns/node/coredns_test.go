package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/dns"
	"spore/services/rendering"
)

const hostsFile = `10.77.0.11 edge-01.lab.internal edge-01
10.77.0.12 broker.lab.internal broker mqtt-01 # its name is not its hostname
10.77.0.13 dns-01.lab.internal dns-01
fd77::13 dns-01.lab.internal dns-01
`

func testCluster() *facts.Cluster {
	return &facts.Cluster{
		Name: "lab", ID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Domain: "lab.internal",
		Network: spec.Network{NodeSubnets: []string{"10.77.0.0/24", "fd77::/64"}, Nameservers: []string{"10.77.0.11", "10.77.0.3"}},
		Members: map[string][]string{"mqtt-broker": {"edge-01", "mqtt-01"}, "dns-server": {"dns-01", "edge-01"}},
		Services: spec.Services{
			&dns.Settings{Records: []dns.Record{
				{Name: "www", CNAME: "edge-01"},
				{Name: "printer", Addresses: []string{"10.77.0.99"}},
				{Name: "shop", CNAME: "Shop.example.com."},
			}},
		},
	}
}

func testInput() rendering.Input {
	return rendering.Input{
		Cluster: testCluster(),
		Node:    &facts.Node{Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.lab.internal"},
		Hosts:   strings.NewReader(hostsFile),
		Addresses: []netip.Addr{
			netip.MustParseAddr("fe80::1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("10.77.0.11"), netip.MustParseAddr("::ffff:10.77.0.11"),
		},
		Dir: "/run/x",
	}
}

func TestCorednsBindsTheNodesAddressesOnly(t *testing.T) {
	files, err := coredns(testInput())
	require.NoError(t, err)
	corefile := string(files["Corefile"].Data)
	require.Equal(t, strings.Count(corefile, ":53 {"), strings.Count(corefile, "    bind 10.77.0.11\n"))
	require.NotContains(t, strings.ReplaceAll(corefile, "    prometheus 127.0.0.1:9153\n", ""), "127.0.0")
	require.Contains(t, corefile, "lab.internal:53 {")
	require.Contains(t, corefile, "0.77.10.in-addr.arpa:53 {")
	require.Contains(t, corefile, "forward . 10.77.0.3 {", "the node itself is a nameserver of the cluster, but is never asked by itself")
}

func TestCorednsAnswersNodesAndPodsAndWhomTheFileNames(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*rendering.Input)
	}{
		{"nodes", "10.77.0.0/24 fd77::/64", func(*rendering.Input) {}},
		{"pods", "10.77.0.0/24 10.244.0.0/16 fd77::/64", func(in *rendering.Input) { in.Cluster.Network.PodCIDRs = []string{"10.244.0.0/16"} }},
		{"clients", "10.77.0.0/24 192.168.20.0/24 fd77::/64 fd99::/48", func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Clients = []string{"fd99::/48", "192.168.20.0/24"}
		}},
		{"a lease elsewhere", "10.77.0.0/24 192.0.2.9/32 fd77::/64", func(in *rendering.Input) { in.Addresses = append(in.Addresses, netip.MustParseAddr("192.0.2.9")) }},
		{"a network twice", "10.77.0.0/24 fd77::/64", func(in *rendering.Input) { dns.Of(in.Cluster.Services).Clients = []string{"10.77.0.0/24"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := testInput()
			tt.change(&in)
			files, err := coredns(in)
			require.NoError(t, err)
			corefile := string(files["Corefile"].Data)
			require.Equal(t, strings.Count(corefile, ":53 {"), strings.Count(corefile, "    acl {\n        allow net "+tt.want+"\n        block\n    }\n"), corefile)
		})
	}
}

func TestZone(t *testing.T) {
	files, err := coredns(testInput())
	require.NoError(t, err)
	zone := string(files["zone.lab.internal"].Data)
	for _, want := range []string{
		"edge-01.lab.internal. IN A 10.77.0.11\n",
		"broker.lab.internal. IN A 10.77.0.12\n",
		"mqtt-01.lab.internal. IN A 10.77.0.12\n",
		"dns-01.lab.internal. IN AAAA fd77::13\n",
		"mqtt.lab.internal. IN A 10.77.0.11\n",
		"mqtt.lab.internal. IN A 10.77.0.12\n",
		"mqtt-broker.lab.internal. IN A 10.77.0.12\n",
		"dns.lab.internal. IN AAAA fd77::13\n",
		"www.lab.internal. IN CNAME edge-01.lab.internal.\n",
		"shop.lab.internal. IN CNAME shop.example.com.\n",
		"printer.lab.internal. IN A 10.77.0.99\n",
		"lab.internal. IN NS dns-01.lab.internal.\n",
		"lab.internal. IN NS edge-01.lab.internal.\n",
		"$TTL 60\n",
	} {
		require.Contains(t, zone, want)
	}
	require.NotContains(t, zone, "kafka", "a service without nodes has no name")
	require.Contains(t, string(files["zone.0.77.10.in-addr.arpa"].Data), "12.0.77.10.in-addr.arpa. IN PTR broker.lab.internal.\n")
	require.Contains(t, string(files["zone.0.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa"].Data), ".ip6.arpa. IN PTR dns-01.lab.internal.\n")
}

func TestANodeWithALeaseIsInItsOwnZone(t *testing.T) {
	in := testInput()
	in.Node = &facts.Node{Name: "guest", Hostname: "guest-host", FQDN: "guest-host.lab.internal"}
	in.Addresses = []netip.Addr{netip.MustParseAddr("10.77.0.50")}
	files, err := coredns(in)
	require.NoError(t, err)
	zone := string(files["zone.lab.internal"].Data)
	require.Contains(t, zone, "guest.lab.internal. IN A 10.77.0.50\n")
	require.Contains(t, zone, "guest-host.lab.internal. IN A 10.77.0.50\n")
	require.Contains(t, string(files["zone.0.77.10.in-addr.arpa"].Data), "50.0.77.10.in-addr.arpa. IN PTR guest-host.lab.internal.\n")
}

func TestTheLeaseOfANodeWithAnAddressIsNobodysRecord(t *testing.T) {
	in := testInput()
	in.Node.IPs = []string{"10.77.0.11"}
	in.Addresses = append(in.Addresses, netip.MustParseAddr("10.77.0.50"))
	files, err := coredns(in)
	require.NoError(t, err)
	require.Contains(t, string(files["Corefile"].Data), "bind 10.77.0.11 10.77.0.50\n")
	for name, f := range files {
		require.False(t, name != "Corefile" && strings.Contains(string(f.Data), "10.77.0.50"), "all servers give the same answers: %s", name)
	}
}

func TestTheKubernetesNameIsTheVirtualAddress(t *testing.T) {
	in := testInput()
	in.Cluster.Members["control-plane"] = []string{"edge-01"}
	in.Cluster.Network.ControlPlaneEndpoint = "10.77.0.200"
	files, err := coredns(in)
	require.NoError(t, err)
	require.Contains(t, string(files["zone.lab.internal"].Data), "kubernetes.lab.internal. IN A 10.77.0.200\n")
	require.Contains(t, string(files["zone.lab.internal"].Data), "control-plane.lab.internal. IN A 10.77.0.11\n")
}

func TestNamesOfDNSYamlGoBeforeServiceNames(t *testing.T) {
	in := testInput()
	dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "mqtt", CNAME: "edge-01"}}
	files, err := coredns(in)
	require.NoError(t, err)
	require.Contains(t, string(files["zone.lab.internal"].Data), "mqtt.lab.internal. IN CNAME edge-01.lab.internal.\n")
	require.NotContains(t, string(files["zone.lab.internal"].Data), "mqtt.lab.internal. IN A")
}

func TestTheSerialFollowsTheContent(t *testing.T) {
	serial := func(change func(*rendering.Input)) string {
		in := testInput()
		change(&in)
		files, err := coredns(in)
		require.NoError(t, err)
		for _, l := range strings.Split(string(files["zone.lab.internal"].Data), "\n") {
			if f := strings.Fields(l); len(f) > 5 && f[2] == "SOA" {
				return f[5]
			}
		}
		return ""
	}
	base := serial(func(*rendering.Input) {})
	require.NotEmpty(t, base)
	require.Equal(t, base, serial(func(*rendering.Input) {}))
	require.NotEqual(t, base, serial(func(in *rendering.Input) { dns.Of(in.Cluster.Services).Records[1].Addresses[0] = "10.77.0.98" }))
}

func TestCorednsRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*rendering.Input)
	}{
		{"a cluster without dns", "add services/dns.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("dns") }},
		{"a node without address", "the node has no address to listen on yet", func(in *rendering.Input) { in.Addresses = in.Addresses[:1] }},
		{"no hosts file", "hosts file of the cluster part: not given", func(in *rendering.Input) { in.Hosts = nil }},
		{"a hosts line without name", "line 1: 10.0.0.1 has no name", func(in *rendering.Input) { in.Hosts = strings.NewReader("10.0.0.1\n") }},
		{"a hosts line without address", "line 2", func(in *rendering.Input) { in.Hosts = strings.NewReader("\nx y\n") }},
		{"a hosts name that is zone syntax", `"$INCLUDE" is not a DNS name`, func(in *rendering.Input) { in.Hosts = strings.NewReader("10.0.0.1 $INCLUDE\n") }},
		{"an alias of a node's name", "the alias edge-01.lab.internal. cannot stand beside another record", func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "edge-01", CNAME: "dns-01"}}
		}},
		{"a name with two aliases", "the alias a.lab.internal. cannot stand", func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "a", CNAME: "dns-01"}, {Name: "a", CNAME: "edge-01"}}
		}},
		{"a record name with a space", `"a b" is not a DNS name`, func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "a b", CNAME: "dns-01"}}
		}},
		{"a record address that is none", "record a of dns.yaml", func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "a", Addresses: []string{"10.0.0.256"}}}
		}},
		{"an alias target with a semicolon", `"x;y" is not a DNS name`, func(in *rendering.Input) {
			dns.Of(in.Cluster.Services).Records = []dns.Record{{Name: "a", CNAME: "x;y"}}
		}},
		{"a forwarder that is a name", "forwarder", func(in *rendering.Input) { dns.Of(in.Cluster.Services).Forwarders = []string{"dns.example.com"} }},
		{"a client that is none", "client of dns.yaml", func(in *rendering.Input) { dns.Of(in.Cluster.Services).Clients = []string{"10.0.0.1\n} evil"} }},
		{"a pod network that is none", "pod network", func(in *rendering.Input) { in.Cluster.Network.PodCIDRs = []string{"all"} }},
		{"a subnet that is none", "node subnet", func(in *rendering.Input) { in.Cluster.Network.NodeSubnets = []string{"10.0.0.0"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := testInput()
			tt.change(&in)
			_, err := coredns(in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestReverseZones(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		want   []string
	}{
		{"10.77.0.0/24", []string{"0.77.10.in-addr.arpa."}},
		{"10.77.0.128/25", []string{"0.77.10.in-addr.arpa."}},
		{"10.77.254.0/23", []string{"254.77.10.in-addr.arpa.", "255.77.10.in-addr.arpa."}},
		{"10.0.0.0/8", []string{"10.in-addr.arpa."}},
		{"172.16.0.0/14", []string{"16.172.in-addr.arpa.", "17.172.in-addr.arpa.", "18.172.in-addr.arpa.", "19.172.in-addr.arpa."}},
		{"255.255.255.0/24", []string{"255.255.255.in-addr.arpa."}},
		{"fd77::/63", []string{"0.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa.", "1.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa."}},
		{"fd77::1/128", []string{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.7.7.d.f.ip6.arpa."}},
	} {
		require.Equal(t, tt.want, reverseZones(netip.MustParsePrefix(tt.prefix)), tt.prefix)
	}
}

func TestTenThousandNodesRenderQuickly(t *testing.T) {
	in := testInput()
	var b strings.Builder
	members := make([]string, 0, 10000)
	for i := range 10000 {
		fmt.Fprintf(&b, "10.77.%d.%d n%d.lab.internal n%d\n", i/250, i%250+1, i, i)
		members = append(members, fmt.Sprintf("n%d", i))
	}
	in.Hosts = strings.NewReader(b.String())
	in.Cluster.Network.NodeSubnets = []string{"10.77.0.0/16"}
	in.Cluster.Members["worker"] = members
	files, err := coredns(in)
	require.NoError(t, err)
	require.Equal(t, 10000, strings.Count(string(files["zone.77.10.in-addr.arpa"].Data), " IN PTR "))
}

func FuzzHosts(f *testing.F) {
	f.Add(hostsFile)
	f.Add("10.0.0.1\n")
	f.Add("::1 a # b\n\n# c\n10.0.0.1 *.x _y")
	f.Fuzz(func(t *testing.T, s string) {
		in := testInput()
		in.Hosts = strings.NewReader(s)
		files, err := coredns(in)
		if err != nil {
			return
		}
		for name, file := range files {
			require.NotContains(t, string(file.Data), "$INCLUDE", name)
		}
	})
}
