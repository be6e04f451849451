// Package door is the way of this host's programs into the network of a rehearsal: a SOCKS5 proxy on loopback that
// resolves the names of the cluster and dials as a neighbour of the nodes.
//
// A network has one door. Whichever process comes first has it, and another one goes on when that ends, at the same
// address where that is still free: the address is kept in the folder of the network, so that what a user has written
// into the configuration of a client stays true from one rehearsal to the next.
package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spore/builder/socks"
	"spore/builder/vm/lan"
	"spore/builder/vm/lan/station"
	"spore/storage/atomicfile"
)

const (
	// cable is the name of the station's end in the network. No node's name begins with a dot.
	cable = ".host"
	// lockName is the file that the process holds which has the door, and addressName the one with its address.
	lockName, addressName = "door.lock", "door"
	// takeover is how long nobody has the door at most when the process ends that had it.
	takeover = 200 * time.Millisecond
	// openLimit is how long another process may take to open the door that it has.
	openLimit = 10 * time.Second
	// perAddress bounds what one of several addresses of a name is tried.
	perAddress = 10 * time.Second
)

// Config says where a door is and where it leads.
type Config struct {
	// Dir is the folder of the network (lan.Join).
	Dir string
	// Listen is an address of loopback, or empty for the one that the network's door had last, else any.
	Listen string
	// Address is this host's in the network, and MAC that of its card there.
	Address netip.Prefix
	MAC     net.HardwareAddr
	// Lookup is the addresses of a host, which may be one itself.
	Lookup func(host string) []netip.Addr
	// Moved is told of another address, where this process goes on with the door of another one.
	Moved func(address string)
}

// Open sees to it that the network has a door until the context ends, and returns its address.
func Open(ctx context.Context, c Config) (string, error) {
	lock, err := os.OpenFile(filepath.Join(c.Dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	for limit := time.Now().Add(openLimit); ; {
		at, first, err := c.begin(ctx, lock)
		if err != nil {
			lock.Close()
			return "", fmt.Errorf("SOCKS5 proxy into the network: %w", err)
		}
		if first {
			return at, nil
		}
		if at, there := c.there(); there {
			if err := c.same(at); err != nil {
				lock.Close()
				return "", err
			}
			go c.wait(ctx, lock, at)
			return at, nil
		}
		if time.Now().After(limit) {
			lock.Close()
			return "", fmt.Errorf("SOCKS5 proxy into the network: another process has it and does not open it (%s)", lock.Name())
		}
		select {
		case <-ctx.Done():
			lock.Close()
			return "", context.Cause(ctx)
		case <-time.After(takeover):
		}
	}
}

// CheckListen checks an address that a user wants: whoever reaches the proxy reaches the nodes.
func CheckListen(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("the proxy's address is %q; write a port of loopback, such as 127.0.0.1:1080", address)
	}
	return nil
}

// same makes sure that the door that is there is where it was asked for.
func (c Config) same(at string) error {
	want, err := netip.ParseAddrPort(c.Listen)
	if c.Listen == "" || err == nil && want.Port() == 0 || c.Listen == at {
		return nil
	}
	return fmt.Errorf("the network has its SOCKS5 proxy at %s already, which another command has; leave %s out, or end that command", at, c.Listen)
}

// there is the address of the door where it is open.
func (c Config) there() (string, bool) {
	at := c.last()
	if at == "" {
		return "", false
	}
	conn, err := net.DialTimeout("tcp", at, openLimit)
	if err != nil {
		return "", false
	}
	conn.Close()
	return at, true
}

// last is the address that the door had last; empty where there is none that can be read.
func (c Config) last() string {
	data, err := os.ReadFile(filepath.Join(c.Dir, addressName))
	at := strings.TrimSpace(string(data))
	if err != nil || CheckListen(at) != nil {
		return ""
	}
	return at
}

// wait goes on with the door when nobody else has it.
func (c Config) wait(ctx context.Context, lock *os.File, was string) {
	for {
		select {
		case <-ctx.Done():
			lock.Close()
			return
		case <-time.After(takeover):
		}
		// An error is that of a folder that is gone, with all the machines in it.
		at, begun, err := c.begin(ctx, lock)
		if err != nil {
			lock.Close()
			return
		}
		if begun {
			if at != was {
				c.Moved(at)
			}
			return
		}
	}
}

// begin opens the door in this process unless another one has it. The lock is kept until the context ends.
func (c Config) begin(ctx context.Context, lock *os.File) (string, bool, error) {
	err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	l, err := c.listen()
	if err != nil {
		return "", false, err
	}
	host, err := station.Start(ctx, station.Config{Dir: c.Dir, Name: lan.Card(cable, 0), Address: c.Address, MAC: c.MAC})
	if err == nil {
		err = c.keep(l.Addr().String())
	}
	if err != nil {
		l.Close()
		return "", false, err
	}
	server := socks.Server{Dial: func(ctx context.Context, name string, port uint16) (net.Conn, error) {
		return c.dial(ctx, host, name, port)
	}}
	go func() {
		defer lock.Close()
		_ = server.Serve(ctx, l) // It ends with the context.
	}()
	return l.Addr().String(), true, nil
}

// listen listens where the user wants, else where the door was last, else anywhere.
func (c Config) listen() (net.Listener, error) {
	if c.Listen != "" {
		return net.Listen("tcp", c.Listen)
	}
	if at := c.last(); at != "" {
		if l, err := net.Listen("tcp", at); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// keep keeps the address for others. Whoever reads it sees all of it or the one before.
func (c Config) keep(address string) error {
	return atomicfile.Replace(filepath.Join(c.Dir, addressName), []byte(address+"\n"), 0o600, atomicfile.Unsynced)
}

// dial tries all addresses of a host.
func (c Config) dial(ctx context.Context, host *station.Station, name string, port uint16) (net.Conn, error) {
	addresses := c.Lookup(name)
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%s: %w", name, socks.ErrUnknownName)
	}
	var err error
	for _, a := range addresses {
		each, cancel := ctx, context.CancelFunc(func() {})
		if len(addresses) > 1 {
			each, cancel = context.WithTimeout(ctx, perAddress)
		}
		var conn net.Conn
		conn, err = host.Dial(each, netip.AddrPortFrom(a, port))
		cancel()
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}
