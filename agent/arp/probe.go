package arp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Timing is the times of RFC 5227, section 1.1.
type Timing struct {
	// Number is PROBE_NUM, Wait PROBE_WAIT (the longest delay before the first), Min and Max the space between probes,
	// Announce ANNOUNCE_WAIT (the silence after the last).
	Number                   int
	Wait, Min, Max, Announce time.Duration
}

// Standard is the times of the RFC, Scaled those that are used, a tenth of them.
var (
	Standard = Timing{Number: 3, Wait: time.Second, Min: time.Second, Max: 2 * time.Second, Announce: 2 * time.Second}
	Scaled   = Timing{Number: 3, Wait: 100 * time.Millisecond, Min: 100 * time.Millisecond, Max: 200 * time.Millisecond, Announce: 200 * time.Millisecond}
)

// Used is an address that another machine has.
type Used struct {
	IP netip.Addr `json:"ip"`
	// MAC is the other machine's, Card ours.
	MAC  string `json:"mac"`
	Card string `json:"card"`
}

// Check is one address to be probed on a card.
type Check struct {
	IP netip.Addr
	// Index and MAC are the card's.
	Index int
	MAC   string
}

// Run probes all addresses beside each other and returns those that are in use. A card that cannot be probed is an error
// beside the result of the others; its addresses count as free.
func Run(ctx context.Context, checks []Check, t Timing) ([]Used, error) {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		used []Used
		errs []error
	)
	for _, c := range checks {
		wg.Go(func() {
			other, err := one(ctx, c, t)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("probe %s on the card %s: %w", c.IP, c.MAC, err))
			} else if other != "" {
				used = append(used, Used{IP: c.IP, MAC: other, Card: c.MAC})
			}
		})
	}
	wg.Wait()
	return used, errors.Join(errs...)
}

// one probes one address and returns the MAC of the machine that has it, or "".
func one(ctx context.Context, c Check, t Timing) (string, error) {
	mac, err := MAC(c.MAC)
	if err != nil {
		return "", err
	}
	s, err := open(c.Index)
	if err != nil {
		return "", err
	}
	defer s.close()
	if other, err := s.listen(ctx, mac, c.IP, jitter(0, t.Wait)); other != "" || err != nil {
		return other, err
	}
	frame := Probe(mac, c.IP).Frame()
	for n := range t.Number {
		if err := s.send(frame); err != nil {
			return "", err
		}
		wait := jitter(t.Min, t.Max)
		if n == t.Number-1 {
			wait = t.Announce
		}
		if other, err := s.listen(ctx, mac, c.IP, wait); other != "" || err != nil {
			return other, err
		}
	}
	return "", nil
}

// jitter keeps machines apart that were switched on together.
func jitter(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + rand.N(high-low)
}

// socket is a packet(7) socket for ARP on one card.
type socket struct{ fd, index int }

func open(index int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(htons(unix.ETH_P_ARP)))
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: index}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a packet socket: %w", err)
	}
	return &socket{fd, index}, nil
}

func (s *socket) close() { unix.Close(s.fd) }

func (s *socket) send(frame []byte) error {
	to := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ARP), Ifindex: s.index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	if err := unix.Sendto(s.fd, frame, 0, to); err != nil {
		return fmt.Errorf("send a probe: %w", err)
	}
	return nil
}

// listen watches the card for d and returns the MAC of a machine that has the address.
func (s *socket) listen(ctx context.Context, mac [6]byte, ip netip.Addr, d time.Duration) (string, error) {
	end := time.Now().Add(d)
	buf := make([]byte, 2048)
	for {
		left := time.Until(end)
		if left <= 0 {
			return "", ctx.Err()
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return "", fmt.Errorf("wait for answers: %w", err)
		}
		if n <= 0 {
			continue
		}
		n, _, err = unix.Recvfrom(s.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read answers: %w", err)
		}
		if p, err := Parse(buf[:n]); err == nil && Conflict(p, mac, ip) {
			return net.HardwareAddr(p.SenderMAC[:]).String(), nil
		}
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }
