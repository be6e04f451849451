package identity

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant is a small cluster in which every kind of evidence occurs.
func plant() []Node {
	return []Node{
		{Name: "edge-01", Hostnames: []string{"edge-01", "edge-01.plant.example"}, MACs: []string{"52:54:00:77:00:0B"}, IPs: []string{"10.77.0.11"}},
		{Name: "mqtt-01", Hostnames: []string{"mqtt-01"}, IPs: []string{"10.77.0.12", "fd00::12"}},
		{Name: "dns-01", Hostnames: []string{"dns-01", "dns-01.plant.example"}},
		{Name: "kafka-01", Hostnames: []string{"broker"}, Serial: "CZ 20280ABC", UUID: "{4C4C4544-0043-4A10-8052-B4C04F4D3333}"},
	}
}

func open(t testing.TB, nodes []Node) *Index {
	b, err := Build(nodes)
	require.NoError(t, err)
	x, err := FromBytes(b)
	require.NoError(t, err)
	return x
}

func TestMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  Result
	}{
		"nothing known matches nothing": {Facts{}, Result{}},
		"a MAC decides": {
			Facts{MACs: []string{"52:54:00:00:00:01", "52-54-00-77-00-0b"}},
			Result{Node: "edge-01", By: ByMAC, Value: "52:54:00:77:00:0b", Phase: 1},
		},
		"a serial decides, whatever its case and blanks": {
			Facts{Serial: " cz  20280abc "}, Result{Node: "kafka-01", By: BySerial, Value: "cz 20280abc", Phase: 1},
		},
		"a UUID decides": {
			Facts{UUID: "4c4c4544-0043-4a10-8052-b4c04f4d3333"},
			Result{Node: "kafka-01", By: ByUUID, Value: "4c4c4544-0043-4a10-8052-b4c04f4d3333", Phase: 1},
		},
		"a DHCP address decides in phase two": {
			Facts{MACs: []string{"52:54:00:00:00:01"}, IPs: []string{"10.77.0.12"}},
			Result{Node: "mqtt-01", By: ByIP, Value: "10.77.0.12", Phase: 2},
		},
		"an IPv6 address is compared in its short form": {
			Facts{IPs: []string{"fd00:0:0::0012"}}, Result{Node: "mqtt-01", By: ByIP, Value: "fd00::12", Phase: 2},
		},
		"a DHCP host name decides in phase two": {
			Facts{Hostnames: []string{"DNS-01"}}, Result{Node: "dns-01", By: ByHostname, Value: "dns-01", Phase: 2},
		},
		"a fully qualified DHCP host name decides": {
			Facts{Hostnames: []string{"dns-01.plant.example."}}, Result{Node: "dns-01", By: ByHostname, Value: "dns-01.plant.example", Phase: 2},
		},
		"a host name of another domain does not": {Facts{Hostnames: []string{"dns-01.elsewhere.example"}}, Result{}},
		"a node's name is not its host name":     {Facts{Hostnames: []string{"kafka-01"}}, Result{}},
		"the command line wins over all": {
			Facts{Cmdline: "dns-01", SMBIOS: "mqtt-01", ESP: "kafka-01", MACs: []string{"52:54:00:77:00:0b"}},
			Result{Node: "dns-01", By: ByCmdline, Value: "dns-01", Phase: 1},
		},
		"SMBIOS wins over the ESP": {
			Facts{SMBIOS: "mqtt-01", ESP: "kafka-01"}, Result{Node: "mqtt-01", By: BySMBIOS, Value: "mqtt-01", Phase: 1},
		},
		"NoCloud wins over hardware": {
			Facts{NoCloud: "kafka-01", MACs: []string{"52:54:00:77:00:0b"}}, Result{Node: "kafka-01", By: ByNoCloud, Value: "kafka-01", Phase: 1},
		},
		"NoCloud that says the same as the ESP changes nothing": {
			Facts{ESP: "kafka-01", NoCloud: "kafka-01"}, Result{Node: "kafka-01", By: ByESP, Value: "kafka-01", Phase: 1},
		},
		"NoCloud that contradicts the ESP makes it neither": {
			Facts{ESP: "kafka-01", NoCloud: "edge-01"},
			Result{Phase: 1, Ambiguous: true, Problem: "this machine would be more than one node: esp kafka-01 is kafka-01, nocloud edge-01 is edge-01"},
		},
		"NoCloud that contradicts the command line makes it neither": {
			Facts{Cmdline: "kafka-01", NoCloud: "edge-99"},
			Result{Phase: 1, Ambiguous: true, Problem: "this machine would be more than one node: cmdline kafka-01 is kafka-01, nocloud edge-99 is edge-99"},
		},
		"NoCloud that names an unknown node does not fall through": {
			Facts{NoCloud: "edge-99", MACs: []string{"52:54:00:77:00:0b"}},
			Result{By: ByNoCloud, Value: "edge-99", Phase: 1, Problem: `the user-data of NoCloud (spore.node) chooses node "edge-99", which cluster.yaml does not have`},
		},
		"the ESP wins over hardware": {
			Facts{ESP: "kafka-01", MACs: []string{"52:54:00:77:00:0b"}}, Result{Node: "kafka-01", By: ByESP, Value: "kafka-01", Phase: 1},
		},
		"a choice of an unknown node does not fall through": {
			Facts{ESP: "edge-99", MACs: []string{"52:54:00:77:00:0b"}},
			Result{By: ByESP, Value: "edge-99", Phase: 1, Problem: `this medium's /spore/node chooses node "edge-99", which cluster.yaml does not have`},
		},
		"an empty choice is none": {
			Facts{Cmdline: " \n", MACs: []string{"52:54:00:77:00:0b"}}, Result{Node: "edge-01", By: ByMAC, Value: "52:54:00:77:00:0b", Phase: 1},
		},
		"a MAC of one node in the chassis of another is neither": {
			Facts{MACs: []string{"52:54:00:77:00:0b"}, Serial: "CZ 20280ABC"},
			Result{Phase: 1, Ambiguous: true, Problem: "this machine would be more than one node: mac 52:54:00:77:00:0b is edge-01, serial cz 20280abc is kafka-01"},
		},
		"a phase-one contradiction does not ask the network": {
			Facts{MACs: []string{"52:54:00:77:00:0b"}, Serial: "CZ 20280ABC", IPs: []string{"10.77.0.12"}},
			Result{Phase: 1, Ambiguous: true, Problem: "this machine would be more than one node: mac 52:54:00:77:00:0b is edge-01, serial cz 20280abc is kafka-01"},
		},
		"an address of one node with the host name of another is neither": {
			Facts{IPs: []string{"10.77.0.12"}, Hostnames: []string{"dns-01"}},
			Result{Phase: 2, Ambiguous: true, Problem: "this machine would be more than one node: ip 10.77.0.12 is mqtt-01, hostname dns-01 is dns-01"},
		},
		"phase one is not doubted by DHCP": {
			Facts{MACs: []string{"52:54:00:77:00:0b"}, IPs: []string{"10.77.0.12"}},
			Result{Node: "edge-01", By: ByMAC, Value: "52:54:00:77:00:0b", Phase: 1},
		},
		"placeholders match nothing": {
			Facts{Serial: "To be filled by O.E.M.", UUID: "ffffffff-ffff-ffff-ffff-ffffffffffff", MACs: []string{"00:00:00:00:00:00"}, IPs: []string{"169.254.3.3"}, Hostnames: []string{"localhost"}},
			Result{},
		},
		"garbage matches nothing": {
			Facts{MACs: []string{"eth0"}, Serial: "a\tb\nc", UUID: "x", IPs: []string{"10.77.0.12/24"}, Hostnames: []string{"dns\t01"}}, Result{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, plant()).Match(tc.facts)
			require.NoError(t, err)
			require.Equal(t, got.Ambiguous, len(got.Candidates) > 1 && got.Node == "")
			got.Candidates = nil
			require.Equal(t, tc.want, got)
		})
	}
}

