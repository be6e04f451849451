package pcapfilter

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
)

// Numbers of protocols (IANA, EtherType and Protocol Numbers).
const (
	etherIP4 = 0x0800
	etherARP = 0x0806
	etherIP6 = 0x86dd

	icmp         = 1
	tcp          = 6
	udp          = 17
	fragment6    = 44
	icmp6        = 58
	sctp         = 132
	fragmentMask = 0x1fff
)

// node is a part of an expression. gen puts its code before that which is there already, and returns where it begins.
type node interface {
	gen(p *program, yes, no label) (label, error)
}

type (
	and struct{ left, right node }
	or  struct{ left, right node }
	not struct{ of node }
	// vlan asks for a tag, and for its number unless that is negative.
	vlan struct{ number int }
	// etherType asks for the protocol of the frame.
	etherType struct{ want uint32 }
	// field compares size bytes at an offset with a value: from the beginning of the frame, of the network's header, or of
	// what follows an IPv4 header.
	field struct {
		base       base
		at         uint32
		size       int
		mask       uint32 // 0 is all of it.
		least, top uint32
	}
	base int
)

const (
	ofFrame base = iota
	ofNetwork
	ofTransport4
)

func (n and) gen(p *program, yes, no label) (label, error) {
	right, err := n.right.gen(p, yes, no)
	if err != nil {
		return 0, err
	}
	return n.left.gen(p, right, no)
}

func (n or) gen(p *program, yes, no label) (label, error) {
	right, err := n.right.gen(p, yes, no)
	if err != nil {
		return 0, err
	}
	return n.left.gen(p, yes, right)
}

func (n not) gen(p *program, yes, no label) (label, error) { return n.of.gen(p, no, yes) }

func (n vlan) gen(p *program, yes, no label) (label, error) {
	if n.number >= 0 {
		p.jump(bpf.JumpEqual, uint32(n.number), yes, no)
		p.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xfff}) // IEEE 802.1Q, 9.6: the lower 12 bits are the VID.
		yes = p.emit(bpf.LoadExtension{Num: bpf.ExtVLANTag})
	}
	p.jump(bpf.JumpNotEqual, 0, yes, no)
	return p.emit(bpf.LoadExtension{Num: bpf.ExtVLANTagPresent}), nil
}

func (n etherType) gen(p *program, yes, no label) (label, error) {
	p.jump(bpf.JumpEqual, n.want, yes, no)
	if p.link == Ethernet {
		return p.emit(bpf.LoadAbsolute{Off: 12, Size: 2}), nil
	}
	return p.emit(bpf.LoadExtension{Num: bpf.ExtProto}), nil
}

func (n field) gen(p *program, yes, no label) (label, error) {
	if n.base == ofFrame && p.link != Ethernet {
		return 0, fmt.Errorf("ether is for interfaces with Ethernet frames; capture on one of them")
	}
	if n.least == n.top {
		p.jump(bpf.JumpEqual, n.least, yes, no)
	} else {
		high := p.jump(bpf.JumpLessOrEqual, n.top, yes, no)
		p.jump(bpf.JumpGreaterOrEqual, n.least, high, no)
	}
	if n.mask != 0 {
		p.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: n.mask})
	}
	network := uint32(0)
	if p.link == Ethernet {
		network = 14
	}
	switch n.base {
	case ofTransport4:
		p.emit(bpf.LoadIndirect{Off: network + n.at, Size: n.size})
		return p.emit(bpf.LoadMemShift{Off: network}), nil
	case ofNetwork:
		return p.emit(bpf.LoadAbsolute{Off: network + n.at, Size: n.size}), nil
	}
	return p.emit(bpf.LoadAbsolute{Off: n.at, Size: n.size}), nil
}

// is compares size bytes at an offset of the network's header.
func is(at uint32, size int, want uint32) node {
	return field{base: ofNetwork, at: at, size: size, least: want, top: want}
}

// anyOf joins nodes by or, and allOf by and.
func anyOf(nodes ...node) node {
	out := nodes[0]
	for _, n := range nodes[1:] {
		out = or{out, n}
	}
	return out
}

func allOf(nodes ...node) node {
	out := nodes[0]
	for _, n := range nodes[1:] {
		out = and{out, n}
	}
	return out
}

