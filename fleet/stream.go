package fleet

import (
	"context"
	"errors"
	"io"
	"time"

	"spore/wire/nodeapi"
)

// Stream asks a node for an answer that may take any time and hands it to take. The time limit is for the node to begin;
// patience is for each part of the answer. When either is over, or ctx is, the error is the cause of that.
func (c *Cluster) Stream(ctx context.Context, node string, r nodeapi.Request, patience time.Duration, take func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(c.Timeout, func() { cancel(errors.New("no answer in time")) })
	defer watchdog.Stop()
	body, err := c.Client.Ask(ctx, node, r)
	if err == nil {
		defer body.Close()
		err = take(&alive{body, watchdog, patience})
	}
	if err != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// alive winds up the watchdog whenever something is read.
type alive struct {
	body     io.Reader
	watchdog *time.Timer
	patience time.Duration
}

func (a *alive) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 {
		a.watchdog.Reset(a.patience)
	}
	return n, err
}