func TestTwoNodesWithOneMACAreBothListed(t *testing.T) {
	nodes := []Node{{Name: "a", MACs: []string{"52:54:00:00:00:01"}}, {Name: "b", MACs: []string{"52:54:00:00:00:01"}}}
	got, err := open(t, nodes).Match(Facts{MACs: []string{"52:54:00:00:00:01"}})
	require.NoError(t, err)
	require.True(t, got.Ambiguous)
	require.Equal(t, []Candidate{{"a", ByMAC, "52:54:00:00:00:01"}, {"b", ByMAC, "52:54:00:00:00:01"}}, got.Candidates)
}

func TestTheIndexDoesNotDependOnTheOrderOfNodes(t *testing.T) {
	nodes := plant()
	want, err := Build(nodes)
	require.NoError(t, err)
	rand.New(rand.NewSource(1)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	got, err := Build(nodes)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Equal(t, header+
		"hostname\tbroker\tkafka-01\n"+
		"hostname\tdns-01\tdns-01\n"+
		"hostname\tdns-01.plant.example\tdns-01\n"+
		"hostname\tedge-01\tedge-01\n"+
		"hostname\tedge-01.plant.example\tedge-01\n"+
		"hostname\tmqtt-01\tmqtt-01\n"+
		"ip\t10.77.0.11\tedge-01\n"+
		"ip\t10.77.0.12\tmqtt-01\n"+
		"ip\tfd00::12\tmqtt-01\n"+
		"mac\t52:54:00:77:00:0b\tedge-01\n"+
		"name\tdns-01\tdns-01\n"+
		"name\tedge-01\tedge-01\n"+
		"name\tkafka-01\tkafka-01\n"+
		"name\tmqtt-01\tmqtt-01\n"+
		"serial\tcz 20280abc\tkafka-01\n"+
		"uuid\t4c4c4544-0043-4a10-8052-b4c04f4d3333\tkafka-01\n", string(got))
}

func TestNormalize(t *testing.T) {
	for _, tc := range []struct {
		kind    Kind
		in, out string
		err     string
	}{
		{MAC, "52:54:00:AB:cd:ef", "52:54:00:ab:cd:ef", ""},
		{MAC, "5254.00ab.cdef", "52:54:00:ab:cd:ef", ""},
		{MAC, "525400ABCDEF", "52:54:00:ab:cd:ef", ""},
		{MAC, "52:54-00:ab:cd:ef", "", "is not a MAC address"},
		{MAC, "52:54:00:ab:cd", "", "is not a MAC address"},
		{MAC, "52:54:00:ab:cd:eg", "", "is not a MAC address"},
		{MAC, "01:00:5e:00:00:01", "", "multicast"},
		{MAC, "ff:ff:ff:ff:ff:ff", "", "broadcast"},
		{MAC, "00:00:00:00:00:00", "", "all-zero"},
		{UUID, "4C4C4544-0043-4A10-8052-B4C04F4D3333", "4c4c4544-0043-4a10-8052-b4c04f4d3333", ""},
		{UUID, "urn:uuid:4c4c454400434a108052b4c04f4d3333", "4c4c4544-0043-4a10-8052-b4c04f4d3333", ""},
		{UUID, "00000000-0000-0000-0000-000000000000", "", "placeholder"},
		{UUID, "03000200-0400-0500-0006-000700080009", "", "placeholder"},
		{UUID, "4c4c4544-0043-4a10-8052", "", "is not a UUID"},
		{Serial, " CZ20280ABC\t", "", "not printable"},
		{Serial, " CZ20280ABC ", "cz20280abc", ""},
		{Serial, "Default string", "", "placeholder"},
		{Serial, "0000000000", "", "placeholder"},
		{Serial, "  ", "", "is empty"},
		{IP, "::ffff:10.0.0.1", "10.0.0.1", ""},
		{IP, "10.0.0.1/24", "", "without prefix length"},
		{IP, "fe80::1%eth0", "", "zone"},
		{IP, "fe80::1", "", "link-local"},
		{IP, "127.0.0.1", "", "not the address of one machine"},
		{Hostname, "Node.Example.", "node.example", ""},
		{Hostname, "localhost.localdomain", "", "every machine"},
		{Hostname, "a_b", "", "not a DNS name"},
		{Hostname, ".", "", "is empty"},
		{Name, strings.Repeat("a", 300), "", "longer than"},
		{Kind("nic"), "x", "", "unknown kind"},
	} {
		t.Run(string(tc.kind)+" "+tc.in, func(t *testing.T) {
			got, err := Normalize(tc.kind, tc.in)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.out, got)
		})
	}
}

