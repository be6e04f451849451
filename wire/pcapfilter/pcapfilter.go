// Package pcapfilter compiles a subset of the language of pcap-filter(7) to the instructions of the kernel's packet
// filter (Linux Documentation/networking/filter.rst), without libpcap, which is C. What it takes means what it means
// there:
//
//	ip  ip6  arp  tcp  udp  sctp  icmp  icmp6
//	vlan [NUMBER]
//	[ip|ip6|arp] [src|dst] host ADDRESS
//	[ip|ip6|arp] [src|dst] net PREFIX/LENGTH
//	[tcp|udp|sctp] [src|dst] port NUMBER
//	[tcp|udp|sctp] [src|dst] portrange NUMBER-NUMBER
//	ether [src|dst] host MAC
//	not X   X and Y   X or Y   ( X )   and !  &&  ||
//
// As there, not binds most tightly, and "and" and "or" bind alike and from the left; a port is that of a first
// fragment, and with IPv6 that of a packet without extension headers. Left out are names of hosts and services, a value
// without its keyword ("port 80 or 443"), "src or dst", arithmetic, lengths, RARP and all other protocols. One thing
// differs: "vlan" asks whether the frame came with a tag, and nothing behind it changes.
package pcapfilter

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Bounds of an expression: bytes, depth of parentheses and negations, and primitives.
const (
	MaxText       = 2048
	maxDepth      = 32
	maxPrimitives = 64
)

// Filter is a parsed expression. The zero value takes every packet.
type Filter struct{ root node }

// And takes what both take.
func (f Filter) And(other Filter) Filter {
	switch {
	case f.root == nil:
		return other
	case other.root == nil:
		return f
	}
	return Filter{and{f.root, other.root}}
}

// Parse reads an expression. An empty one takes every packet.
func Parse(text string) (Filter, error) {
	if len(text) > MaxText {
		return Filter{}, fmt.Errorf("a filter has at most %d bytes", MaxText)
	}
	p := parser{words: split(text)}
	if len(p.words) == 0 {
		return Filter{}, nil
	}
	root, err := p.expression(0)
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%.32q is where and, or, or the end of the filter was expected", p.words[0])
	}
	if err != nil {
		return Filter{}, err
	}
	return Filter{root}, nil
}

// split cuts a text into words; parentheses and ! are words of their own.
func split(text string) []string {
	for _, sign := range []string{"(", ")", "!", "&&", "||"} {
		text = strings.ReplaceAll(text, sign, " "+sign+" ")
	}
	return strings.Fields(text)
}

type parser struct {
	words      []string
	primitives int
}

// next takes the next word when it is one of these.
func (p *parser) next(words ...string) string {
	if len(p.words) == 0 {
		return ""
	}
	for _, w := range words {
		if p.words[0] == w {
			p.words = p.words[1:]
			return w
		}
	}
	return ""
}

// value takes the next word, whatever it is.
func (p *parser) value(what string) (string, error) {
	if len(p.words) == 0 {
		return "", fmt.Errorf("the filter ends where %s was expected", what)
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w, nil
}

func (p *parser) expression(depth int) (node, error) {
	left, err := p.term(depth)
	for err == nil {
		var right node
		switch p.next("and", "&&", "or", "||") {
		case "and", "&&":
			if right, err = p.term(depth); err == nil {
				left = and{left, right}
			}
		case "or", "||":
			if right, err = p.term(depth); err == nil {
				left = or{left, right}
			}
		default:
			return left, nil
		}
	}
	return nil, err
}

func (p *parser) term(depth int) (node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("a filter has at most %d parentheses and negations in each other", maxDepth)
	}
	switch p.next("not", "!", "(") {
	case "not", "!":
		of, err := p.term(depth + 1)
		if err != nil {
			return nil, err
		}
		return not{of}, nil
	case "(":
		inner, err := p.expression(depth + 1)
		if err == nil && p.next(")") == "" {
			err = errors.New("a parenthesis of the filter is not closed")
		}
		if err != nil {
			return nil, err
		}
		return inner, nil
	}
	if p.primitives++; p.primitives > maxPrimitives {
		return nil, fmt.Errorf("a filter has at most %d conditions", maxPrimitives)
	}
	return p.primitive()
}

