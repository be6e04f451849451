package pull

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// network is one of this process alone. What waits on it waits for a channel, so that a bubble of testing/synctest has
// its time go on: a bound of a minute costs nothing, and none is passed because this host does other work.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	next      int
}

// listen returns a listener on an address of its own.
func (n *network) listen() *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{network: n, address: n.address(), connections: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[l.address.String()] = l
	return l
}

func (n *network) address() *net.TCPAddr {
	n.next++
	return &net.TCPAddr{IP: net.IPv4(10, 0, byte(n.next>>8), byte(n.next)), Port: 443}
}

// dial connects from an address to another one, where nobody may listen.
func (n *network) dial(ctx context.Context, from net.Addr, to string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[to]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("connect to %s: %w", to, syscall.ECONNREFUSED)
	}
	near, far := net.Pipe()
	select {
	case l.connections <- end{far, l.address, from}:
		return end{near, from, l.address}, nil
	case <-l.closed:
		return nil, fmt.Errorf("connect to %s: %w", to, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end is one end of a connection.
type end struct {
	net.Conn
	local, remote net.Addr
}

func (e end) LocalAddr() net.Addr  { return e.local }
func (e end) RemoteAddr() net.Addr { return e.remote }

type listener struct {
	network     *network
	address     *net.TCPAddr
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.address.String())
		l.network.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }
