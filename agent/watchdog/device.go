// Package watchdog opens and feeds the hardware watchdog of a machine: a timer that resets the machine when nobody
// feeds it (Linux Documentation/watchdog/watchdog-api.rst). stage1 guards the start with it, and systemd takes it over.
//
// It never disarms a watchdog, and leaves out pretimeouts and the older /dev/watchdog, which has no entry in sysfs.
package watchdog

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the first watchdog of the machine, the one that systemd takes.
const Path = "/dev/watchdog0"

// Timeout is how long a watchdog waits to be fed. RuntimeWatchdogSec= in overlay/ says the same: every watchdog of the
// last fifteen years can wait that long, and an overloaded machine feeds it in that time.
const Timeout = time.Minute

// cardReset is WDIOF_CARDRESET of linux/watchdog.h: the last reset was the watchdog's.
const cardReset = 0x20

// Device is an open watchdog. A *Hardware is one.
type Device interface {
	// SetTimeout sets how long the watchdog waits, in whole seconds, and returns what the driver made of it.
	SetTimeout(time.Duration) (time.Duration, error)
	// Feed begins that time anew.
	Feed() error
	// Release closes the device; its timer runs on.
	Release() error
}

// Hardware is a watchdog that the kernel has a driver of. Its timer has run since Open.
type Hardware struct {
	file *os.File
	// Identity is how the driver calls it, such as "i6300ESB timer"; empty when it does not say.
	Identity string
}

// Open opens the watchdog at path, such as Path, and so starts its timer. The error wraps fs.ErrNotExist when the
// machine has none.
func Open(path string) (*Hardware, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the watchdog: %w", err)
	}
	h := &Hardware{file: f}
	// One without identity is a watchdog as well.
	if info, err := unix.IoctlGetWatchdogInfo(int(f.Fd())); err == nil {
		h.Identity = printable(info.Identity[:])
	}
	return h, nil
}

// SetTimeout is WDIOC_SETTIMEOUT. A driver may round, or keep a time of its own; what it has then is no error.
func (h *Hardware) SetTimeout(d time.Duration) (time.Duration, error) {
	seconds := int(d / time.Second)
	err := unix.IoctlSetPointerInt(int(h.file.Fd()), unix.WDIOC_SETTIMEOUT, seconds)
	if set, getErr := unix.IoctlGetInt(int(h.file.Fd()), unix.WDIOC_GETTIMEOUT); getErr == nil && set > 0 {
		return time.Duration(set) * time.Second, nil
	}
	if err != nil {
		return 0, fmt.Errorf("set the watchdog to %d s: %w", seconds, err)
	}
	return d, nil
}

// Feed is WDIOC_KEEPALIVE.
func (h *Hardware) Feed() error {
	if err := unix.IoctlWatchdogKeepalive(int(h.file.Fd())); err != nil {
		return fmt.Errorf("feed the watchdog: %w", err)
	}
	return nil
}

// HasReset tells whether it was this watchdog that started the machine again (WDIOF_CARDRESET). Not every driver knows.
func (h *Hardware) HasReset() bool {
	status, err := unix.IoctlGetInt(int(h.file.Fd()), unix.WDIOC_GETBOOTSTATUS)
	return err == nil && status&cardReset != 0
}

// Release closes the device without the character V, which would stop the timer.
func (h *Hardware) Release() error {
	if err := h.file.Close(); err != nil {
		return fmt.Errorf("close the watchdog: %w", err)
	}
	return nil
}
