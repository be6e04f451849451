package dhcp

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

// writeTimeout is how long one answer may take to leave; a client asks again.
const writeTimeout = time.Second

// Sockets are the open ports of a server.
type Sockets struct {
	server *Server
	conns  map[int]*net.UDPConn
}

// Listen opens the ports of DHCP and of PXE's boot servers on one interface.
func (s *Server) Listen(ctx context.Context, iface string) (*Sockets, error) {
	out := &Sockets{s, map[int]*net.UDPConn{}}
	for _, port := range []int{ServerPort, BootServerPort} {
		conn, err := listen(ctx, iface, port)
		if err != nil {
			out.Close()
			return nil, err
		}
		out.conns[port] = conn
	}
	return out, nil
}

// Close closes the ports.
func (s *Sockets) Close() {
	for _, c := range s.conns {
		c.Close()
	}
}

// Serve answers until the context ends.
func (s *Sockets) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for port, conn := range s.conns {
		group.Go(func() error { return s.server.loop(ctx, conn, port) })
	}
	return group.Wait()
}

// listen binds a socket to an interface, not to an address: broadcasts come to 255.255.255.255.
func listen(ctx context.Context, iface string, port int) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
				unix.BindToDevice(int(fd), iface),
			)
		}); e != nil {
			return e
		}
		return err
	}}
	conn, err := config.ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen on UDP port %d of %s: %w", port, iface, err)
	}
	return conn.(*net.UDPConn), nil
}

// loop answers one packet after the other. An answer takes microseconds, so that a flood costs this processor and no memory.
func (s *Server) loop(ctx context.Context, conn *net.UDPConn, port int) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, maxPacket+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from UDP port %d: %w", port, err)
		}
		if n > maxPacket {
			continue
		}
		r := s.answer(buf[:n], port, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		if r == nil {
			continue
		}
		to := r.to
		if !to.IsValid() {
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), clientPort)
		}
		// A client that did not hear the answer asks again; an error says no more than that it is gone.
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, _ = conn.WriteToUDPAddrPort(r.packet.ToBytes(), to)
	}
}
