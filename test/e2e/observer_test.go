//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// observerIP and observerMAC are those of the observer on the machines' network.
var (
	observerIP  = net.IPv4(10, 77, 0, 4).To4()
	observerMAC = net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, 0x04}
)

// observer is a machine of the network that is a part of the test: the nameserver of the nodes, whose answer to every
// foreign name is its own address, and a host that refuses every connection and remembers it. So no node can ask a
// registry for anything without being seen, and the test needs neither privilege nor the internet.
type observer struct {
	conn *net.UDPConn
	peer *net.UDPAddr

	mu      sync.Mutex
	asked   []string
	knocked []string
}

// newObserver returns the observer and the other end of its link.
func newObserver(t *testing.T) (*observer, vm.Link) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	own, theirs := conn.LocalAddr().(*net.UDPAddr).Port, udpPort(t)
	o := &observer{conn: conn, peer: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: theirs}}
	t.Cleanup(func() { conn.Close() })
	go o.run()
	return o, vm.Link{Own: theirs, Peer: own}
}

// udpPort is a port that was free just now.
func udpPort(t *testing.T) int {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).Port
}

func (o *observer) run() {
	frame := make([]byte, 64<<10)
	for {
		n, err := o.conn.Read(frame)
		if err != nil {
			return // closed with the test
		}
		if answer := o.answer(gopacket.NewPacket(frame[:n], layers.LayerTypeEthernet, gopacket.Default)); answer != nil {
			_, _ = o.conn.WriteTo(answer, o.peer) // a machine that is off hears nothing
		}
	}
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
	o, link := newObserver(t)
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
