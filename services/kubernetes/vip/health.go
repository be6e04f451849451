package vip

import (
	"context"
	"errors"
	"fmt"

	"spore/agent/wait"
)

// health asks again and again whether the own API server is ready, beside the renewals, which it may not hold up.
type health struct {
	// sick is told once, why it is not.
	sick chan error
	stop context.CancelFunc
}

func (c *campaign) watchHealth(ctx context.Context) *health {
	ctx, cancel := context.WithCancel(ctx)
	h := &health{make(chan error, 1), cancel}
	go func() {
		// It was ready just now.
		_ = wait.Sleep(ctx, c.Timing.Every/2)
		for failed := 0; ; _ = wait.Sleep(ctx, c.Timing.Every) {
			err := c.ready(ctx)
			if ctx.Err() != nil {
				return
			}
			failed++
			if err == nil {
				failed = 0
			}
			if failed >= c.Timing.Patience || errors.Is(err, ErrGone) {
				h.sick <- fmt.Errorf("%w (asked %d times in a row, every %s)", err, failed, c.Timing.Every)
				return
			}
		}
	}()
	return h
}
