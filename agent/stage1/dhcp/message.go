// Package dhcp asks for an address and for the URL of the image the way UEFI firmware does that boots by HTTP: DHCPv4
// (RFC 2131, RFC 2132) with the vendor class HTTPClient (UEFI specification 2.10, section 24.7; RFC 4578 for its options).
//
// The URL comes from the server that offers the address or from another one beside it that offers none (a proxy). The address
// is held for the minutes of a download and given back: renewing it is left out, as is IPv6.
//
// github.com/insomniacslk/dhcp, which the builder's server uses, has a client (nclient4) that asks on one card, takes
// the first offer, and brings packet sockets of another module. Here all cards are asked at once, and an address of
// one server goes with the URL of another.
package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Types of messages (RFC 2132, section 9.6).
const (
	discover = 1
	offer    = 2
	request  = 3
	ack      = 5
	nak      = 6
	release  = 7
)

// Options (RFC 2132; 93, 94 and 97 are of RFC 4578).
const (
	optMask       = 1
	optRouter     = 3
	optDNS        = 6
	optDomain     = 15
	optMTU        = 26
	optAddress    = 50
	optOverload   = 52
	optType       = 53
	optServer     = 54
	optParameters = 55
	optMessage    = 56
	optMaxSize    = 57
	optClass      = 60
	optBootServer = 66
	optBootFile   = 67
	optArch       = 93
	optInterface  = 94
	optMachine    = 97
	optEnd        = 255
)

const (
	// Class is the vendor class: HTTP boot on x86-64 UEFI (architecture type 16).
	Class = "HTTPClient:Arch:00016:UNDI:003001"

	headerSize = 236
	// maxMessage bounds what is read, in bytes.
	maxMessage = 9000
	// minMessage is the length of BOOTP, below which old relays drop a message (RFC 1542, section 2.1).
	minMessage = 300
	maxText    = 1024
)

var cookie = []byte{99, 130, 83, 99}

// identity is what of the machine is in each message.
type identity struct {
	xid uint32
	mac [6]byte
	// uuid is SMBIOS's, 16 bytes as the firmware has them; nil when it is none.
	uuid []byte
}

// wanted are the options that servers are asked for.
var wanted = []byte{optMask, optRouter, optDNS, optDomain, optMTU, optServer, optClass, optBootServer, optBootFile}

// message is one of ours. The broadcast flag is set, since nobody answers to the offered address yet.
func (i identity) message(kind byte, client netip.Addr, options ...[]byte) []byte {
	b := make([]byte, headerSize, minMessage)
	b[0], b[1], b[2] = 1, 1, 6 // BOOTREQUEST, Ethernet, six bytes of MAC.
	binary.BigEndian.PutUint32(b[4:], i.xid)
	if kind != release {
		binary.BigEndian.PutUint16(b[10:], 1<<15)
	}
	if client.Is4() {
		copy(b[12:], client.AsSlice())
	}
	copy(b[28:], i.mac[:])
	b = append(b, cookie...)
	b = append(b, optType, 1, kind)
	for _, o := range options {
		b = append(b, o...)
	}
	b = append(b, optEnd)
	for len(b) < minMessage {
		b = append(b, 0)
	}
	return b
}

// boot are the options of a client that boots by HTTP.
func (i identity) boot() []byte {
	b := append([]byte{optClass, byte(len(Class))}, Class...)
	b = append(b, optArch, 2, 0, 16, optInterface, 3, 1, 3, 1, optMaxSize, 2, maxMessage>>8, maxMessage&0xff)
	if len(i.uuid) == 16 {
		b = append(append(b, optMachine, 17, 0), i.uuid...)
	}
	return append(append(b, optParameters, byte(len(wanted))), wanted...)
}

func option(code byte, ip netip.Addr) []byte { return append([]byte{code, 4}, ip.AsSlice()...) }

// Reply is what a server said. Addresses that it did not give are not valid.
type Reply struct {
	kind    byte
	xid     uint32
	mac     [6]byte
	Server  netip.Addr
	Address netip.Addr
	Bits    int
	Routers []netip.Addr
	DNS     []netip.Addr
	Domain  string
	// Class is the server's vendor class, BootFile what it says to boot: a URL, or a file's name for older ways.
	Class, BootFile string
	// Message says why it refused.
	Message string
}

// URL is the boot file when it is a URL of HTTP.
func (r Reply) URL() string {
	if strings.HasPrefix(strings.ToLower(r.BootFile), "http://") || strings.HasPrefix(strings.ToLower(r.BootFile), "https://") {
		return r.BootFile
	}
	return ""
}