// protocols are the words that begin a primitive or are one.
var protocols = []string{"ether", "ip", "ip6", "arp", "tcp", "udp", "sctp", "icmp", "icmp6", "vlan"}

// primitive reads [protocol] [direction] [kind value].
func (p *parser) primitive() (node, error) {
	protocol := p.next(protocols...)
	if protocol == "vlan" {
		return p.vlan()
	}
	direction := p.next("src", "dst")
	switch kind := p.next("host", "net", "port", "portrange"); {
	case kind == "port" || kind == "portrange":
		return p.port(protocol, direction, kind)
	case kind == "net":
		return p.network(protocol, direction)
	case kind == "host" && protocol == "ether":
		return p.station(direction)
	case kind == "host":
		return p.host(protocol, direction)
	case direction != "":
		return nil, fmt.Errorf("%s is followed by host, net, port or portrange", direction)
	case protocol == "ether":
		return nil, errors.New("ether is followed by host, src host or dst host")
	case protocol != "":
		return transport(protocol), nil
	}
	w, err := p.value("a condition such as host 10.0.0.1, tcp port 443 or arp")
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%.32q does not begin a condition; write one such as host 10.0.0.1, net 10.0.0.0/8, "+
		"tcp port 443 or arp", w)
}

func (p *parser) vlan() (node, error) {
	if len(p.words) == 0 {
		return vlan{-1}, nil
	}
	n, err := strconv.ParseUint(p.words[0], 10, 16)
	if err != nil {
		return vlan{-1}, nil
	}
	if n > 4094 {
		return nil, fmt.Errorf("%d is not the number of a VLAN; write 0 to 4094", n)
	}
	p.words = p.words[1:]
	return vlan{int(n)}, nil
}

func (p *parser) port(protocol, direction, kind string) (node, error) {
	protocols := map[string][]uint32{"": {tcp, udp, sctp}, "tcp": {tcp}, "udp": {udp}, "sctp": {sctp}}[protocol]
	if protocols == nil {
		return nil, fmt.Errorf("%s has no ports; write tcp, udp or sctp before %s", protocol, kind)
	}
	text, err := p.value("a port number")
	if err != nil {
		return nil, err
	}
	low, high := text, text
	if kind == "portrange" {
		var ok bool
		if low, high, ok = strings.Cut(text, "-"); !ok {
			return nil, fmt.Errorf("%.32q is not a range of ports; write it as 8000-8080", text)
		}
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if err1 != nil || err2 != nil || first > last {
		return nil, fmt.Errorf("%.32q is not a port number from 0 to 65535, or not a range of them", text)
	}
	return ports(protocols, direction, uint32(first), uint32(last)), nil
}

func (p *parser) network(protocol, direction string) (node, error) {
	text, err := p.value("a network such as 10.0.0.0/8")
	if err != nil {
		return nil, err
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.64q is not a network; write it as 10.0.0.0/8 or 2001:db8::/32", text)
	case prefix != prefix.Masked():
		return nil, fmt.Errorf("the network %s has bits behind its length; write %s", prefix, prefix.Masked())
	}
	return addresses(protocol, direction, prefix)
}

func (p *parser) host(protocol, direction string) (node, error) {
	text, err := p.value("an address")
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return nil, fmt.Errorf("%.64q is not an IP address; names are not looked up", text)
	}
	return addresses(protocol, direction, netip.PrefixFrom(addr, addr.BitLen()))
}

func (p *parser) station(direction string) (node, error) {
	text, err := p.value("a MAC")
	if err != nil {
		return nil, err
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("%.64q is not a MAC such as 52:54:00:12:34:56", text)
	}
	return station(direction, [6]byte(mac)), nil
}
