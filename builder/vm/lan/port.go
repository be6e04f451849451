package lan

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// queued is how many frames wait for a machine that is slow; more are lost, as on a wire.
	queued = 1024
	// firstRetry and lastRetry bound the pauses while the machine's socket is full, which the kernel has room for ten
	// frames in (net.unix.max_dgram_qlen), and patience how long one frame is tried.
	firstRetry, lastRetry = 50 * time.Microsecond, 5 * time.Millisecond
	patience              = time.Second
)

// socket is the port of a machine's socket. It has a queue, so that a machine that stands still holds up nobody else.
type socket struct {
	raw    syscall.RawConn
	to     unix.SockaddrUnix
	frames chan []byte
}

func newPort(raw syscall.RawConn, path string) port {
	s := &socket{raw: raw, to: unix.SockaddrUnix{Name: path}, frames: make(chan []byte, queued)}
	go s.run()
	return s
}

func (s *socket) send(frame []byte) {
	select {
	case s.frames <- slices.Clone(frame):
	default:
	}
}

func (s *socket) close() { close(s.frames) }

// run sends what is queued. Whether a socket that is not connected can be written to cannot be waited for (poll(2) looks at
// the writer's own buffer), so it is tried again after a pause.
func (s *socket) run() {
	for frame := range s.frames {
		end, pause := time.Now().Add(patience), firstRetry
		for s.try(frame) && time.Now().Before(end) {
			time.Sleep(pause)
			pause = min(2*pause, lastRetry)
		}
	}
}

// try sends a frame; it tells whether to try again. Nobody hears one at the end of a cable that is plugged into nothing.
func (s *socket) try(frame []byte) (again bool) {
	err := s.raw.Control(func(fd uintptr) {
		again = errors.Is(unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &s.to), unix.EAGAIN)
	})
	return again && err == nil
}
