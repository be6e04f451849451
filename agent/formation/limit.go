package formation

import (
	"io"
	"log"
	"net"
	"sync"
)

// maxConnections is how many connections are served at once.
const maxConnections = 128

// limited is a listener that accepts no more than there is room for.
type limited struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room, and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &roomed{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

// roomed is a connection that leaves its room when it is closed.
type roomed struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *roomed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }
