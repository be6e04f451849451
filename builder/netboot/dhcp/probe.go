package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// probeTries is how often another server is asked for an answer, and probeTime how long each time.
const (
	probeTries = 2
	probeTime  = 1500 * time.Millisecond
)

// Probe looks for another DHCP server on a network. It asks for an address as any machine does, and takes none. It returns the
// address of the first that answers; an address that is not valid when none does. It is to be called before Listen: two servers
// that give out addresses on one network take it down.
func Probe(ctx context.Context, iface string, mac net.HardwareAddr) (netip.Addr, error) {
	conn, err := listen(ctx, iface, clientPort)
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	question, err := dhcpv4.NewDiscovery(mac, dhcpv4.WithBroadcast(true))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look for another DHCP server: %w", err)
	}
	buf := make([]byte, maxPacket)
	for range probeTries {
		if _, err := conn.WriteToUDPAddrPort(question.ToBytes(), netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), ServerPort)); err != nil {
			return netip.Addr{}, fmt.Errorf("look for another DHCP server on %s: %w", iface, err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(probeTime)); err != nil {
			return netip.Addr{}, err
		}
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return netip.Addr{}, fmt.Errorf("look for another DHCP server on %s: %w", iface, err)
			}
			if offers(buf[:n], question) {
				return from.Addr().Unmap(), nil
			}
		}
	}
	return netip.Addr{}, nil
}

// offers tells whether a packet is an offer of an address to us. Proxies offer none, and are welcome.
func offers(data []byte, question *dhcpv4.DHCPv4) bool {
	p, err := dhcpv4.FromBytes(data)
	return err == nil && p.OpCode == dhcpv4.OpcodeBootReply && p.TransactionID == question.TransactionID &&
		p.MessageType() == dhcpv4.MessageTypeOffer && !p.YourIPAddr.IsUnspecified()
}