// transport is a protocol's word alone.
func transport(protocol string) node {
	ip4 := func(number uint32) node { return allOf(etherType{etherIP4}, is(9, 1, number)) }
	// The next header of the first or of the fragment's header (RFC 8200, sections 3 and 4.5).
	ip6 := func(number uint32) node {
		return allOf(etherType{etherIP6}, anyOf(is(6, 1, number), allOf(is(6, 1, fragment6), is(40, 1, number))))
	}
	switch protocol {
	case "ip":
		return etherType{etherIP4}
	case "ip6":
		return etherType{etherIP6}
	case "arp":
		return etherType{etherARP}
	case "icmp":
		return ip4(icmp)
	case "icmp6":
		return ip6(icmp6)
	}
	number := map[string]uint32{"tcp": tcp, "udp": udp, "sctp": sctp}[protocol]
	return anyOf(ip4(number), ip6(number))
}

// ports is a port or a range, of the source, of the destination or of either.
func ports(protocols []uint32, direction string, first, last uint32) node {
	at := func(b base, offset uint32) (out []node) {
		for _, d := range []struct {
			name string
			at   uint32
		}{{"src", 0}, {"dst", 2}} {
			if direction == "" || direction == d.name {
				out = append(out, field{base: b, at: offset + d.at, size: 2, least: first, top: last})
			}
		}
		return out
	}
	var numbers4, numbers6 []node
	for _, n := range protocols {
		numbers4, numbers6 = append(numbers4, is(9, 1, n)), append(numbers6, is(6, 1, n))
	}
	return anyOf(
		allOf(etherType{etherIP4}, anyOf(numbers4...),
			field{base: ofNetwork, at: 6, size: 2, mask: fragmentMask}, anyOf(at(ofTransport4, 0)...)),
		allOf(etherType{etherIP6}, anyOf(numbers6...), anyOf(at(ofNetwork, 40)...)),
	)
}

// place is where a protocol has the addresses of source and destination, from the network's header on: RFC 791, section
// 3.1; RFC 826; RFC 8200, section 3.
type place struct {
	etherType, src, dst uint32
}

// addresses is an address or a network.
func addresses(protocol, direction string, p netip.Prefix) (node, error) {
	places := map[string]place{"ip": {etherIP4, 12, 16}, "arp": {etherARP, 14, 24}}
	if p.Addr().Is6() {
		places = map[string]place{"ip6": {etherIP6, 8, 24}}
	}
	var out []node
	for _, name := range []string{"ip", "arp", "ip6"} {
		at, ok := places[name]
		if !ok || protocol != "" && protocol != name {
			continue
		}
		var ends []node
		if direction != "dst" {
			ends = append(ends, within(at.src, p))
		}
		if direction != "src" {
			ends = append(ends, within(at.dst, p))
		}
		out = append(out, allOf(etherType{at.etherType}, anyOf(ends...)))
	}
	if out == nil {
		return nil, fmt.Errorf("%s has no address such as %s", protocol, p.Addr())
	}
	return anyOf(out...), nil
}

// within compares an address, 32 bits at a time.
func within(at uint32, p netip.Prefix) node {
	var out []node
	b := p.Addr().AsSlice()
	for i := 0; i < len(b); i += 4 {
		bits := min(32, max(0, p.Bits()-8*i))
		if bits == 0 && i > 0 {
			break
		}
		// With a mask of no bits the word is loaded all the same, so that a frame without it does not match.
		mask := ^uint32(0) << (32 - bits)
		want := binary.BigEndian.Uint32(b[i:])
		f := field{base: ofNetwork, at: at + uint32(i), size: 4, mask: mask, least: want, top: want}
		if bits == 0 {
			f.mask, f.least, f.top = 0, 0, ^uint32(0)
		}
		out = append(out, f)
	}
	return allOf(out...)
}

// station is a MAC.
func station(direction string, mac [6]byte) node {
	at := func(offset uint32) node {
		high, low := binary.BigEndian.Uint32(mac[:]), uint32(binary.BigEndian.Uint16(mac[4:]))
		return allOf(field{base: ofFrame, at: offset, size: 4, least: high, top: high},
			field{base: ofFrame, at: offset + 4, size: 2, least: low, top: low})
	}
	switch direction {
	case "src":
		return at(6)
	case "dst":
		return at(0)
	}
	return anyOf(at(6), at(0))
}
