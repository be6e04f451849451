package boot

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// typeThere hands what is typed at a terminal to the machine, key by key. The terminal shows none of it, because the machine
// echoes what may be seen; Ctrl-C stays the terminal's. restore makes the terminal what it was. A standard input that is no
// terminal, or that of somebody else in the foreground, is left alone.
func typeThere(tty *os.File, send func(string) error) (restore func(), err error) {
	fd := int(tty.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}, nil
	}
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() {
		return func() {}, nil
	}
	raw := *old
	raw.Lflag &^= unix.ECHO | unix.ICANON
	raw.Iflag &^= unix.ICRNL
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set up the terminal: %w", err)
	}
	go func() {
		for key := make([]byte, 256); ; {
			n, err := tty.Read(key)
			if err != nil || send(string(key[:n])) != nil {
				return
			}
		}
	}()
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, old) }, nil
}
