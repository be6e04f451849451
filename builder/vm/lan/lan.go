// Package lan is the network of a rehearsal: an Ethernet switch that joins the cards of machines, and gives each machine a
// gateway of its own that no other one sees. It needs no privilege, and nobody but the folder's owner reaches it.
//
// Ends of cables are Unix datagram sockets in one folder, one frame a datagram, as QEMU's netdev dgram has them. The name of
// an end says what it is: NODE.0, NODE.1 … are the cards of a node, NODE.up is its gateway (see Card and Gateway). The switch
// is the socket named Socket. It keeps nothing that matters, so that any process can go on with it.
//
// A gateway is QEMU's user-mode network, which would answer for every address that it hears a connection to. Here it hears
// broadcasts of its own node and what is meant for itself. It is no router between networks, and knows neither VLANs, which
// pass as they are, nor spanning trees: two switches are not to be joined.
package lan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Socket is the name of the switch's own end.
	Socket = "switch"
	// lockName is the file that the process holds which is the switch.
	lockName = "lock"
	// upName follows the node's name in that of its gateway.
	upName = "up"
	// takeover is how long nobody is the switch at most when the process ends that was.
	takeover = 200 * time.Millisecond
	// maxFrame is more than any card sends, in bytes.
	maxFrame = 64 << 10
)

// Card is the name of the socket of a node's card, counted from 0.
func Card(node string, card int) string { return node + "." + strconv.Itoa(card) }

// Gateway is the name of the socket of a node's gateway.
func Gateway(node string) string { return node + "." + upName }

// Join makes the folder where it is not there, and sees to it that the network in it has a switch until the context ends: in
// this process when no other one is it, or as soon as that ends. It returns when one of them is the switch.
func Join(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		folder.Close()
		return err
	}
	s := &network{folder: folder, lock: lock}
	first, err := s.begin(ctx)
	if err != nil {
		s.close()
		return fmt.Errorf("network in %s: %w", dir, err)
	}
	if !first {
		go s.wait(ctx)
	}
	return nil
}

// network is one process's part in a network.
type network struct {
	folder, lock *os.File
}

func (s *network) close() {
	s.folder.Close()
	s.lock.Close()
}

// wait begins as soon as nobody else is the switch.
func (s *network) wait(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.close()
			return
		case <-time.After(takeover):
		}
		// An error is that of a folder that is gone, with all the machines in it.
		if begun, err := s.begin(ctx); begun || err != nil {
			return
		}
	}
}

// begin makes this process the switch unless another one is.
func (s *network) begin(ctx context.Context) (bool, error) {
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// What the last switch left is a file that nobody listens on.
	if err := os.Remove(s.path(Socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path(Socket), Net: "unixgram"})
	if err != nil {
		return false, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return false, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		defer s.close()
		newSwitch(s.names, func(name string) port { return newPort(raw, s.path(name)) }).serve(conn)
	}()
	return true, nil
}

// path is a name in the folder, in few characters: that of a socket may have 107 (unix(7)).
func (s *network) path(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", s.folder.Fd(), name)
}

// names are the ends of cables that are there, or were.
func (s *network) names() []string {
	// By its path: a folder that is read to its end stays there.
	entries, err := os.ReadDir(s.path(""))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket && e.Name() != Socket {
			out = append(out, e.Name())
		}
	}
	return out
}

// serve takes frames until the socket is closed.
func (w *ethernet) serve(conn *net.UnixConn) {
	defer w.close()
	for frame := make([]byte, maxFrame); ; {
		n, from, err := conn.ReadFromUnix(frame)
		if err != nil {
			return
		}
		if from != nil && from.Name != "" {
			w.take(path.Base(from.Name), frame[:n], time.Now())
		}
	}
}

// nodeOf splits the name of an end.
func nodeOf(name string) (node string, gateway bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, false
	}
	return name[:i], name[i+1:] == upName
}
