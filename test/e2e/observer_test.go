//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/builder/vm/lan"
)

// observerIP and observerMAC are those of the observer on the machines' network.
var (
	observerIP  = net.IPv4(10, 77, 0, 4).To4()
	observerMAC = net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 0x04}
)

// observer is the network of a test's machines, and a machine on it, as a part of the test. As the network it is a switch:
// frames come and go in UDP datagrams, one socket for each plug. As a machine it is the nameserver of the nodes, whose
// answer to every foreign name is its own address, and a host that refuses every connection and remembers it. So no node
// can ask a registry for anything without being seen, and the test needs neither privilege nor the internet.
type observer struct {
	mu      sync.Mutex
	plugs   []*plug
	at      map[string]*plug // by MAC
	asked   []string
	knocked []string
}

// plug is where a machine is plugged in.
type plug struct {
	read func(frame []byte) (int, error)
	// send gives a frame to the machine; one that is off hears nothing.
	send func(frame []byte)
}

func newObserver() *observer { return &observer{at: map[string]*plug{}} }

// plug returns the machine's end of a new cable.
func (o *observer) plug(t *testing.T) vm.Link {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	peer := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: udpPort(t)}
	o.add(&plug{conn.Read, func(frame []byte) { _, _ = conn.WriteTo(frame, peer) }})
	return vm.Link{Own: peer.Port, Peer: conn.LocalAddr().(*net.UDPAddr).Port}
}

// join joins the network with that of a folder (package lan) until the test ends.
func (o *observer) join(t *testing.T, dir string) {
	t.Helper()
	cable, err := lan.Plug(dir, "observer")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cable.Close()) })
	o.add(&plug{cable.Receive, cable.Send})
}

func (o *observer) add(p *plug) {
	o.mu.Lock()
	o.plugs = append(o.plugs, p)
	o.mu.Unlock()
	go o.serve(p)
}

// udpPort is a port that was free just now.
func udpPort(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// serve takes the frames of a plug until the test ends.
func (o *observer) serve(from *plug) {
	frame := make([]byte, 64<<10)
	for {
		n, err := from.read(frame)
		if err != nil {
			return
		}
		if n < 14 { // the header of Ethernet
			continue
		}
		to, all := net.HardwareAddr(frame[:6]), frame[0]&1 == 1
		if all || bytes.Equal(to, observerMAC) {
			if answer := o.answer(gopacket.NewPacket(frame[:n], layers.LayerTypeEthernet, gopacket.Default)); answer != nil {
				from.send(answer)
			}
		}
		for _, p := range o.targets(from, to, net.HardwareAddr(frame[6:12]).String(), all) {
			p.send(frame[:n])
		}
	}
}

// targets are the plugs that a frame goes to: the one that its destination was last heard from, else all others.
func (o *observer) targets(from *plug, to net.HardwareAddr, source string, all bool) []*plug {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at[source] = from
	if bytes.Equal(to, observerMAC) {
		return nil
	}
	if p := o.at[to.String()]; p != nil && !all {
		if p == from {
			return nil
		}
		return []*plug{p}
	}
	var out []*plug
	for _, p := range o.plugs {
		if p != from {
			out = append(out, p)
		}
	}
	return out
}

// answer is the frame that is sent back; nil for what is not the observer's.
func (o *observer) answer(p gopacket.Packet) []byte {
	eth, ok := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if !ok {
		return nil
	}
	back := &layers.Ethernet{SrcMAC: observerMAC, DstMAC: eth.SrcMAC, EthernetType: eth.EthernetType}
	if arp, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok {
		if arp.Operation != layers.ARPRequest || !net.IP(arp.DstProtAddress).Equal(observerIP) {
			return nil
		}
		return frameOf(back, &layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPReply,
			SourceHwAddress: observerMAC, SourceProtAddress: observerIP, DstHwAddress: arp.SourceHwAddress, DstProtAddress: arp.SourceProtAddress,
		})
	}
	ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	if !ok || !ip.DstIP.Equal(observerIP) {
		return nil
	}
	ipBack := &layers.IPv4{Version: 4, TTL: 64, Protocol: ip.Protocol, SrcIP: observerIP, DstIP: ip.SrcIP}
	if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && udp.DstPort == 53 {
		reply := o.resolve(udp.Payload)
		if reply == nil {
			return nil
		}
		udpBack := &layers.UDP{SrcPort: udp.DstPort, DstPort: udp.SrcPort}
		_ = udpBack.SetNetworkLayerForChecksum(ipBack) // IPv4 is one
		return frameOf(back, ipBack, udpBack, gopacket.Payload(reply))
	}
	if tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP); ok && tcp.SYN && !tcp.ACK {
		o.mu.Lock()
		o.knocked = append(o.knocked, fmt.Sprintf("%s to port %d", ip.SrcIP, tcp.DstPort))
		o.mu.Unlock()
		tcpBack := &layers.TCP{SrcPort: tcp.DstPort, DstPort: tcp.SrcPort, RST: true, ACK: true, Ack: tcp.Seq + 1}
		_ = tcpBack.SetNetworkLayerForChecksum(ipBack)
		return frameOf(back, ipBack, tcpBack)
	}
	return nil
}

