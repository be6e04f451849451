// Package dhcp tells machines that boot from the network what to load: as proxy-DHCP beside a server that gives out the
// addresses, or as the one DHCP server of an isolated network, with addresses from cluster.yaml.
//
// What is followed: RFC 2131 and 2132 (DHCP), RFC 4578 (PXE's options 93 and 97), RFC 3004 (user classes), the PXE
// specification 2.1 (option 43, and the boot server on port 4011), UEFI 2.10, section 24.7 (HTTP boot), and option 175 of iPXE.
// What is left out: DHCPv6, relay agents that ask for more than an answer by their address, and a lease database: leases are in
// memory, and a client that asks for the address that it had gets it again.
//
// Packets are read and written by github.com/insomniacslk/dhcp. gopacket, which the project has anyway, leaves user classes,
// options in several pieces (RFC 3396) and the copying of what a reply has to repeat to its caller. The library's own server
// is not used: it takes every packet into a goroutine of its own without a bound, and cannot answer from two ports.
package dhcp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Mode is how the server stands to other DHCP servers.
type Mode string

// The modes.
const (
	// Proxy gives no addresses; another server does.
	Proxy Mode = "proxy"
	// Full is the only DHCP server of the network.
	Full Mode = "full"
)

// Ports of UDP. A boot server of PXE listens on BootServerPort (PXE 2.1, section 2.2.3).
const (
	ServerPort     = 67
	clientPort     = 68
	BootServerPort = 4011
)

// maxPacket is the largest packet that is read, in bytes; what is longer is no DHCP packet of Ethernet.
const maxPacket = 1500

// leaseTime is how long an address is given for. Machines keep it only until they have booted.
const leaseTime = time.Hour

// Boot names what machines load.
type Boot struct {
	// BIOS and UEFI are the names of iPXE's binaries for the two kinds of firmware, as the TFTP server has them. Without a
	// TFTP server they are empty, and firmware that can load nothing else is not answered.
	BIOS, UEFI string
	// Script is the URL of iPXE's first script.
	Script string
	// UKI is the URL of the unified kernel image, for firmware that boots from HTTP and for stage1.
	UKI string
}

// Network is what the one DHCP server of a network tells besides an address.
type Network struct {
	// Subnet is the network.
	Subnet netip.Prefix
	// Routers, DNS and NTP are IPv4 addresses; each may be empty.
	Routers, DNS, NTP []netip.Addr
	// Domain is the DNS domain of the nodes.
	Domain string
}

// Options describe a server.
type Options struct {
	Mode Mode
	// Server is the own address.
	Server netip.Addr
	Boot   Boot
	// Network and Leases are for the mode Full.
	Network Network
	Leases  *Leases
	// Report is told of each answer, and of each machine that boots from the network and gets none. May be nil.
	Report func(Event)
}

// Event is something that the operator may want to know.
type Event struct {
	// MAC is the card that asked.
	MAC net.HardwareAddr
	// UUIDs are the forms that the machine's UUID may have; none where it does not say it.
	UUIDs []string
	// Address was given to it; the zero value where it was not.
	Address netip.Addr
	// Client is what asked, in words, such as "UEFI PXE".
	Client string
	// Loads is what it was told to load; empty when Problem says why not.
	Loads   string
	Problem string
}

// Server answers packets. It keeps no state but the leases.
type Server struct{ o Options }

// New returns a server.
func New(o Options) (*Server, error) {
	if !o.Server.Is4() {
		return nil, fmt.Errorf("network boot by DHCP needs an IPv4 address, and this machine's is %s", o.Server)
	}
	if o.Mode == Full && o.Leases == nil {
		return nil, errors.New("internal error: a DHCP server without leases")
	}
	return &Server{o}, nil
}

// reply is an answer, and where it goes.
type reply struct {
	packet *dhcpv4.DHCPv4
	// to is the destination; all machines of the network when it is not valid.
	to netip.AddrPort
}

// answer answers a packet that came in on a port, from an address. It returns nil when there is nothing to say.
func (s *Server) answer(data []byte, port int, from netip.AddrPort) *reply {
	p, err := dhcpv4.FromBytes(data)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootRequest || p.HWType != iana.HWTypeEthernet || len(p.ClientHWAddr) != 6 || p.ClientHWAddr[0]&1 == 1 {
		return nil
	}
	c := recognise(p)
	var out *dhcpv4.DHCPv4
	switch {
	case port == BootServerPort:
		out = s.bootServer(p, c)
	case s.o.Mode == Proxy:
		out = s.proxy(p, c)
	default:
		out = s.full(p, c)
	}
	if out == nil {
		return nil
	}
	return &reply{out, destination(p, out, port, from)}
}

