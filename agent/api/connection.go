package api

import (
	"net"
	"net/http"

	"spore/wire/nodeapi"
)

// connection knows who calls, from the end of its handshake on, and leaves its seat when it is closed.
type connection struct {
	net.Conn
	leave  func()
	caller nodeapi.Caller
}

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