func frameOf(all ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		return nil
	}
	return b.Bytes()
}

// resolve answers a question for the IPv4 address of a foreign name with the observer's own, and any other with nothing.
func (o *observer) resolve(question []byte) []byte {
	var q dns.Msg
	if err := q.Unpack(question); err != nil || len(q.Question) != 1 {
		return nil
	}
	name := q.Question[0].Name
	o.mu.Lock()
	o.asked = append(o.asked, name)
	o.mu.Unlock()
	r := new(dns.Msg)
	r.SetReply(&q)
	switch {
	case dns.IsSubDomain(labDomain, name): // pods look in it for every name
		r.Rcode = dns.RcodeNameError
	case q.Question[0].Qtype == dns.TypeA:
		r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}, A: observerIP}}
	}
	data, err := r.Pack()
	if err != nil {
		return nil
	}
	return data
}

// connections are those that were tried so far.
func (o *observer) connections() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.knocked...)
}

// forget forgets the connections.
func (o *observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.knocked = nil
}

// names are those that were asked for so far.
func (o *observer) names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.asked...)
}

// The observer without machines: an ARP request, a question and a connection come over its link.
func TestTheObserverAnswersAndSees(t *testing.T) {
	o := newObserver()
	link := o.plug(t)
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: link.Own}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: link.Peer})
	require.NoError(t, err)
	defer conn.Close()
	mac, ip := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.IPv4(10, 77, 0, 9).To4()
	ask := func(all ...gopacket.SerializableLayer) gopacket.Packet {
		_, err := conn.Write(frameOf(all...))
		require.NoError(t, err)
		buf := make([]byte, 2048)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return gopacket.NewPacket(buf[:n], layers.LayerTypeEthernet, gopacket.Default)
	}
	to := &layers.Ethernet{SrcMAC: mac, DstMAC: observerMAC, EthernetType: layers.EthernetTypeIPv4}
	p := ask(&layers.Ethernet{SrcMAC: mac, DstMAC: layers.EthernetBroadcast, EthernetType: layers.EthernetTypeARP}, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
		SourceHwAddress: mac, SourceProtAddress: ip, DstHwAddress: make([]byte, 6), DstProtAddress: observerIP,
	})
	require.EqualValues(t, observerMAC, p.Layer(layers.LayerTypeARP).(*layers.ARP).SourceHwAddress)

	question, err := new(dns.Msg).SetQuestion("registry.example.", dns.TypeA).Pack()
	require.NoError(t, err)
	header := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: ip, DstIP: observerIP}
	udp := &layers.UDP{SrcPort: 5353, DstPort: 53}
	require.NoError(t, udp.SetNetworkLayerForChecksum(header))
	var answer dns.Msg
	require.NoError(t, answer.Unpack(ask(to, header, udp, gopacket.Payload(question)).Layer(layers.LayerTypeUDP).(*layers.UDP).Payload))
	require.Equal(t, observerIP, answer.Answer[0].(*dns.A).A.To4())
	require.Equal(t, []string{"registry.example."}, o.names())

	header = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: ip, DstIP: observerIP}
	tcp := &layers.TCP{SrcPort: 999, DstPort: 443, SYN: true, Seq: 7}
	require.NoError(t, tcp.SetNetworkLayerForChecksum(header))
	require.True(t, ask(to, header, tcp).Layer(layers.LayerTypeTCP).(*layers.TCP).RST)
	require.Equal(t, []string{"10.77.0.9 to port 443"}, o.connections())
}

// Two machines that have heard of each other speak with nobody listening.
func TestTheObserverIsASwitch(t *testing.T) {
	o := newObserver()
	machine := func() *net.UDPConn {
		link := o.plug(t)
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: link.Own}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: link.Peer})
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	a, b, c := machine(), machine(), machine()
	frame := func(to, from byte) []byte {
		return append([]byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5}, "payload"...)
	}
	hears := func(conn *net.UDPConn, want []byte) {
		t.Helper()
		got := make([]byte, 100)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, err := conn.Read(got)
		require.NoError(t, err)
		require.Equal(t, want, got[:n])
	}
	send := func(conn *net.UDPConn, frame []byte) {
		t.Helper()
		_, err := conn.Write(frame)
		require.NoError(t, err)
	}
	send(a, frame('b', 'a')) // to somebody unknown: all hear it
	hears(b, frame('b', 'a'))
	hears(c, frame('b', 'a'))
	send(b, frame('a', 'b'))
	hears(a, frame('a', 'b'))
	send(a, frame('b', 'a'))
	hears(b, frame('b', 'a'))
	send(b, frame('c', 'b')) // the next that c hears
	hears(c, frame('c', 'b'))
}
