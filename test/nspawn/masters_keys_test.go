//go:build e2e

package nspawn

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// key is the name of a key by its number.
func key(number int) string { return fmt.Sprintf("/test/%05d", number) }

// put has etcd keep more keys, and holdsKeys requires that all of them are there, asked from a node.
func (m *masters) put(on *Node) {
	m.t.Helper()
	c := m.etcd(on)
	for range 50 {
		m.within("a key is put", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := c.Put(ctx, key(m.keys), "x")
			return err
		})
		m.keys++
	}
}

func (m *masters) holdsKeys(on *Node) {
	m.t.Helper()
	c := m.etcd(on)
	m.within("the keys are there", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// One more may be there, which was not acknowledged before the power went.
		answer, err := c.Get(ctx, key(0), clientv3.WithRange(key(m.keys)), clientv3.WithCountOnly())
		if err == nil && answer.Count != int64(m.keys) {
			return fmt.Errorf("there are %d of %d", answer.Count, m.keys)
		}
		return err
	})
}

// cutAmidPuts takes the power from all masters at once while keys are put by the first of them, and counts those that
// were acknowledged.
func (m *masters) cutAmidPuts(nodes ...*Node) {
	m.t.Helper()
	c := m.etcd(nodes[0])
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var acked atomic.Int64
	first, done := m.keys, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// An error is a member that has no leader yet, or no power any more.
			if _, err := c.Put(ctx, key(first+int(acked.Load())), "x"); err == nil {
				acked.Add(1)
			}
		}
	}()
	want := int64(20 + m.random.IntN(200))
	m.within("keys are put", func() error {
		if have := acked.Load(); have < want {
			return fmt.Errorf("%d of %d are", have, want)
		}
		return nil
	})
	m.PowerLoss(nodes...)
	stop()
	<-done
	m.keys += int(acked.Load())
	m.t.Logf("all masters lost power after %d acknowledged keys", acked.Load())
}
