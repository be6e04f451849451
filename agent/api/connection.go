package api

import (
	"net"
	"net/http"
	"sync"

	"spore/nodeapi"
)

// maxConnections is how many connections are served at once.
const maxConnections = 128

// listener accepts no more connections than there is room for.
type listener struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room, and then for a connection.
func (l *listener) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &connection{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

// connection knows who calls, from the end of its handshake on, and leaves its room when it is closed.
type connection struct {
	net.Conn
	leave  func()
	caller nodeapi.Caller
}

func (c *connection) greet(caller nodeapi.Caller) { c.caller = caller }

// Close closes the connection.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// connectionKey is where the context of a request has its connection.
type connectionKey struct{}

// callerOf is who asks; nobody on a connection that is none of ours.
func callerOf(r *http.Request) nodeapi.Caller {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		return c.caller
	}
	return nodeapi.Caller{}
}
