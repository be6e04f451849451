package pcapfilter

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// Stations and addresses of the frames.
var (
	macA, macB = net.HardwareAddr{2, 0, 0, 0, 0, 0xa}, net.HardwareAddr{2, 0, 0, 0, 0, 0xb}
	ipA, ipB   = net.IPv4(10, 1, 0, 1), net.IPv4(10, 2, 0, 2)
	ip6A, ip6B = net.ParseIP("2001:db8::1"), net.ParseIP("2001:db8:0:0:1::2")
)

func frame(t testing.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, l...))
	return buf.Bytes()
}

func ether(kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: kind}
}

func four(p layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: p, SrcIP: ipA, DstIP: ipB}
}

func six(p layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: p, SrcIP: ip6A, DstIP: ip6B}
}

// frames are all from A to B.
func frames(t testing.TB) map[string][]byte {
	tcp := &layers.TCP{SrcPort: 40000, DstPort: 443, SYN: true}
	options := four(layers.IPProtocolTCP)
	options.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 1}}
	later := four(layers.IPProtocolTCP)
	later.FragOffset = 100
	fragment := append([]byte{6, 0, 0, 0, 0, 0, 0, 1}, frame(t, tcp)...) // RFC 8200, section 4.5: the next header is TCP.
	return map[string][]byte{
		"tcp4":     frame(t, ether(layers.EthernetTypeIPv4), four(layers.IPProtocolTCP), tcp),
		"options4": frame(t, ether(layers.EthernetTypeIPv4), options, tcp),
		"later4":   frame(t, ether(layers.EthernetTypeIPv4), later, gopacket.Payload(frame(t, tcp))),
		"udp4":     frame(t, ether(layers.EthernetTypeIPv4), four(layers.IPProtocolUDP), &layers.UDP{SrcPort: 53, DstPort: 40001}),
		"ping4":    frame(t, ether(layers.EthernetTypeIPv4), four(layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: 8 << 8}),
		"tcp6":     frame(t, ether(layers.EthernetTypeIPv6), six(layers.IPProtocolTCP), tcp),
		"frag6":    frame(t, ether(layers.EthernetTypeIPv6), six(layers.IPProtocolIPv6Fragment), gopacket.Payload(fragment)),
		"ping6":    frame(t, ether(layers.EthernetTypeIPv6), six(layers.IPProtocolICMPv6), &layers.ICMPv6{TypeCode: 128 << 8}),
		"arp": frame(t, ether(layers.EthernetTypeARP), &layers.ARP{
			AddrType: 1, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
			SourceHwAddress: macA, SourceProtAddress: ipA.To4(), DstHwAddress: make([]byte, 6), DstProtAddress: ipB.To4(),
		}),
		"other": frame(t, ether(0x88cc), gopacket.Payload(make([]byte, 60))),
		"short": frame(t, ether(layers.EthernetTypeIPv4))[:20],
	}
}

