// Package uevent listens to what the kernel says about devices that come and go (netlink, NETLINK_KOBJECT_UEVENT). Only
// messages of the kernel itself are taken.
package uevent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage is the kernel's UEVENT_BUFFER_SIZE (2048) with room for the header line, in bytes.
const maxMessage = 8 << 10

// Event is one message.
type Event struct {
	// Action is "add", "remove", "change", …
	Action string
	// Subsystem is such as "block" or "usb".
	Subsystem string
	// Modalias is empty when the device has none.
	Modalias string
}

// Listener is an open socket.
type Listener struct {
	fd  int
	buf []byte
}

// Listen opens the socket. What happens from now on is kept in its buffer until Next takes it.
func Listen() (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listening to device events: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) // a smaller buffer only costs a second look
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listening to device events: %w", err)
	}
	return &Listener{fd: fd, buf: make([]byte, maxMessage)}, nil
}

// Close closes the socket.
func (l *Listener) Close() error { return unix.Close(l.fd) }

// Next returns the events that are there; if there are none it waits up to wait for the first. It returns none when the
// time is over. lost says that the kernel dropped some: look at /sys again.
func (l *Listener) Next(wait time.Duration) (events []Event, lost bool, err error) {
	for {
		n, from, err := unix.Recvfrom(l.fd, l.buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			lost = true
		case errors.Is(err, unix.EAGAIN):
			if len(events) > 0 || lost || wait <= 0 {
				return events, lost, nil
			}
			start := time.Now()
			if err := poll(l.fd, wait); err != nil {
				return nil, false, fmt.Errorf("waiting for device events: %w", err)
			}
			wait -= max(time.Since(start), time.Millisecond)
		case err != nil:
			return nil, false, fmt.Errorf("reading device events: %w", err)
		default:
			if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
				continue
			}
			if e, ok := Parse(l.buf[:n]); ok {
				events = append(events, e)
			}
		}
	}
}

func poll(fd int, wait time.Duration) error {
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(wait.Milliseconds())+1)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// Parse reads one message: "action@devpath", then KEY=VALUE, each ended by a zero byte.
func Parse(b []byte) (Event, bool) {
	fields := strings.Split(string(b), "\x00")
	action, path, ok := strings.Cut(fields[0], "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return Event{}, false
	}
	e := Event{Action: action}
	for _, f := range fields[1:] {
		switch key, value, _ := strings.Cut(f, "="); key {
		case "SUBSYSTEM":
			e.Subsystem = value
		case "MODALIAS":
			e.Modalias = value
		}
	}
	return e, true
}
