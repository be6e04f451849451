// Package announce tells a network that an address has moved to this card, so that nobody sends to the former one any longer:
// a gratuitous ARP for IPv4 (RFC 5227, section 3), an unsolicited neighbour advertisement for IPv6 (RFC 4861, section 7.2.6).
// When to send and how often is the caller's.
package announce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"
)

// minFrame is the shortest Ethernet frame without its checksum (IEEE 802.3).
const minFrame = 60

var (
	broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	// allNodes is the group of everybody on a link (RFC 4291, section 2.7.1) and its Ethernet address (RFC 2464, section 7).
	allNodes    = net.ParseIP("ff02::1")
	allNodesMAC = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
)

// override has the receivers replace what they know (RFC 4861, section 4.4).
const override = 0x20

// Frames are what announces that ip is at mac.
func Frames(mac net.HardwareAddr, ip netip.Addr) ([][]byte, error) {
	if len(mac) != 6 {
		return nil, fmt.Errorf("%q is no Ethernet address", mac)
	}
	if ip.Is6() {
		frame, err := advertisement(mac, ip)
		return [][]byte{frame}, err
	}
	// There are programs and switches that heed only the one or the other.
	var out [][]byte
	for _, op := range []uint16{layers.ARPRequest, layers.ARPReply} {
		frame, err := gratuitous(mac, ip, op)
		if err != nil {
			return nil, err
		}
		out = append(out, frame)
	}
	return out, nil
}

func gratuitous(mac net.HardwareAddr, ip netip.Addr, op uint16) ([]byte, error) {
	target := make([]byte, 6)
	if op == layers.ARPReply {
		target = mac // so in RFC 5944, section 4.6
	}
	return serialize(
		&layers.Ethernet{SrcMAC: mac, DstMAC: broadcast, EthernetType: layers.EthernetTypeARP},
		&layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
			SourceHwAddress: mac, SourceProtAddress: ip.AsSlice(), DstHwAddress: target, DstProtAddress: ip.AsSlice(),
		})
}

func advertisement(mac net.HardwareAddr, ip netip.Addr) ([]byte, error) {
	network := &layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: ip.AsSlice(), DstIP: allNodes}
	message := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborAdvertisement, 0)}
	if err := message.SetNetworkLayerForChecksum(network); err != nil {
		return nil, err
	}
	return serialize(
		&layers.Ethernet{SrcMAC: mac, DstMAC: allNodesMAC, EthernetType: layers.EthernetTypeIPv6}, network, message,
		&layers.ICMPv6NeighborAdvertisement{
			Flags: override, TargetAddress: ip.AsSlice(),
			Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: mac}},
		})
}

func serialize(l ...gopacket.SerializableLayer) ([]byte, error) {
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...); err != nil {
		return nil, fmt.Errorf("make the frame of an announcement: %w", err)
	}
	frame := buf.Bytes()
	return append(frame, make([]byte, max(0, minFrame-len(frame)))...), nil
}

// Send sends the announcement from a card, by its index. It needs CAP_NET_RAW.
func Send(index int, mac net.HardwareAddr, ip netip.Addr) error {
	frames, err := Frames(mac, ip)
	if err != nil {
		return err
	}
	// Protocol 0: it only sends.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(fd)
	var errs []error
	for _, f := range frames {
		to := &unix.SockaddrLinklayer{Ifindex: index, Halen: 6, Addr: [8]byte(append(f[:6:6], 0, 0))}
		errs = append(errs, unix.Sendto(fd, f, 0, to))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("announce %s on the interface %d: %w", ip, index, err)
	}
	return nil
}
