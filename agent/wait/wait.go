// Package wait waits for conditions, each with a bound and with words for what it waits: whoever waits says for what.
package wait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Condition is something that will be true, or will not within its bound.
type Condition struct {
	// For says what is waited for, to end a sentence that begins "waiting for".
	For string
	// Bound is the longest wait.
	Bound time.Duration
	// Met tells whether the wait is over.
	Met func() bool
	// Changes, when not nil, delivers a value whenever it is worth asking Met again.
	Changes <-chan struct{}
	// Every is how often Met is asked besides; one second when 0.
	Every time.Duration
	// Say, when not nil, is told once when the wait takes longer than Patience.
	Say      func(string)
	Patience time.Duration
}

// ErrBound is in the error of a wait that was not met within its bound.
var ErrBound = errors.New("not within its bound")

// Until returns when the condition is met, its bound is reached or the context ends.
func Until(ctx context.Context, c Condition) error {
	if c.Met() {
		return nil
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Patience == 0 {
		c.Patience = time.Second
	}
	bound := time.NewTimer(c.Bound)
	defer bound.Stop()
	patience := time.NewTimer(c.Patience)
	defer patience.Stop()
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", c.For, ctx.Err())
		case <-bound.C:
			if c.Met() {
				return nil
			}
			return fmt.Errorf("waited %s for %s: %w", c.Bound, c.For, ErrBound)
		case <-patience.C:
			if c.Say != nil {
				c.Say(fmt.Sprintf("waiting for %s, at most %s", c.For, c.Bound))
			}
		case <-tick.C:
		case <-c.Changes:
		}
		if c.Met() {
			return nil
		}
	}
}

// Dir delivers a value after something in one of the directories changed, until ctx ends. Directories that do not exist
// are left out; without any, the channel stays silent and the caller's tick has to do.
func Dir(ctx context.Context, dirs ...string) <-chan struct{} {
	out := make(chan struct{}, 1)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return out
	}
	for _, d := range dirs {
		_, _ = unix.InotifyAddWatch(fd, d, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	context.AfterFunc(ctx, func() { _ = events.Close() })
	go func() {
		defer events.Close()
		buf := make([]byte, 4096)
		for {
			if _, err := events.Read(buf); err != nil {
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out
}

// Sleep waits for a time, or until it is told to stop.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