// destination follows RFC 2131, section 4.1, but for one thing: a client that has no address yet is answered by a broadcast
// and not by a frame to its MAC, for which the kernel would have to be gone round. Every client takes a broadcast.
func destination(p, out *dhcpv4.DHCPv4, port int, from netip.AddrPort) netip.AddrPort {
	relay, _ := netip.AddrFromSlice(p.GatewayIPAddr.To4())
	own, _ := netip.AddrFromSlice(p.ClientIPAddr.To4())
	switch {
	case port == BootServerPort:
		return from
	case relay.IsValid() && !relay.IsUnspecified():
		return netip.AddrPortFrom(relay, ServerPort)
	case own.IsValid() && !own.IsUnspecified() && out.MessageType() != dhcpv4.MessageTypeNak:
		return netip.AddrPortFrom(own, clientPort)
	}
	return netip.AddrPort{}
}

// proxy answers beside another server: only machines that boot from the network, and never with an address.
func (s *Server) proxy(p *dhcpv4.DHCPv4, c client) *dhcpv4.DHCPv4 {
	kind := dhcpv4.MessageTypeOffer
	switch p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeInform:
		// stage1 has its address and asks for the URL alone.
		kind = dhcpv4.MessageTypeAck
	default:
		return nil
	}
	if c.kind == other {
		return nil
	}
	out := s.newReply(p, kind)
	file, err := s.fill(out, c)
	if err != nil {
		s.report(p, c, netip.Addr{}, "", err)
		return nil
	}
	if c.kind == pxe {
		out.UpdateOption(dhcpv4.OptClassIdentifier(classPXE))
		// PXE 2.1, section 2.2.4: option 43, tag 6, bit 3 has the client load the file of this offer at once. UEFI firmware
		// often ignores offers with it; without option 43 it asks this machine's boot server port, which has the same answer.
		if c.arch == archBIOS || c.ipxe {
			out.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
		}
	}
	s.report(p, c, netip.Addr{}, file, nil)
	return out
}

// bootServer answers what comes to the port of PXE's boot servers, where clients come that have an address already.
func (s *Server) bootServer(p *dhcpv4.DHCPv4, c client) *dhcpv4.DHCPv4 {
	if t := p.MessageType(); t != dhcpv4.MessageTypeRequest && t != dhcpv4.MessageTypeInform || c.kind != pxe {
		return nil
	}
	out := s.newReply(p, dhcpv4.MessageTypeAck)
	file, err := s.fill(out, c)
	if err != nil {
		s.report(p, c, netip.Addr{}, "", err)
		return nil
	}
	out.UpdateOption(dhcpv4.OptClassIdentifier(classPXE))
	s.report(p, c, netip.Addr{}, file, nil)
	return out
}

// full answers as the only server.
func (s *Server) full(p *dhcpv4.DHCPv4, c client) *dhcpv4.DHCPv4 {
	switch p.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		asked, _ := netip.AddrFromSlice(p.RequestedIPAddress().To4())
		l, err := s.o.Leases.offer(p.ClientHWAddr.String(), c.uuids, asked)
		if err != nil {
			s.report(p, c, netip.Addr{}, "", err)
			return nil
		}
		return s.give(p, c, dhcpv4.MessageTypeOffer, l)
	case dhcpv4.MessageTypeRequest:
		return s.request(p, c)
	case dhcpv4.MessageTypeInform:
		out := s.newReply(p, dhcpv4.MessageTypeAck)
		s.tell(out, "")
		s.bootInformation(p, out, c, netip.Addr{})
		return out
	case dhcpv4.MessageTypeRelease:
		s.o.Leases.release(p.ClientHWAddr.String())
	case dhcpv4.MessageTypeDecline:
		asked, _ := netip.AddrFromSlice(p.RequestedIPAddress().To4())
		if s.o.Leases.decline(p.ClientHWAddr.String(), asked) {
			s.report(p, c, asked, "", fmt.Errorf("%s is in use already by another machine", asked))
		}
	}
	return nil
}

// request confirms or denies an address (RFC 2131, section 4.3.2).
func (s *Server) request(p *dhcpv4.DHCPv4, c client) *dhcpv4.DHCPv4 {
	if id, ok := netip.AddrFromSlice(p.ServerIdentifier().To4()); ok && id != s.o.Server {
		s.o.Leases.release(p.ClientHWAddr.String())
		s.report(p, c, netip.Addr{}, "", fmt.Errorf("it took the address of another DHCP server, %s; use --dhcp proxy beside one", id))
		return nil
	}
	wanted, _ := netip.AddrFromSlice(p.RequestedIPAddress().To4())
	if !wanted.IsValid() || wanted.IsUnspecified() {
		wanted, _ = netip.AddrFromSlice(p.ClientIPAddr.To4())
	}
	l, err := s.o.Leases.confirm(p.ClientHWAddr.String(), c.uuids, wanted)
	if err != nil {
		out := s.newReply(p, dhcpv4.MessageTypeNak)
		out.ServerIPAddr = net.IPv4zero
		out.UpdateOption(dhcpv4.OptMessage(err.Error()))
		return out
	}
	return s.give(p, c, dhcpv4.MessageTypeAck, l)
}

