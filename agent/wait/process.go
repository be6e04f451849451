package wait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrMainEnded is the cause of the end of a context of WhileMainRuns.
var ErrMainEnded = errors.New("the unit's main process has ended")

// pollEvery is how often, in milliseconds, WhileMainRuns looks whether its context has ended otherwise.
const pollEvery = 500

// WhileMainRuns is for programs of ExecStartPost= that wait for the unit's main process to serve. The context ends with
// that process (systemd.exec(5), $MAINPID): systemd waits for ExecStartPost= to end even when the main process has
// ended, so that whoever went on waiting would keep the unit from being started again, for good. Without $MAINPID, as
// in ExecStartPre=, it is ctx with a cancel function.
func WhileMainRuns(ctx context.Context) (context.Context, context.CancelFunc, error) {
	text := os.Getenv("MAINPID")
	if text == "" {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid <= 0 {
		return nil, nil, fmt.Errorf("MAINPID is %q, and not the number of a process", text)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		cancel(ErrMainEnded)
		return ctx, func() {}, nil
	}
	if err != nil {
		cancel(nil)
		return nil, nil, fmt.Errorf("watch the unit's main process %d: %w", pid, err)
	}
	go func() {
		defer unix.Close(fd)
		for ctx.Err() == nil {
			// A pidfd is readable when its process has ended (pidfd_open(2)).
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, pollEvery)
			if n > 0 {
				cancel(ErrMainEnded)
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				return // The wait goes on without it.
			}
		}
	}()
	return ctx, func() { cancel(nil) }, nil
}