// String is the reply for people.
func (r Reply) String() string {
	what := "no address"
	if r.Address.IsValid() {
		what = r.Address.String()
	}
	switch {
	case r.kind == nak:
		what = "a refusal " + r.Message
	case r.URL() != "":
		what += " and " + r.BootFile
	case r.BootFile != "":
		what += fmt.Sprintf(" and the boot file %q, which is no http:// URL", r.BootFile)
	default:
		what += " and no boot file"
	}
	return fmt.Sprintf("%s from %s", what, r.Server)
}

// Parse reads an answer of a server: OFFER, ACK or NAK.
func Parse(b []byte) (Reply, error) {
	if len(b) < headerSize+4 || len(b) > maxMessage || string(b[headerSize:headerSize+4]) != string(cookie) {
		return Reply{}, errors.New("no DHCP message")
	}
	if b[0] != 2 || b[1] != 1 || b[2] != 6 {
		return Reply{}, errors.New("no answer for Ethernet")
	}
	o, err := options(b)
	if err != nil {
		return Reply{}, err
	}
	r := Reply{xid: binary.BigEndian.Uint32(b[4:]), mac: [6]byte(b[28:34])}
	if kind := o[optType]; len(kind) != 1 || kind[0] != offer && kind[0] != ack && kind[0] != nak {
		return Reply{}, fmt.Errorf("no answer of a DHCP server: type %v", kind)
	}
	r.kind = o[optType][0]
	if servers := addresses(o[optServer]); len(servers) == 1 {
		r.Server = servers[0]
	} else {
		return Reply{}, errors.New("an answer that does not say which server's it is")
	}
	if a := netip.AddrFrom4([4]byte(b[16:20])); usable(a) {
		r.Address = a
	}
	r.Bits = 24
	if r.Bits, err = bits(o[optMask], r.Address); err != nil {
		return Reply{}, err
	}
	r.Routers, r.DNS = addresses(o[optRouter]), addresses(o[optDNS])
	r.Domain, r.Class, r.Message = text(o[optDomain]), text(o[optClass]), text(o[optMessage])
	if r.BootFile = text(o[optBootFile]); r.BootFile == "" && !overloads(o, 1) {
		r.BootFile = text(b[108:236])
	}
	return r, nil
}

// options collects the options by their codes; one in several pieces is joined (RFC 3396). The header's fields for names hold
// options, too, where option 52 says so.
func options(b []byte) (map[byte][]byte, error) {
	o := map[byte][]byte{}
	if err := collect(o, b[headerSize+4:]); err != nil {
		return nil, err
	}
	file, name := overloads(o, 1), overloads(o, 2)
	if file {
		if err := collect(o, b[108:236]); err != nil {
			return nil, err
		}
	}
	if name {
		if err := collect(o, b[44:108]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func overloads(o map[byte][]byte, bit byte) bool {
	return len(o[optOverload]) == 1 && o[optOverload][0]&bit != 0
}

func collect(o map[byte][]byte, b []byte) error {
	for len(b) > 0 {
		code := b[0]
		if code == 0 {
			b = b[1:]
			continue
		}
		if code == optEnd {
			return nil
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return fmt.Errorf("DHCP option %d is cut short", code)
		}
		o[code] = append(o[code], b[2:2+int(b[1])]...)
		b = b[2+int(b[1]):]
	}
	return nil
}

// bits is the prefix length of a mask. Where a server gives none, that of the address's old class has to do (RFC 950).
func bits(mask []byte, a netip.Addr) (int, error) {
	if len(mask) == 0 {
		if !a.IsValid() {
			return 0, nil
		}
		switch first := a.As4()[0]; {
		case first < 128:
			return 8, nil
		case first < 192:
			return 16, nil
		}
		return 24, nil
	}
	if len(mask) != 4 {
		return 0, fmt.Errorf("a mask of %d bytes", len(mask))
	}
	m := binary.BigEndian.Uint32(mask)
	n := 0
	for ; m&(1<<31) != 0; m <<= 1 {
		n++
	}
	if m != 0 || n == 0 {
		return 0, fmt.Errorf("the mask %v", mask)
	}
	return n, nil
}

// addresses reads a list of IPv4 addresses; what is none that a machine could have is left out.
func addresses(b []byte) []netip.Addr {
	var out []netip.Addr
	for ; len(b) >= 4 && len(out) < 8; b = b[4:] {
		if a := netip.AddrFrom4([4]byte(b)); usable(a) {
			out = append(out, a)
		}
	}
	return out
}

func usable(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// text is an option as text that can be printed: up to a zero, and empty when there is anything in it that is no plain ASCII.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	if len(s) > maxText {
		return ""
	}
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e {
			return ""
		}
	}
	return s
}