// taken is which of the frames a filter takes, in the order of the alphabet.
func taken(t *testing.T, f Filter) string {
	t.Helper()
	code, err := f.Program(Ethernet, 100)
	require.NoError(t, err)
	vm, err := bpf.NewVM(code)
	require.NoError(t, err)
	var out []string
	all := frames(t)
	for _, name := range []string{"arp", "frag6", "later4", "options4", "other", "ping4", "ping6", "short", "tcp4", "tcp6", "udp4"} {
		n, err := vm.Run(all[name])
		require.NoError(t, err)
		if n > 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func TestAFilterTakesWhatPcapFilterSays(t *testing.T) {
	const everything = "arp frag6 later4 options4 other ping4 ping6 short tcp4 tcp6 udp4"
	const withIP4 = "later4 options4 ping4 tcp4 udp4"
	const withIP6 = "frag6 ping6 tcp6"
	for _, tc := range []struct{ filter, want string }{
		{"", everything},
		{"ip", "later4 options4 ping4 short tcp4 udp4"},
		{"ip6", withIP6},
		{"arp", "arp"},
		{"tcp", "frag6 later4 options4 tcp4 tcp6"},
		{"udp", "udp4"},
		{"sctp", ""},
		{"icmp", "ping4"},
		{"icmp6", "ping6"},
		{"host 10.1.0.1", "arp " + withIP4},
		{"host 10.2.0.2", "arp " + withIP4},
		{"host 10.1.0.3", ""},
		{"src host 10.1.0.1", "arp " + withIP4},
		{"dst host 10.1.0.1", ""},
		{"ip host 10.1.0.1", withIP4},
		{"arp host 10.1.0.1", "arp"},
		{"arp dst host 10.2.0.2", "arp"},
		{"host 2001:db8::1", withIP6},
		{"dst host 2001:db8::1:0:0:2", withIP6},
		{"src host 2001:db8::1:0:0:2", ""},
		{"net 10.0.0.0/8", "arp " + withIP4},
		{"net 10.1.0.0/16", "arp " + withIP4},
		{"dst net 10.1.0.0/16", ""},
		{"src net 10.1.0.0/31", "arp " + withIP4},
		{"net 192.168.0.0/16", ""},
		{"net 0.0.0.0/0", "arp " + withIP4},
		{"net 2001:db8::/32", withIP6},
		{"net 2001:db8::/65", withIP6},
		{"dst net 2001:db8:0:0:1::/80", withIP6},
		{"src net 2001:db8:0:0:1::/80", ""},
		{"ip6 net ::/0", withIP6},
		{"port 443", "options4 tcp4 tcp6"},
		{"tcp port 443", "options4 tcp4 tcp6"},
		{"udp port 443", ""},
		{"dst port 443", "options4 tcp4 tcp6"},
		{"src port 443", ""},
		{"udp src port 53", "udp4"},
		{"portrange 40000-40001", "options4 tcp4 tcp6 udp4"},
		{"src portrange 1-100", "udp4"},
		{"tcp portrange 444-65535", "options4 tcp4 tcp6"},
		{"tcp dst portrange 444-65535", ""},
		{"port 0", ""},
		{"ether host 02:00:00:00:00:0a", everything},
		{"ether src host 02:00:00:00:00:0a", everything},
		{"ether dst host 02:00:00:00:00:0a", ""},
		{"not ip", "arp frag6 other ping6 tcp6"},
		{"not not arp", "arp"},
		{"!arp", "frag6 later4 options4 other ping4 ping6 short tcp4 tcp6 udp4"},
		{"arp or icmp", "arp ping4"},
		{"arp||icmp", "arp ping4"},
		{"tcp and not port 443", "frag6 later4"},
		{"host 10.1.0.1 and tcp port 443", "options4 tcp4"},
		// Both bind alike and from the left, as in pcap-filter(7): (arp or udp) and host.
		{"arp or udp and port 53", "udp4"},
		{"arp or (udp and port 53)", "arp udp4"},
		{"not (tcp or udp) and ip", "ping4"},
		{"not(tcp||udp)&&ip", "ping4"},
	} {
		t.Run(tc.filter, func(t *testing.T) {
			f, err := Parse(tc.filter)
			require.NoError(t, err)
			require.Equal(t, tc.want, taken(t, f))
		})
	}
}

func TestJumpsOverMoreThan255InstructionsLeadWhereTheyShould(t *testing.T) {
	var hosts []string
	for i := range 60 {
		hosts = append(hosts, fmt.Sprintf("host 10.9.0.%d", i))
	}
	none := strings.Join(hosts, " or ")
	for filter, want := range map[string]string{
		none:             "",
		none + " or arp": "arp",
		"arp or " + none: "arp",
		"tcp port 443 and (" + none + " or icmp)": "",
		"not (" + none + ") and udp":              "udp4",
		"arp and not (" + none + ")":              "arp",
	} {
		f, err := Parse(filter)
		require.NoError(t, err)
		require.Equal(t, want, taken(t, f), filter)
		code, err := f.Program(Ethernet, 1)
		require.NoError(t, err)
		require.Greater(t, len(code), 300)
	}
}

func TestTwoFiltersAreJoined(t *testing.T) {
	a, err := Parse("tcp or udp")
	require.NoError(t, err)
	b, err := Parse("not port 443")
	require.NoError(t, err)
	require.Equal(t, "frag6 later4 udp4", taken(t, a.And(b)))
	require.Equal(t, taken(t, b), taken(t, Filter{}.And(b)))
	require.Equal(t, taken(t, a), taken(t, a.And(Filter{})))
}

func TestWhatIsNotOfTheSubsetIsRefused(t *testing.T) {
	for filter, want := range map[string]string{
		"port 80 or 443":                       `"443" does not begin a condition`,
		"10.0.0.1":                             `"10.0.0.1" does not begin a condition`,
		"src 10.0.0.1":                         "src is followed by host, net, port or portrange",
		"host example.org":                     "names are not looked up",
		"host fe80::1%eth0":                    "names are not looked up",
		"port http":                            "is not a port number",
		"port 65536":                           "is not a port number",
		"port":                                 "the filter ends where a port number was expected",
		"portrange 5":                          "write it as 8000-8080",
		"portrange 9-5":                        "not a range of them",
		"icmp port 5":                          "icmp has no ports",
		"arp host 2001:db8::1":                 "arp has no address such as 2001:db8::1",
		"tcp host 10.0.0.1":                    "tcp has no address such as 10.0.0.1",
		"net 10.0.0.1/8":                       "write 10.0.0.0/8",
		"net 10":                               "is not a network",
		"net 10.0.0.0/33":                      "is not a network",
		"ether":                                "ether is followed by host",
		"ether host 10.0.0.1":                  "is not a MAC",
		"ether net 10.0.0.0/8":                 "ether has no address",
		"vlan 4095":                            "write 0 to 4094",
		"tcp udp":                              `"udp" is where and, or, or the end`,
		"(tcp":                                 "not closed",
		"tcp)":                                 `")" is where`,
		"and":                                  `"and" does not begin a condition`,
		"tcp and":                              "the filter ends where a condition",
		"not":                                  "the filter ends where a condition",
		"()":                                   `")" does not begin a condition`,
		"ip[0] == 4":                           `"ip[0]" does not begin a condition`,
		strings.Repeat("!", 100):               "at most 32",
		strings.Repeat("(", 100):               "at most 32",
		strings.Repeat("x", 2049):              "at most 2048 bytes",
		strings.Repeat("tcp or ", 100) + "tcp": "at most 64 conditions",
	} {
		_, err := Parse(filter)
		require.ErrorContains(t, err, want, filter)
	}
	f, err := Parse("ether host 02:00:00:00:00:0a")
	require.NoError(t, err)
	_, err = f.Program(Network, 1)
	require.ErrorContains(t, err, "interfaces with Ethernet frames")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"tcp port 443 and not host 10.0.0.1", "vlan 5 or (arp and net 10.0.0.0/8)", "!(udp portrange 1-2)", "ether host 02:00:00:00:00:0a"} {
		f.Add(seed, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x4f})
	}
	f.Fuzz(func(t *testing.T, text string, packet []byte) {
		filter, err := Parse(text)
		if err != nil {
			return
		}
		for _, link := range []Link{Ethernet, Network} {
			code, err := filter.Program(link, 64)
			if err != nil {
				continue
			}
			_, err = bpf.Assemble(code)
			require.NoError(t, err)
			if vm, err := bpf.NewVM(code); err == nil { // It does not know the extensions of vlan and of Network.
				n, err := vm.Run(packet)
				require.NoError(t, err)
				require.Contains(t, []int{0, min(64, len(packet))}, min(n, len(packet)))
			}
		}
	})
}
