package shell

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"
)

// watchMemory ends a run whose strings grow without end: assignments are no steps, and a variable can double with each.
func (r *run) watchMemory(cancel context.CancelFunc) (stop func()) {
	heap := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	before, done := heap(), make(chan struct{})
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if heap() > before+maxHeap {
					_ = r.end(fmt.Errorf("over %d MiB of memory: %w", maxHeap>>20, ErrBound))
					cancel()
					return
				}
			}
		}
	}()
	return func() { close(done) }
}
