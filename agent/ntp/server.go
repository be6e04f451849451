package ntp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// resolution is what the clock is read with: the time from the network card to this program; precision says the same as a
	// power of two of seconds.
	resolution = time.Millisecond / 4
	precision  = -12
)

// Server answers clients.
type Server struct {
	// State is what the clock is worth now.
	State func() State
	// Now is the clock.
	Now func() time.Time
	// Limit bounds how often is answered; nil answers always.
	Limit *Limit
}

// answer answers a packet that came from an address at a time; it returns nil when there is nothing to say. It is never longer than
// the question.
func (s *Server) answer(request []byte, from netip.Addr, received time.Time) []byte {
	p, err := parse(request)
	if err != nil || p.mode != modeClient || p.version < oldest || p.version > version {
		return nil
	}
	if s.Limit != nil && !s.Limit.allow(from, received) {
		return nil
	}
	state := s.State()
	if from = from.Unmap(); state.Follows.IsValid() && state.Follows.Unmap() == from {
		state = alarm()
	}
	out := packet{
		leap: state.Leap, version: p.version, mode: modeServer, stratum: state.Stratum, poll: p.poll, precision: precision,
		rootDelay: state.RootDelay, rootDispersion: state.RootDispersion, reference: state.Reference,
		origin: p.transmit, receive: stamp(received),
	}
	if out.stratum >= maxStratum {
		out.stratum = 0
	}
	if !state.Updated.IsZero() {
		out.updated = stamp(state.Updated)
	}
	out.transmit = stamp(s.Now())
	return out.bytes()
}

// Listen opens UDP port at addresses, which may come later: an answer has to come from the address that was asked, and one for each is
// how. The address that moves between masters is none of them.
func Listen(ctx context.Context, addresses []netip.Addr, port uint16) ([]*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) (err error) {
		e := raw.Control(func(fd uintptr) {
			if network == "udp6" {
				err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
				return
			}
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		})
		return errors.Join(e, err)
	}}
	var out []*net.UDPConn
	for _, a := range addresses {
		network := "udp6"
		if a.Is4() {
			network = "udp4"
		}
		conn, err := config.ListenPacket(ctx, network, netip.AddrPortFrom(a, port).String())
		if err != nil {
			for _, c := range out {
				c.Close()
			}
			return nil, fmt.Errorf("listen on UDP port %d of %s: %w", port, a, err)
		}
		out = append(out, conn.(*net.UDPConn))
	}
	return out, nil
}

// Serve answers at the open ports until the context ends, and closes them.
func (s *Server) Serve(ctx context.Context, conns []*net.UDPConn) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, conn := range conns {
		group.Go(func() error { return s.loop(ctx, conn) })
	}
	return group.Wait()
}

// loop answers one packet after the other, so that a flood costs this processor and no memory.
func (s *Server) loop(ctx context.Context, conn *net.UDPConn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, maxRequest+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from %s: %w", conn.LocalAddr(), err)
		}
		if n > maxRequest {
			continue
		}
		if out := s.answer(buf[:n], from.Addr(), s.Now()); out != nil {
			// Whoever did not hear it asks again.
			_, _ = conn.WriteToUDPAddrPort(out, from)
		}
	}
}
