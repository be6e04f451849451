package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"spore/wire/machine"
)

// buffer is how much the kernel keeps of what was not read yet, in bytes. The kernel doubles it for its own records.
const buffer = 8 << 20

// link is where packets are taken: one interface, or all.
type link struct {
	name string
	// index is 0 for all.
	index int
	// framed says that packets have an Ethernet header. Those of others get Linux's own.
	framed   bool
	loopback bool
}

// kind is what begins a packet that the caller is given.
func (l link) kind() int {
	if l.framed {
		return machine.LinkEthernet
	}
	return machine.LinkCooked
}

// choose finds the interface: the one that was named, else that of the node's first address, else that of a default
// route.
func choose(name string, ips []string) (link, error) {
	if name == machine.Every {
		return link{name: name}, nil
	}
	var l netlink.Link
	var err error
	if name != "" {
		if l, err = netlink.LinkByName(name); err != nil {
			return link{}, fmt.Errorf("there is no interface %s: %w", name, err)
		}
	} else if l, err = usual(ips); err != nil {
		return link{}, err
	}
	a := l.Attrs()
	loopback := a.RawFlags&unix.IFF_LOOPBACK != 0
	return link{name: a.Name, index: a.Index, framed: a.EncapType == "ether" || loopback, loopback: loopback}, nil
}

func usual(ips []string) (netlink.Link, error) {
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, text := range ips {
		want, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if got, ok := netip.AddrFromSlice(a.IP); ok && got.Unmap() == want {
				return netlink.LinkByIndex(a.LinkIndex)
			}
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	best := -1
	for i, r := range routes {
		everywhere := r.Dst == nil || r.Dst.IP.IsUnspecified()
		if everywhere && r.LinkIndex > 0 && (best < 0 || r.Priority < routes[best].Priority) {
			best = i
		}
	}
	if best < 0 {
		return nil, errNoInterface
	}
	return netlink.LinkByIndex(routes[best].LinkIndex)
}

// socket is a packet(7) socket.
type socket struct {
	fd           int
	link         link
	data, oob    []byte
	droppedSoFar uint64
}

// open opens a socket that has its filter before the first packet comes.
func open(l link, code []bpf.RawInstruction) (*socket, error) {
	kind := unix.SOCK_DGRAM
	if l.framed {
		kind = unix.SOCK_RAW
	}
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC, 0) // Of protocol 0 nothing comes.
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, link: l, data: make([]byte, machine.MaxSnap+64), oob: make([]byte, 256)}
	if err := s.prepare(code); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *socket) prepare(code []bpf.RawInstruction) error {
	filter := make([]unix.SockFilter, 0, len(code))
	for _, i := range code {
		filter = append(filter, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) // As much as there is without the right.
	}
	return errors.Join(
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: s.link.index}),
	)
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// dropped adds what the kernel counts since it was asked last.
func (s *socket) dropped() (uint64, error) {
	stats, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("ask what was dropped: %w", err)
	}
	s.droppedSoFar += uint64(stats.Drops)
	return s.droppedSoFar, nil
}

// next reads a packet, or waits for one for a tenth of a second.
func (s *socket) next() (machine.Packet, bool, error) {
	n, oobn, _, from, err := unix.Recvmsg(s.fd, s.data, s.oob, 0)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return machine.Packet{}, false, nil
	case errors.Is(err, unix.ENETDOWN): // The interface went down; it can come back.
		return machine.Packet{}, false, nil
	case err != nil:
		return machine.Packet{}, false, err
	}
	at, ok := from.(*unix.SockaddrLinklayer)
	if !ok {
		return machine.Packet{}, false, errors.New("internal error: a packet without a link")
	}
	if s.link.loopback && at.Pkttype == unix.PACKET_OUTGOING { // It comes in as well.
		return machine.Packet{}, false, nil
	}
	p, err := s.packet(s.data[:n], s.oob[:oobn], at)
	return p, err == nil, err
}

// packet makes of what was read what stands in a file: with the tag of its VLAN in its place, or with Linux's header.
func (s *socket) packet(data, oob []byte, at *unix.SockaddrLinklayer) (machine.Packet, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return machine.Packet{}, fmt.Errorf("internal error: %w", err)
	}
	p := machine.Packet{At: time.Now().UnixNano(), Length: len(data)} // The time is the kernel's where it gives one.
	var tag []byte
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			p.At = (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			a := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			p.Length = max(p.Length, int(a.Len))
			tag = tagOf(a)
		}
	}
	switch {
	case !s.link.framed:
		p.Data = append(cooked(at), data...)
		p.Length += len(p.Data) - len(data)
	case tag != nil && len(data) >= 12:
		p.Data = append(append(append(make([]byte, 0, len(data)+4), data[:12]...), tag...), data[12:]...)
		p.Length += 4
	default:
		p.Data = append([]byte(nil), data...)
	}
	return p, nil
}

// tagOf is the tag that the kernel took out of a frame (IEEE 802.1Q, 9.6); nil when there was none.
func tagOf(a *unix.TpacketAuxdata) []byte {
	if a.Status&unix.TP_STATUS_VLAN_VALID == 0 {
		return nil
	}
	kind := uint16(unix.ETH_P_8021Q)
	if a.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		kind = a.Vlan_tpid
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), a.Vlan_tci)
}

// cooked is Linux's header in place of a link's (LINKTYPE_LINUX_SLL of tcpdump.org).
func cooked(at *unix.SockaddrLinklayer) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint16(b, uint16(at.Pkttype))
	binary.BigEndian.PutUint16(b[2:], at.Hatype)
	binary.BigEndian.PutUint16(b[4:], min(uint16(at.Halen), 8))
	copy(b[6:14], at.Addr[:])
	binary.BigEndian.PutUint16(b[14:], networkOrder(at.Protocol))
	return b
}

// networkOrder turns a number of 16 bits between the machine's order of bytes and the network's.
func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}