func TestBuildRefusesWhatIdentifiesNothing(t *testing.T) {
	_, err := Build([]Node{{Name: "a", Serial: "None"}})
	require.ErrorContains(t, err, `index node a: serial "None" is a placeholder`)
	_, err = Build([]Node{{Name: ""}})
	require.ErrorContains(t, err, `index node "": its name is empty`)
}

func TestADamagedIndexIsReported(t *testing.T) {
	for name, tc := range map[string]struct{ in, err string }{
		"empty":         {"", "does not begin with"},
		"other version": {"#spore-identity 2\n", "does not begin with"},
		"endless line":  {header + strings.Repeat("x", 2000), "does not end within"},
		"cut short":     {header + "mac\t52:54:00:00:00:01\ta", "does not end within"},
		"bad node name": {header + "mac\t52:54:00:00:00:01\t../a\n", "is not a node name"},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := FromBytes([]byte(tc.in))
			if err == nil {
				_, err = x.Match(Facts{MACs: []string{"52:54:00:00:00:01"}})
			}
			require.ErrorContains(t, err, tc.err)
		})
	}
}

// many returns n nodes with every kind of identifier.
func many(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{
			Name: fmt.Sprintf("node-%05d", i), Hostnames: []string{fmt.Sprintf("host-%05d", i), fmt.Sprintf("host-%05d.plant.example", i)},
			MACs: []string{fmt.Sprintf("52:54:00:%02x:%02x:01", i>>8, i&255), fmt.Sprintf("52:54:00:%02x:%02x:02", i>>8, i&255)},
			IPs:  []string{fmt.Sprintf("10.77.%d.%d", i>>8, i&255)}, Serial: fmt.Sprintf("SN-%d", i), UUID: fmt.Sprintf("4c4c4544-0043-4a10-8052-%012x", i),
		}
	}
	return nodes
}

