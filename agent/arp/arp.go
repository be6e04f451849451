// Package arp asks whether an IPv4 address is already in use before it is configured: IPv4 Address Conflict Detection
// (RFC 5227), section 2.1.1, the probe. A conflict is reported and the address is kept off; it is not defended.
//
// The times of the RFC are for any link that ever was; as systemd-networkd does (IPv4DuplicateAddressDetectionTimeoutSec=)
// they are scaled down for switched Ethernet.
//
// Frames are coded here and not by gopacket's layers, whose tables cost 4 ms at the start of every process of the agent;
// the tests hold the coding against them.
package arp

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
)

// Sizes and constants of an ARP packet for IPv4 on Ethernet (RFC 826).
const (
	etherHeader = 14
	packetSize  = 28
	minFrame    = 60 // IEEE 802.3, without the checksum.
	etherType   = 0x0806
	// Request and Reply are operations.
	Request = 1
	Reply   = 2
)

// Packet is an ARP packet for IPv4 on Ethernet.
type Packet struct {
	Op                 uint16
	SenderMAC          [6]byte
	SenderIP, TargetIP netip.Addr
	TargetMAC          [6]byte
}

// Probe is the packet that asks for ip from a card with mac: the sender's address is all zero, so that nobody's cache
// changes (RFC 5227, section 1.1).
func Probe(mac [6]byte, ip netip.Addr) Packet {
	return Packet{Op: Request, SenderMAC: mac, SenderIP: netip.IPv4Unspecified(), TargetIP: ip}
}

// Frame is the packet in a broadcast Ethernet frame, padded to the shortest that Ethernet allows.
func (p Packet) Frame() []byte {
	b := make([]byte, minFrame)
	copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(b[6:], p.SenderMAC[:])
	binary.BigEndian.PutUint16(b[12:], etherType)
	a := b[etherHeader:]
	copy(a, []byte{0, 1, 8, 0, 6, 4}) // Ethernet, IPv4, and the lengths of their addresses.
	binary.BigEndian.PutUint16(a[6:], p.Op)
	copy(a[8:], p.SenderMAC[:])
	copy(a[14:], p.SenderIP.AsSlice())
	copy(a[18:], p.TargetMAC[:])
	copy(a[24:], p.TargetIP.AsSlice())
	return b
}

// Parse reads a frame. What is not ARP for IPv4 on Ethernet is an error.
func Parse(frame []byte) (Packet, error) {
	if len(frame) < etherHeader+packetSize || binary.BigEndian.Uint16(frame[12:]) != etherType {
		return Packet{}, errors.New("not an ARP frame")
	}
	a := frame[etherHeader:]
	if [6]byte(a[:6]) != [6]byte{0, 1, 8, 0, 6, 4} {
		return Packet{}, errors.New("not ARP for IPv4 on Ethernet")
	}
	p := Packet{Op: binary.BigEndian.Uint16(a[6:]), SenderMAC: [6]byte(a[8:14]), TargetMAC: [6]byte(a[18:24])}
	p.SenderIP, p.TargetIP = netip.AddrFrom4([4]byte(a[14:18])), netip.AddrFrom4([4]byte(a[24:28]))
	return p, nil
}

// Conflict tells whether a packet that was seen while ip was probed from mac means that another machine has the address or
// is about to take it (RFC 5227, section 2.1.1: any packet with it as sender, or another's probe for it).
func Conflict(p Packet, mac [6]byte, ip netip.Addr) bool {
	if p.SenderMAC == mac {
		return false
	}
	return p.SenderIP == ip || p.Op == Request && p.SenderIP.IsUnspecified() && p.TargetIP == ip
}

// MAC turns a hardware address into the form of packets.
func MAC(s string) ([6]byte, error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 {
		return [6]byte{}, errors.New("not an Ethernet address: " + s)
	}
	return [6]byte(m), nil
}
