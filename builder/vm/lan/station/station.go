// Package station is a computer on the network of a rehearsal that has no machine: the TCP/IP of gVisor (pkg/tcpip) in
// this process, on a cable of package lan. It is a neighbour of the nodes like any other, so that it reaches all of
// their addresses, those that move from one to another too, and hears when a node refuses.
//
// It opens TCP connections over IPv4 and answers ARP and pings. It listens on nothing, forwards nothing, and knows no
// VLAN.
package station

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"spore/builder/vm/lan"
)

const (
	// card is the number of the station's only card.
	card = tcpip.NICID(1)
	// frameSize is that of the nodes' cards: 1500 bytes behind a header.
	frameSize = 1500 + header.EthernetMinimumSize
	// probeAfter, probeEvery and probes end a connection two minutes after the last answer.
	probeAfter, probeEvery, probes = time.Minute, 15 * time.Second, 4
	// queued is how many frames wait for the cable.
	queued = 512
)

// Config says who the station is on its network.
type Config struct {
	// Dir is the folder of the network (lan.Join), Name that of the cable's end.
	Dir, Name string
	// Address is the station's, with the prefix of the network, and MAC that of its card. Nobody else has them.
	Address netip.Prefix
	MAC     net.HardwareAddr
}

// Station is a station that is plugged in.
type Station struct {
	stack *stack.Stack
	cable *lan.Cable
}

// Start plugs a station in until the context ends.
func Start(ctx context.Context, c Config) (*Station, error) {
	if !c.Address.Addr().Is4() {
		return nil, fmt.Errorf("internal error: a station at %s, which is not an IPv4 address", c.Address)
	}
	cable, err := lan.Plug(c.Dir, c.Name)
	if err != nil {
		return nil, err
	}
	wire := channel.New(queued, frameSize, tcpip.LinkAddress(c.MAC))
	s := &Station{cable: cable, stack: stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, icmp.NewProtocol4},
		NUDConfigs:         neighbours(),
	})}
	if err := s.configure(wire, c.Address); err != nil {
		cable.Close()
		s.stack.Destroy()
		return nil, err
	}
	go send(ctx, wire, cable)
	go s.receive(wire)
	context.AfterFunc(ctx, func() {
		cable.Close()
		s.stack.Destroy()
	})
	return s, nil
}

// configure gives the card its address. Whatever is asked for is a neighbour: nodes may have addresses of other
// networks, which no router leads to here.
func (s *Station) configure(wire *channel.Endpoint, address netip.Prefix) error {
	if err := s.stack.CreateNIC(card, ethernet.New(wire)); err != nil {
		return fmt.Errorf("make a card: %s", err)
	}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddressWithPrefix{
		Address: tcpip.AddrFrom4(address.Addr().As4()), PrefixLen: address.Bits(),
	}}
	if err := s.stack.AddProtocolAddress(card, own, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("give the card the address %s: %s", address, err)
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: card}})
	return nil
}

// send puts what the card sends on the cable.
func send(ctx context.Context, wire *channel.Endpoint, cable *lan.Cable) {
	for {
		packet := wire.ReadContext(ctx)
		if packet == nil {
			return
		}
		view := packet.ToView()
		cable.Send(view.AsSlice())
		view.Release()
		packet.DecRef()
	}
}

// receive gives the card what comes by the cable, until that is closed.
func (s *Station) receive(wire *channel.Endpoint) {
	for frame := make([]byte, 64<<10); ; {
		n, err := s.cable.Receive(frame)
		if err != nil {
			return
		}
		if moved, ok := announced(frame[:n]); ok {
			// The next connection asks who has it. The stack itself takes no announcement that nobody asked for
			// (pkg/tcpip/network/arp), and an address that nothing was sent to is no neighbour yet.
			_ = s.stack.RemoveNeighbor(card, ipv4.ProtocolNumber, tcpip.AddrFrom4(moved))
		}
		packet := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame[:n])})
		wire.InjectInbound(0, packet)
		packet.DecRef()
	}
}

// announced is the address that an ARP announcement is about: sender and target are the same (RFC 5227, 3).
func announced(frame []byte) (address [4]byte, ok bool) {
	if len(frame) < header.EthernetMinimumSize || header.Ethernet(frame).Type() != header.ARPProtocolNumber {
		return address, false
	}
	arp := header.ARP(frame[header.EthernetMinimumSize:])
	if !arp.IsValid() {
		return address, false
	}
	copy(address[:], arp.ProtocolAddressSender())
	return address, [4]byte(arp.ProtocolAddressTarget()) == address
}

// neighbours are the times of the table of neighbours (RFC 4861, 10), shorter than usual: an announcement may be lost.
func neighbours() stack.NUDConfigurations {
	c := stack.DefaultNUDConfigurations()
	c.BaseReachableTime, c.DelayFirstProbeTime = 5*time.Second, time.Second
	return c
}

// Dial opens a TCP connection. A node that refuses, and an address that nobody answers for, are the errors that they
// are on the host (syscall.ECONNREFUSED, EHOSTUNREACH).
func (s *Station) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if !to.Addr().Unmap().Is4() {
		return nil, fmt.Errorf("connect to %s: %w", to, syscall.EAFNOSUPPORT)
	}
	conn, err := s.connect(ctx, tcpip.FullAddress{NIC: card, Addr: tcpip.AddrFrom4(to.Addr().Unmap().As4()), Port: to.Port()})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return conn, nil
}

// connect is gonet.DialContextTCP, which keeps the text of errors alone, with probes of connections that are idle: a
// machine whose power was cut tells nobody.
func (s *Station) connect(ctx context.Context, to tcpip.FullAddress) (net.Conn, error) {
	var queue waiter.Queue
	end, err := s.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &queue)
	if err != nil {
		return nil, meaning(err)
	}
	end.SocketOptions().SetKeepAlive(true)
	idle, between := tcpip.KeepaliveIdleOption(probeAfter), tcpip.KeepaliveIntervalOption(probeEvery)
	if err := errors.Join(meaning(end.SetSockOpt(&idle)), meaning(end.SetSockOpt(&between)), meaning(end.SetSockOptInt(tcpip.KeepaliveCountOption, probes))); err != nil {
		end.Close()
		return nil, err
	}
	entry, done := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventErr | waiter.EventHUp)
	queue.EventRegister(&entry)
	defer queue.EventUnregister(&entry)
	err = end.Connect(to)
	if _, begun := err.(*tcpip.ErrConnectStarted); begun {
		select {
		case <-ctx.Done():
			end.Close()
			return nil, context.Cause(ctx)
		case <-done:
			err = end.LastError()
		}
	}
	if err != nil {
		end.Close()
		return nil, meaning(err)
	}
	return gonet.NewTCPConn(&queue, end), nil
}

// meaning is an error of the stack as the host has it.
func meaning(err tcpip.Error) error {
	switch err.(type) {
	case nil:
		return nil
	case *tcpip.ErrConnectionRefused:
		return syscall.ECONNREFUSED
	case *tcpip.ErrHostUnreachable:
		return syscall.EHOSTUNREACH
	case *tcpip.ErrNetworkUnreachable:
		return syscall.ENETUNREACH
	case *tcpip.ErrTimeout:
		return syscall.ETIMEDOUT
	case *tcpip.ErrConnectionReset:
		return syscall.ECONNRESET
	}
	return errors.New(err.String())
}
