// Package socks is a SOCKS5 server (RFC 1928) that leads clients of this host into a network: the command CONNECT,
// without authentication, to IPv4 and IPv6 addresses and to names, which whoever dials resolves.
//
// It has no BIND and no UDP ASSOCIATE. Whoever reaches its listener may go wherever it dials, so that it belongs on
// loopback.
package socks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What RFC 1928 says: the version, the one method of authentication and the answer when it is not offered (3), the
// command and the types of addresses (4).
const (
	version     = 5
	methodNone  = 0
	noMethod    = 0xff
	connect     = 1
	typeIPv4    = 1
	typeName    = 3
	typeIPv6    = 4
	reservedGap = 0
)

// Replies (RFC 1928, 6).
type reply byte

const (
	succeeded          reply = 0
	failed             reply = 1
	networkUnreachable reply = 3
	hostUnreachable    reply = 4
	refused            reply = 5
	noSuchCommand      reply = 7
	noSuchAddress      reply = 8
)

const (
	// clients is how many are served at a time; others wait.
	clients = 512
	// sayLimit is how long a client may take to say where to, and dialLimit how long that is tried.
	sayLimit, dialLimit = 10 * time.Second, 30 * time.Second
)

// ErrUnknownName is the error for a name that the network does not know.
var ErrUnknownName = errors.New("the network does not know this name")

// Server leads clients to where Dial leads.
type Server struct {
	// Dial connects to a host, which is an IP address or a name, and a port.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)
}

// Serve serves the clients of a listener until the context ends, and ends what they have open then.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	room := make(chan struct{}, clients)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // A client that went away, or too many files for a moment.
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			conn.Close()
			return nil
		}
		all.Go(func() {
			defer func() { <-room }()
			s.serve(ctx, conn)
		})
	}
}

// serve serves one client.
func (s Server) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	if client.SetDeadline(time.Now().Add(sayLimit)) != nil {
		return
	}
	host, port, err := ask(client)
	if err != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	server, err := s.Dial(limited, host, port)
	if err != nil {
		_ = answer(client, meaning(err))
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if client.SetDeadline(time.Now().Add(sayLimit)) != nil || answer(client, succeeded) != nil || client.SetDeadline(time.Time{}) != nil {
		return
	}
	relay(client, server)
}

// meaning is what a client is told of an error.
func meaning(err error) reply {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrUnknownName):
		return hostUnreachable
	case errors.Is(err, syscall.ENETUNREACH):
		return networkUnreachable
	case errors.Is(err, syscall.EAFNOSUPPORT):
		return noSuchAddress
	}
	return failed
}

// refusal is a request that is answered with a refusal.
type refusal struct {
	reply reply
	error
}

// ask is the client's half of a connection until it has said where to. What it is refused it has been told.
func ask(client io.ReadWriter) (host string, port uint16, err error) {
	if err := greet(client); err != nil {
		return "", 0, err
	}
	host, port, err = readRequest(client)
	var no refusal
	if errors.As(err, &no) {
		err = errors.Join(err, answer(client, no.reply))
	}
	return host, port, err
}

// greet agrees on the method of authentication: none.
func greet(client io.ReadWriter) error {
	methods, err := readGreeting(client)
	if err != nil {
		return err
	}
	for _, m := range methods {
		if m == methodNone {
			_, err := client.Write([]byte{version, methodNone})
			return err
		}
	}
	_, err = client.Write([]byte{version, noMethod})
	return errors.Join(errors.New("the client wants to authenticate itself"), err)
}

// readGreeting reads the methods that a client offers.
func readGreeting(r io.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if head[0] != version {
		return nil, fmt.Errorf("the client speaks version %d of SOCKS", head[0])
	}
	methods := make([]byte, head[1])
	_, err := io.ReadFull(r, methods)
	return methods, err
}

// readRequest reads where a client wants to go. It takes not one byte more than the request has.
func readRequest(r io.Reader) (host string, port uint16, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != version || head[2] != reservedGap {
		return "", 0, fmt.Errorf("a request begins with % x", head)
	}
	size, name := 0, false
	switch head[3] {
	case typeIPv4:
		size = 4
	case typeIPv6:
		size = 16
	case typeName:
		var length [1]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return "", 0, err
		}
		size, name = int(length[0]), true
	default:
		return "", 0, refusal{noSuchAddress, fmt.Errorf("the type of an address is %d", head[3])}
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(r, rest); err != nil {
		return "", 0, err
	}
	if head[1] != connect {
		return "", 0, refusal{noSuchCommand, fmt.Errorf("the command is %d", head[1])}
	}
	address, port := rest[:size], uint16(rest[size])<<8|uint16(rest[size+1])
	if port == 0 {
		return "", 0, refusal{failed, errors.New("the port is 0")}
	}
	if name {
		host, err = hostOf(string(address))
		return host, port, err
	}
	ip, _ := netip.AddrFromSlice(address)
	return ip.Unmap().String(), port, nil
}

// hostOf takes a name of letters, digits, hyphens, underscores and dots; an address that some clients send as a name is
// one.
func hostOf(name string) (string, error) {
	if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
		return ip.Unmap().String(), nil
	}
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if name == "" || bad {
		return "", refusal{hostUnreachable, fmt.Errorf("%q is malformed as the name of a host", name)}
	}
	return name, nil
}

// answer answers a request. The address from which it was gone on is nobody's concern.
func answer(client io.Writer, r reply) error {
	_, err := client.Write([]byte{version, byte(r), reservedGap, typeIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// relay carries bytes both ways, the end of each way by itself, until both have ended or one has failed.
func relay(a, b net.Conn) {
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil {
			a.Close()
			b.Close()
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		} else {
			to.Close()
		}
	}
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}