// countingReader counts the bytes that are read.
type countingReader struct {
	io.ReaderAt
	bytes int
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.bytes += n
	return n, err
}

func TestEveryIdentifierOfManyNodesIsFoundAndLittleIsRead(t *testing.T) {
	nodes := many(3000)
	b, err := Build(nodes)
	require.NoError(t, err)
	r := &countingReader{ReaderAt: bytes.NewReader(b)}
	x, err := Open(r, int64(len(b)))
	require.NoError(t, err)
	for _, n := range nodes {
		for _, f := range []Facts{{MACs: n.MACs}, {Serial: n.Serial}, {UUID: n.UUID}, {IPs: n.IPs}, {Hostnames: n.Hostnames}, {Cmdline: n.Name}} {
			r.bytes = 0
			got, err := x.Match(f)
			require.NoError(t, err)
			require.Equal(t, n.Name, got.Node)
			require.Less(t, r.bytes, 70_000)
		}
	}
	for _, v := range []string{"52:54:00:00:00:00", "52:54:ff:ff:ff:ff", "00:00:00:00:00:01"} {
		got, err := x.Lookup(MAC, v)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func BenchmarkMatchTenThousandNodes(b *testing.B) {
	x := open(b, many(10_000))
	facts := Facts{MACs: []string{"52:54:00:ff:ff:01", "52:54:00:12:34:02"}, Serial: "SN-4660", UUID: "4c4c4544-0043-4a10-8052-000000001234"}
	for b.Loop() {
		if r, err := x.Match(facts); err != nil || r.Node != "node-04660" {
			b.Fatal(r, err)
		}
	}
}

// FuzzIndex reads arbitrary bytes as an index: no panic, no endless loop, and never a node name of another form.
func FuzzIndex(f *testing.F) {
	good, err := Build(plant())
	require.NoError(f, err)
	f.Add(good, "52:54:00:77:00:0b", "10.77.0.12")
	f.Add(good[:len(good)-7], "52:54:00:77:00:0b", "10.77.0.12")
	f.Add([]byte(header), "52:54:00:77:00:0b", "x")
	f.Add([]byte(header+"\n\n\n\n"), "52:54:00:77:00:0b", "x")
	f.Add([]byte(header+"mac\t52:54:00:77:00:0b\tx\nmac\n"), "52:54:00:77:00:0b", "x")
	f.Fuzz(func(t *testing.T, index []byte, mac, ip string) {
		x, err := FromBytes(index)
		if err != nil {
			return
		}
		r, err := x.Match(Facts{MACs: []string{mac}, IPs: []string{ip}})
		if err == nil && r.Node != "" {
			norm, err := Normalize(Name, r.Node)
			require.NoError(t, err)
			require.Equal(t, norm, r.Node)
		}
	})
}

// FuzzNormalize: a normal form is its own normal form.
func FuzzNormalize(f *testing.F) {
	for _, v := range []string{"52:54:00:77:00:0b", "{4C4C4544-0043-4A10-8052-B4C04F4D3333}", "a  B", "fd00::0:1", "A.b."} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, k := range []Kind{Name, MAC, Serial, UUID, IP, Hostname} {
			once, err := Normalize(k, v)
			if err != nil {
				continue
			}
			twice, err := Normalize(k, once)
			require.NoError(t, err, "%s %q", k, once)
			require.Equal(t, once, twice)
			require.NotContains(t, once, "\t")
			require.NotContains(t, once, "\n")
		}
	})
}