// give makes an offer or an acknowledgement of an address.
func (s *Server) give(p *dhcpv4.DHCPv4, c client, kind dhcpv4.MessageType, l Lease) *dhcpv4.DHCPv4 {
	out := s.newReply(p, kind)
	out.YourIPAddr = l.Address.AsSlice()
	out.UpdateOption(dhcpv4.OptIPAddressLeaseTime(leaseTime))
	s.tell(out, l.Hostname)
	s.bootInformation(p, out, c, l.Address)
	return out
}

// bootInformation adds what to load, when the client boots from the network.
func (s *Server) bootInformation(p, out *dhcpv4.DHCPv4, c client, address netip.Addr) {
	if c.kind == other {
		return
	}
	file, err := s.fill(out, c)
	if c.ipxe {
		// There is no proxy to wait for (iPXE, option 175.176).
		out.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(optionIPXE), []byte{176, 1, 1}))
	}
	if out.MessageType() != dhcpv4.MessageTypeOffer || err != nil {
		s.report(p, c, address, file, err)
	}
}

// newReply begins an answer.
func (s *Server) newReply(p *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	out := &dhcpv4.DHCPv4{
		ClientIPAddr: net.IPv4zero, YourIPAddr: net.IPv4zero, ServerIPAddr: s.o.Server.AsSlice(), GatewayIPAddr: p.GatewayIPAddr, Options: dhcpv4.Options{},
	}
	dhcpv4.WithReply(p)(out)
	dhcpv4.WithMessageType(kind)(out)
	dhcpv4.WithOptionCopied(p, dhcpv4.OptionRelayAgentInformation)(out)
	// RFC 6842 for the first; PXE 2.1, table 2-4, for the second, without which firmware drops the answer.
	dhcpv4.WithOptionCopied(p, dhcpv4.OptionClientIdentifier)(out)
	dhcpv4.WithOptionCopied(p, dhcpv4.OptionClientMachineIdentifier)(out)
	out.UpdateOption(dhcpv4.OptServerIdentifier(s.o.Server.AsSlice()))
	if p.MessageType() == dhcpv4.MessageTypeInform {
		out.ClientIPAddr = p.ClientIPAddr
	}
	return out
}

// tell adds what every machine of the network is told.
func (s *Server) tell(out *dhcpv4.DHCPv4, hostname string) {
	n := s.o.Network
	out.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(n.Subnet.Bits(), 32)))
	for code, list := range map[dhcpv4.OptionCode][]netip.Addr{
		dhcpv4.OptionRouter: n.Routers, dhcpv4.OptionDomainNameServer: n.DNS, dhcpv4.OptionNTPServers: n.NTP,
	} {
		var all []byte
		for _, a := range list {
			if a.Is4() && len(all) < 64 {
				all = append(all, a.AsSlice()...)
			}
		}
		if all != nil {
			out.UpdateOption(dhcpv4.OptGeneric(code, all))
		}
	}
	if n.Domain != "" {
		out.UpdateOption(dhcpv4.OptDomainName(n.Domain))
	}
	if hostname != "" {
		out.UpdateOption(dhcpv4.OptHostName(hostname))
	}
}

// fill adds what the client is to load, and returns it.
func (s *Server) fill(out *dhcpv4.DHCPv4, c client) (string, error) {
	b := s.o.Boot
	if c.kind == http {
		if c.arch != archHTTPx64 {
			return "", fmt.Errorf("the image is for 64-bit x86, and the firmware says that it is of architecture %d (RFC 4578)", c.arch)
		}
		// UEFI 2.10, section 24.7.3.1: the answer has the class of the question, and the URL in option 67.
		out.UpdateOption(dhcpv4.OptClassIdentifier(classHTTP))
		out.UpdateOption(dhcpv4.OptBootFileName(b.UKI))
		return b.UKI, nil
	}
	if c.ipxe && c.capable() {
		out.BootFileName = b.Script
		out.UpdateOption(dhcpv4.OptBootFileName(b.Script))
		return b.Script, nil
	}
	file := ""
	switch c.arch {
	case archBIOS:
		file = b.BIOS
	case archUEFI, archUEFIbc:
		file = b.UEFI
	default:
		return "", fmt.Errorf("the image is for 64-bit x86, and the firmware says that it is of architecture %d (RFC 4578)", c.arch)
	}
	if file == "" {
		return "", errors.New("this firmware loads by TFTP alone, which is switched off")
	}
	// In the header only: some ROMs take a byte after option 67 for a part of it.
	out.BootFileName = file
	return file, nil
}

