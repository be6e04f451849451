package dhcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/stretchr/testify/require"
)

var (
	mac    = net.HardwareAddr{0x52, 0x54, 0, 0x77, 0, 0x0b}
	stray  = net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 0x01}
	server = netip.MustParseAddr("10.77.0.2")
	subnet = netip.MustParsePrefix("10.77.0.0/24")
	boot   = Boot{BIOS: "undionly.kpxe", UEFI: "snponly.efi", Script: "http://10.77.0.2/start.ipxe", UKI: "http://10.77.0.2/spore.efi"}
	start  = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

// bench is a server with a clock and what it reported.
type bench struct {
	*Server
	t      *testing.T
	now    time.Time
	events []Event
}

func newBench(t *testing.T, mode Mode) *bench {
	b := &bench{t: t, now: start}
	leases, err := NewLeases(LeaseOptions{
		Subnet: subnet, First: netip.MustParseAddr("10.77.0.200"), Last: netip.MustParseAddr("10.77.0.202"),
		Fixed: []Fixed{
			{MACs: []string{mac.String()}, Lease: Lease{netip.MustParseAddr("10.77.0.11"), "edge-01"}},
			{UUID: "4c4c4544-0043-4a10-8052-b4c04f4d3333", Lease: Lease{netip.MustParseAddr("10.77.0.201"), "edge-02"}},
		},
		Reserved: []netip.Addr{server}, Now: func() time.Time { return b.now },
	})
	require.NoError(t, err)
	b.Server, err = New(Options{
		Mode: mode, Server: server, Boot: boot, Leases: leases, Report: func(e Event) { b.events = append(b.events, e) },
		Network: Network{Subnet: subnet, Routers: []netip.Addr{netip.MustParseAddr("10.77.0.1")}, DNS: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.77.0.3")}, Domain: "plant.example"},
	})
	require.NoError(t, err)
	return b
}

// ask is a packet of a client that has no address.
func ask(kind dhcpv4.MessageType, from net.HardwareAddr, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(from), dhcpv4.WithMessageType(kind)}, more...)...)
	if err != nil {
		panic(err)
	}
	return p
}

func class(text string, arch uint16) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		p.UpdateOption(dhcpv4.OptClassIdentifier(text))
		p.UpdateOption(dhcpv4.OptClientArch(iana.Arch(arch)))
	}
}

func ipxe(features ...byte) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		p.UpdateOption(dhcpv4.OptUserClass("iPXE"))
		var all []byte
		for _, f := range features {
			all = append(all, f, 1, 1)
		}
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionIPXE), all))
	}
}

func requesting(server, address netip.Addr) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		if server.IsValid() {
			p.UpdateOption(dhcpv4.OptServerIdentifier(server.AsSlice()))
		}
		if address.IsValid() {
			p.UpdateOption(dhcpv4.OptRequestedIPAddress(address.AsSlice()))
		}
	}
}

// send gives a packet to the server and reads the answer as a client does, from its bytes.
func (b *bench) send(p *dhcpv4.DHCPv4, port int) (*dhcpv4.DHCPv4, netip.AddrPort) {
	b.t.Helper()
	r := b.answer(p.ToBytes(), port, netip.MustParseAddrPort("10.77.0.50:4011"))
	if r == nil {
		return nil, netip.AddrPort{}
	}
	out, err := dhcpv4.FromBytes(r.packet.ToBytes())
	require.NoError(b.t, err)
	require.Equal(b.t, p.TransactionID, out.TransactionID)
	require.Equal(b.t, p.ClientHWAddr, out.ClientHWAddr)
	require.Equal(b.t, dhcpv4.OpcodeBootReply, out.OpCode)
	return out, r.to
}

