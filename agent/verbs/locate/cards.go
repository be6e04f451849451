package locate

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"spore/agent/nic"
	"spore/agent/paths"
)

const (
	// maxCards bounds how many network cards are blinked.
	maxCards = 16
	// turn is how long a card blinks before the next one does, in seconds. The kernel blinks one at a time (Linux,
	// net/ethtool/ioctl.c, ethtool_phys_id), and a turn is not cut short.
	turn = 2
	// pause is between turns: a driver that returns at once does not keep a processor busy.
	pause = 100 * time.Millisecond
)

// Cards are the network cards of a machine.
type Cards struct {
	// List names them, and Identify has one blink for some seconds. The error of a driver that has no lamp is
	// unix.EOPNOTSUPP.
	List     func() ([]string, error)
	Identify func(name string, seconds uint32) error
}

// OfMachine are those of the machine with this root.
func OfMachine(root paths.Root) Cards {
	return Cards{Identify: identify, List: func() (names []string, err error) {
		cards, err := nic.List(root.At("/run/systemd/container"))
		for _, c := range cards {
			names = append(names, c.Name)
		}
		return names, err
	}}
}

// names are those that are tried.
func (c Cards) names() ([]string, error) {
	names, err := c.List()
	return names[:min(len(names), maxCards)], err
}

// try has each card blink for a second, and returns those that can, and those whose driver has no lamp.
func (c Cards) try(ctx context.Context, names []string) (blink, without []string, problems []error) {
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		switch err := c.Identify(name, 1); {
		case err == nil:
			blink = append(blink, name)
		case errors.Is(err, unix.EOPNOTSUPP):
			without = append(without, name)
		default:
			problems = append(problems, err)
		}
	}
	return blink, without, problems
}

// blink has cards blink in turn until the context ends, and no longer than a turn after.
func (c Cards) blink(ctx context.Context, names []string) (problems []error) {
	for i := 0; len(names) > 0 && ctx.Err() == nil; i++ {
		at := i % len(names)
		if err := c.Identify(names[at], turn); err != nil {
			problems = append(problems, err)
			names = append(names[:at:at], names[at+1:]...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return problems
}

// physID is struct ethtool_value of the kernel (Linux, include/uapi/linux/ethtool.h).
type physID struct{ command, seconds uint32 }

// request is struct ifreq with a pointer (Linux, include/uapi/linux/if.h).
type request struct {
	name [unix.IFNAMSIZ]byte
	data *physID
	_    [16]byte
}

// identify has the lamp of a card blink (ethtool --identify).
func identify(name string, seconds uint32) error {
	if len(name) >= unix.IFNAMSIZ {
		return fmt.Errorf("network card %.64q: %w", name, unix.EINVAL)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network card %s: %w", name, err)
	}
	defer unix.Close(fd)
	r := request{data: &physID{unix.ETHTOOL_PHYS_ID, seconds}}
	copy(r.name[:], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return fmt.Errorf("network card %s: blink: %w", name, errno)
	}
	return nil
}
