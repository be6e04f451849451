package lan

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
)

// Cable is an end of a cable that this process holds, where a machine would have a card.
type Cable struct {
	folder *os.File
	conn   *net.UnixConn
	mu     sync.Mutex
	wire   port // nil when it is closed
}

// Plug plugs a cable with that name into the network of a folder. One that nobody holds any more is taken over, so that
// whoever plugs it makes sure to be the only one. Frames go to whatever process is the switch at the time.
func Plug(dir, name string) (*Cable, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	n := network{folder: folder}
	c, err := n.plug(name)
	if err != nil {
		folder.Close()
		return nil, fmt.Errorf("plug %s into the network in %s: %w", name, dir, err)
	}
	return c, nil
}

func (s *network) plug(name string) (*Cable, error) {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path(name), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Cable{folder: s.folder, conn: conn, wire: newPort(raw, s.path(Socket))}, nil
}

// Send sends a frame, or loses it where the network is busy or has no switch.
func (c *Cable) Send(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire != nil {
		c.wire.send(frame)
	}
}

// Receive waits for a frame and returns its size.
func (c *Cable) Receive(frame []byte) (int, error) {
	n, _, err := c.conn.ReadFromUnix(frame)
	return n, err
}

// Close unplugs the cable. It may be called again.
func (c *Cable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire == nil {
		return nil
	}
	c.wire.close()
	c.wire = nil
	return errors.Join(c.conn.Close(), c.folder.Close())
}