func TestEachFirmwareIsToldWhatItCanLoad(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client []dhcpv4.Modifier
		file   string
	}{
		{"a BIOS loads iPXE for BIOS", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001", 0)}, "undionly.kpxe"},
		{"UEFI loads iPXE for UEFI", []dhcpv4.Modifier{class("PXEClient:Arch:00007:UNDI:003016", 7)}, "snponly.efi"},
		{"UEFI may call itself 9", []dhcpv4.Modifier{class("PXEClient:Arch:00009:UNDI:003016", 9)}, "snponly.efi"},
		{"UEFI that boots from HTTP gets the kernel image's URL", []dhcpv4.Modifier{class("HTTPClient:Arch:00016:UNDI:003001", 16)}, boot.UKI},
		{"an architecture in the class alone counts", []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient:Arch:00016:UNDI:003001"))}, boot.UKI},
		{"iPXE gets the script", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001", 0), ipxe(featureHTTP, featureBzImage)}, boot.Script},
		{"iPXE on UEFI gets the script", []dhcpv4.Modifier{class("PXEClient:Arch:00007:UNDI:003010", 7), ipxe(featureHTTP, featureEFI)}, boot.Script},
		{"an iPXE without HTTP gets a better one", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001", 0), ipxe(featureBzImage)}, "undionly.kpxe"},
		{"32-bit UEFI gets nothing", []dhcpv4.Modifier{class("PXEClient:Arch:00006:UNDI:003016", 6)}, ""},
		{"an ARM gets nothing", []dhcpv4.Modifier{class("PXEClient:Arch:00011:UNDI:003016", 11)}, ""},
		{"an ARM gets nothing by HTTP", []dhcpv4.Modifier{class("HTTPClient:Arch:00019:UNDI:003016", 19)}, ""},
	} {
		for _, mode := range []Mode{Proxy, Full} {
			t.Run(tt.name+", "+string(mode), func(t *testing.T) {
				b := newBench(t, mode)
				out, to := b.send(ask(dhcpv4.MessageTypeDiscover, mac, tt.client...), ServerPort)
				if mode == Proxy && tt.file == "" {
					require.Nil(t, out)
					require.NotEmpty(t, b.events[0].Problem)
					return
				}
				require.Equal(t, dhcpv4.MessageTypeOffer, out.MessageType())
				require.False(t, to.IsValid(), "a client without an address is answered by a broadcast")
				file := out.BootFileNameOption()
				if file == "" {
					file = out.BootFileName
				}
				require.Equal(t, tt.file, file)
				require.Equal(t, server.String(), out.ServerIPAddr.String())
				require.Equal(t, server.String(), out.ServerIdentifier().String())
				if mode == Proxy {
					require.True(t, out.YourIPAddr.IsUnspecified(), "a proxy gives no addresses")
					require.Empty(t, out.IPAddressLeaseTime(0))
				} else {
					require.Equal(t, "10.77.0.11", out.YourIPAddr.String())
				}
			})
		}
	}
}

func TestAProxyLeavesMachinesAloneThatDoNotBootFromTheNetwork(t *testing.T) {
	b := newBench(t, Proxy)
	for name, p := range map[string]*dhcpv4.DHCPv4{
		"a system that asks for an address": ask(dhcpv4.MessageTypeDiscover, mac),
		"a request to the other server":     ask(dhcpv4.MessageTypeRequest, mac, class("PXEClient:Arch:00000", 0), requesting(netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.11"))),
		"a release":                         ask(dhcpv4.MessageTypeRelease, mac),
	} {
		out, _ := b.send(p, ServerPort)
		require.Nil(t, out, name)
	}
	require.Empty(t, b.events)
}

func TestTheFormOfAProxyOffer(t *testing.T) {
	b := newBench(t, Proxy)
	uuid := append([]byte{0}, make([]byte, 16)...)
	with := func(more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		return ask(dhcpv4.MessageTypeDiscover, mac, append(more, dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, uuid))...)
	}
	bios, _ := b.send(with(class("PXEClient:Arch:00000:UNDI:002001", 0)), ServerPort)
	require.Equal(t, "PXEClient", bios.ClassIdentifier())
	require.Equal(t, []byte{6, 1, 8, 255}, bios.GetOneOption(dhcpv4.OptionVendorSpecificInformation), "the file of the offer is loaded at once")
	require.Equal(t, uuid, bios.GetOneOption(dhcpv4.OptionClientMachineIdentifier))

	uefi, _ := b.send(with(class("PXEClient:Arch:00007:UNDI:003016", 7)), ServerPort)
	require.Nil(t, uefi.GetOneOption(dhcpv4.OptionVendorSpecificInformation), "UEFI asks port 4011 then")
	ack, to := b.send(ask(dhcpv4.MessageTypeRequest, mac, class("PXEClient:Arch:00007:UNDI:003016", 7), dhcpv4.WithClientIP(net.IPv4(10, 77, 0, 50))), BootServerPort)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	require.Equal(t, "snponly.efi", ack.BootFileName)
	require.Equal(t, netip.MustParseAddrPort("10.77.0.50:4011"), to)

	url, _ := b.send(with(class("HTTPClient:Arch:00016:UNDI:003001", 16)), ServerPort)
	require.Equal(t, "HTTPClient", url.ClassIdentifier())

	informed, to := b.send(ask(dhcpv4.MessageTypeInform, mac, class("HTTPClient:Arch:00016:UNDI:003001", 16), dhcpv4.WithClientIP(net.IPv4(10, 77, 0, 50))), ServerPort)
	require.Equal(t, boot.UKI, informed.BootFileNameOption(), "stage1 asks when it has its address")
	require.Equal(t, netip.MustParseAddrPort("10.77.0.50:68"), to)

	relayed, to := b.send(with(class("PXEClient:Arch:00000:UNDI:002001", 0), dhcpv4.WithGatewayIP(net.IPv4(10, 9, 0, 1))), ServerPort)
	require.NotNil(t, relayed)
	require.Equal(t, netip.MustParseAddrPort("10.9.0.1:67"), to, "a relay agent hands it on")
}

func TestAnIsolatedNetwork(t *testing.T) {
	b := newBench(t, Full)
	offer, _ := b.send(ask(dhcpv4.MessageTypeDiscover, mac), ServerPort)
	require.Equal(t, "10.77.0.11", offer.YourIPAddr.String())
	ack, _ := b.send(ask(dhcpv4.MessageTypeRequest, mac, requesting(server, netip.MustParseAddr("10.77.0.11"))), ServerPort)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	require.Equal(t, "edge-01", ack.HostName())
	require.Equal(t, "plant.example", ack.DomainName())
	require.Equal(t, "ffffff00", ack.SubnetMask().String())
	require.Equal(t, "10.77.0.1", ack.Router()[0].String())
	require.Len(t, ack.DNS(), 1, "an IPv6 server is not told by DHCPv4")
	require.Equal(t, time.Hour, ack.IPAddressLeaseTime(0))
	require.Empty(t, ack.BootFileName, "who does not boot from the network is told nothing of it")

	nak, to := b.send(ask(dhcpv4.MessageTypeRequest, mac, requesting(netip.Addr{}, netip.MustParseAddr("10.77.0.99"))), ServerPort)
	require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType())
	require.Contains(t, nak.Message(), "10.77.0.11")
	require.False(t, to.IsValid())

	t.Run("a request to another server is a problem that is said", func(t *testing.T) {
		b.events = nil
		out, _ := b.send(ask(dhcpv4.MessageTypeRequest, mac, requesting(netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.11"))), ServerPort)
		require.Nil(t, out)
		require.Contains(t, b.events[0].Problem, "another DHCP server, 10.77.0.1")
	})
}

func TestANodeIsKnownByItsUUIDInEitherOrderOfBytes(t *testing.T) {
	for _, wire := range [][]byte{
		{0, 0x4c, 0x4c, 0x45, 0x44, 0x00, 0x43, 0x4a, 0x10, 0x80, 0x52, 0xb4, 0xc0, 0x4f, 0x4d, 0x33, 0x33},
		{0, 0x44, 0x45, 0x4c, 0x4c, 0x43, 0x00, 0x10, 0x4a, 0x80, 0x52, 0xb4, 0xc0, 0x4f, 0x4d, 0x33, 0x33},
	} {
		b := newBench(t, Full)
		offer, _ := b.send(ask(dhcpv4.MessageTypeDiscover, stray, class("PXEClient:Arch:00000", 0), dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, wire)), ServerPort)
		require.Equal(t, "10.77.0.201", offer.YourIPAddr.String())
		require.Equal(t, "edge-02", offer.HostName())
		again, _ := b.send(ask(dhcpv4.MessageTypeDiscover, stray), ServerPort)
		require.Equal(t, "10.77.0.201", again.YourIPAddr.String(), "the system says its MAC alone, and gets the same")
	}
}

func TestMachinesThatAreNoNodeShareARange(t *testing.T) {
	b := newBench(t, Full)
	address := func(last byte) string {
		out, _ := b.send(ask(dhcpv4.MessageTypeDiscover, net.HardwareAddr{2, 0, 0, 0, 0, last}), ServerPort)
		if out == nil {
			return ""
		}
		return out.YourIPAddr.String()
	}
	require.Equal(t, "10.77.0.200", address(1))
	require.Equal(t, "10.77.0.202", address(2), "10.77.0.201 is a node's")
	require.Equal(t, "10.77.0.200", address(1), "the same machine keeps it")
	require.Empty(t, address(3))
	require.Contains(t, b.events[len(b.events)-1].Problem, "--range")

	b.now = b.now.Add(offerTime)
	require.Equal(t, "10.77.0.200", address(3), "an offer that nobody took is free again")

	ack, _ := b.send(ask(dhcpv4.MessageTypeRequest, net.HardwareAddr{2, 0, 0, 0, 0, 3}, requesting(server, netip.MustParseAddr("10.77.0.200"))), ServerPort)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	b.now = b.now.Add(leaseTime / 2)
	nak, _ := b.send(ask(dhcpv4.MessageTypeRequest, net.HardwareAddr{2, 0, 0, 0, 0, 4}, requesting(server, netip.MustParseAddr("10.77.0.200"))), ServerPort)
	require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType(), "a lease is its machine's alone")
	b.send(ask(dhcpv4.MessageTypeRelease, net.HardwareAddr{2, 0, 0, 0, 0, 3}), ServerPort)
	require.Equal(t, "10.77.0.200", address(4))

	b.send(ask(dhcpv4.MessageTypeDecline, net.HardwareAddr{2, 0, 0, 0, 0, 4}, requesting(server, netip.MustParseAddr("10.77.0.200"))), ServerPort)
	require.Equal(t, "10.77.0.202", address(4), "an address that is in use is left alone")
	require.Contains(t, b.events[len(b.events)-1].Problem, "10.77.0.200 is in use already")
	b.send(ask(dhcpv4.MessageTypeDecline, net.HardwareAddr{2, 0, 0, 0, 0, 9}, requesting(server, netip.MustParseAddr("10.77.0.202"))), ServerPort)
	require.Equal(t, "10.77.0.202", address(4), "somebody else's word does not count")
}

func TestAnotherBuildHasOtherNodes(t *testing.T) {
	b := newBench(t, Full)
	offered := func(from net.HardwareAddr) string {
		out, _ := b.send(ask(dhcpv4.MessageTypeDiscover, from), ServerPort)
		return out.YourIPAddr.String()
	}
	require.Equal(t, "10.77.0.200", offered(stray))
	b.o.Leases.SetNodes([]Fixed{{MACs: []string{"52:54:00:99:00:02"}, Lease: Lease{netip.MustParseAddr("10.77.0.200"), "edge-03"}}}, []netip.Addr{server})
	require.Equal(t, "10.77.0.200", offered(net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 2}))
	require.Equal(t, "10.77.0.201", offered(stray), "what is a node's now is nobody else's")
	require.Equal(t, "10.77.0.202", offered(mac), "who is no node any more is a stranger")
}

func TestAfterARestartAMachineGetsTheAddressThatItHad(t *testing.T) {
	b := newBench(t, Full)
	ack, _ := b.send(ask(dhcpv4.MessageTypeRequest, stray, requesting(netip.Addr{}, netip.MustParseAddr("10.77.0.202"))), ServerPort)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
	require.Equal(t, "10.77.0.202", ack.YourIPAddr.String())
}

func TestPacketsThatAreNotAnswered(t *testing.T) {
	whole := func(change func(p *dhcpv4.DHCPv4)) []byte {
		p := ask(dhcpv4.MessageTypeDiscover, mac, class("PXEClient:Arch:00000", 0))
		change(p)
		return p.ToBytes()
	}
	for name, data := range map[string][]byte{
		"nothing":             nil,
		"a cut one":           whole(func(*dhcpv4.DHCPv4) {})[:200],
		"a reply":             whole(func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootReply }),
		"not Ethernet":        whole(func(p *dhcpv4.DHCPv4) { p.HWType = iana.HWTypeInfiniband }),
		"a MAC of 8 bytes":    whole(func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = make(net.HardwareAddr, 8) }),
		"a multicast address": whole(func(p *dhcpv4.DHCPv4) { p.ClientHWAddr = net.HardwareAddr{1, 0, 0, 0, 0, 1} }),
		"BOOTP":               whole(func(p *dhcpv4.DHCPv4) { p.Options.Del(dhcpv4.OptionDHCPMessageType) }),
	} {
		for _, mode := range []Mode{Proxy, Full} {
			require.Nil(t, newBench(t, mode).answer(data, ServerPort, netip.AddrPort{}), name)
		}
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	for _, tt := range []struct{ first, last string }{
		{"10.77.0.20", "10.77.0.10"}, {"10.78.0.1", "10.78.0.2"}, {"10.77.0.1", "10.77.1.1"}, {"fd00::1", "fd00::2"},
	} {
		_, err := NewLeases(LeaseOptions{Subnet: subnet, First: netip.MustParseAddr(tt.first), Last: netip.MustParseAddr(tt.last), Now: time.Now})
		require.ErrorContains(t, err, "does not lie in the network 10.77.0.0/24", tt.first)
	}
	wide := netip.MustParsePrefix("10.0.0.0/8")
	_, err := NewLeases(LeaseOptions{Subnet: wide, First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.255.0.1"), Now: time.Now})
	require.ErrorContains(t, err, "more than 4096")
	for prefix, want := range map[string][2]string{
		"10.77.0.0/24": {"10.77.0.223", "10.77.0.254"}, "10.0.0.0/8": {"10.255.255.191", "10.255.255.254"}, "10.0.0.0/29": {"10.0.0.5", "10.0.0.6"},
	} {
		first, last := DefaultRange(netip.MustParsePrefix(prefix))
		require.Equal(t, want, [2]string{first.String(), last.String()})
	}
}

func FuzzAnswer(f *testing.F) {
	for _, p := range []*dhcpv4.DHCPv4{
		ask(dhcpv4.MessageTypeDiscover, mac, class("PXEClient:Arch:00000:UNDI:002001", 0), ipxe(featureHTTP, featureBzImage)),
		ask(dhcpv4.MessageTypeDiscover, stray, class("HTTPClient:Arch:00016:UNDI:003001", 16), dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, make([]byte, 17))),
		ask(dhcpv4.MessageTypeRequest, stray, requesting(server, netip.MustParseAddr("10.77.0.200"))),
		ask(dhcpv4.MessageTypeDecline, stray, requesting(server, netip.MustParseAddr("10.77.0.200"))),
		ask(dhcpv4.MessageTypeInform, mac, dhcpv4.WithClientIP(net.IPv4(10, 77, 0, 9))),
	} {
		f.Add(p.ToBytes(), true, false)
		f.Add(p.ToBytes(), false, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, proxy, bootServer bool) {
		mode, port := Full, ServerPort
		if proxy {
			mode = Proxy
		}
		if bootServer {
			port = BootServerPort
		}
		b := newBench(t, mode)
		r := b.answer(data, port, netip.MustParseAddrPort("10.77.0.50:4011"))
		if r == nil {
			return
		}
		// Whatever the question was, the answer is a packet, and a proxy's gives no address.
		out, err := dhcpv4.FromBytes(r.packet.ToBytes())
		require.NoError(t, err)
		require.Equal(t, dhcpv4.OpcodeBootReply, out.OpCode)
		if mode == Proxy || port == BootServerPort {
			require.True(t, out.YourIPAddr.IsUnspecified())
		}
		require.LessOrEqual(t, len(b.o.Leases.Addresses()), 3)
	})
}
