package unit

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"spore/agent/wait"
	"spore/services/metrics"
)

// patience is how long the store may take to open its data: less than systemd gives a start.
const patience = time.Minute

// Ready waits until the store of this node answers: vmalert looks once, after its first evaluation, since when its
// alerts are true. Without the store it would begin anew. After a minute it returns all the same: rules that are
// evaluated later are better than none.
func Ready(ctx context.Context, say func(string)) error {
	return ready(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(metrics.Port)), patience, say)
}

// ready waits for whoever listens at an address: the store listens when its data are open.
func ready(ctx context.Context, address string, bound time.Duration, say func(string)) error {
	d := net.Dialer{Timeout: time.Second}
	err := wait.Until(ctx, wait.Condition{
		For: "the store of metrics", Bound: bound, Every: 200 * time.Millisecond, Say: say,
		Met: func() bool {
			c, err := d.DialContext(ctx, "tcp", address)
			if err != nil {
				return false
			}
			c.Close()
			return true
		},
	})
	if errors.Is(err, wait.ErrBound) {
		say(err.Error() + "; going on without it")
		return nil
	}
	return err
}