func (s *Server) report(p *dhcpv4.DHCPv4, c client, address netip.Addr, file string, err error) {
	if s.o.Report == nil || c.kind == other && err == nil {
		return
	}
	e := Event{MAC: slices.Clone(p.ClientHWAddr), UUIDs: c.uuids, Address: address, Client: c.String(), Loads: file}
	if err != nil {
		e.Loads, e.Problem = "", err.Error()
	}
	s.o.Report(e)
}

// Classes that network boot goes by (option 60).
const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
)

// optionIPXE holds iPXE's own options.
const optionIPXE = 175

// Architectures of RFC 4578 and the IANA registry "Processor Architecture Types".
const (
	archBIOS    = 0
	archUEFIbc  = 7 // what nearly all x86-64 firmware says
	archUEFI    = 9
	archHTTPx64 = 16
)

// Kinds of clients.
const (
	other = iota // does not boot from the network, or has done so
	pxe
	http
)

// client is what is known of who asks.
type client struct {
	kind int
	arch int
	// ipxe says that iPXE asks, and features which of its options 175.x it has.
	ipxe     bool
	features map[byte]bool
	uuids    []string
}

func recognise(p *dhcpv4.DHCPv4) client {
	c := client{arch: -1, uuids: machineUUIDs(p.GetOneOption(dhcpv4.OptionClientMachineIdentifier))}
	class := p.ClassIdentifier()
	switch {
	case strings.HasPrefix(class, classPXE):
		c.kind = pxe
	case strings.HasPrefix(class, classHTTP):
		c.kind = http
	}
	if list := p.ClientArch(); len(list) > 0 {
		c.arch = int(list[0])
	} else {
		c.arch = archOf(class)
	}
	// iPXE writes the user class as one text, without the lengths that RFC 3004 wants.
	user := p.GetOneOption(dhcpv4.OptionUserClassInformation)
	c.ipxe = string(user) == "iPXE" || slices.Contains(p.UserClass(), "iPXE")
	if c.ipxe {
		c.features = ipxeFeatures(p.GetOneOption(dhcpv4.GenericOptionCode(optionIPXE)))
	}
	return c
}

// archOf reads the architecture out of a class such as PXEClient:Arch:00007:UNDI:003016; -1 when it is not there.
func archOf(class string) int {
	_, rest, _ := strings.Cut(class, ":Arch:")
	n, err := strconv.ParseUint(rest[:min(len(rest), 5)], 10, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// iPXE's feature options (src/include/ipxe/features.h).
const (
	featureHTTP    = 19
	featureBzImage = 24
	featureEFI     = 36
)

// ipxeFeatures reads the encapsulated options: code, length, value.
func ipxeFeatures(b []byte) map[byte]bool {
	out := map[byte]bool{}
	for len(b) >= 2 && b[0] != 255 {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		n := int(b[1])
		if len(b) < 2+n {
			break
		}
		out[b[0]] = n > 0 && !bytes.Equal(b[2:2+n], make([]byte, n))
		b = b[2+n:]
	}
	return out
}

// capable tells whether this iPXE can load the image; one in a card's ROM may have been built without HTTP.
func (c client) capable() bool {
	if c.arch == archBIOS {
		return c.features[featureHTTP] && c.features[featureBzImage]
	}
	return c.features[featureHTTP] && c.features[featureEFI]
}

func (c client) String() string {
	switch {
	case c.kind == http && c.arch == archHTTPx64:
		return "UEFI HTTP boot"
	case c.kind == http:
		return "HTTP boot"
	case c.ipxe:
		return "iPXE"
	case c.kind == pxe && c.arch == archBIOS:
		return "BIOS PXE"
	case c.kind == pxe:
		return "UEFI PXE"
	}
	return "DHCP"
}

// machineUUIDs reads option 97: a zero byte and 16 more. Whether the first three fields have their bytes in the order of SMBIOS or
// of RFC 9562 depends on the firmware, so both forms are candidates.
func machineUUIDs(b []byte) []string {
	if len(b) != 17 || b[0] != 0 {
		return nil
	}
	text := func(u []byte) string {
		h := hex.EncodeToString(u)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	u := slices.Clone(b[1:])
	plain := text(u)
	slices.Reverse(u[:4])
	slices.Reverse(u[4:6])
	slices.Reverse(u[6:8])
	return []string{text(u), plain}
}
