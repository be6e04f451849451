package send

import (
	"context"
	"sync"
	"time"
)

// maxBatch bounds a batch in bytes before it is compressed (docs/logs.md).
const maxBatch = 4 << 20

// linger is how long a batch waits for more entries.
const linger = time.Second

// queue is what waits for one store: the batch that is filled, while the one before is on its way.
type queue struct {
	linger time.Duration
	now    func() time.Time

	mu sync.Mutex
	// changed is closed, and made anew, at each change.
	changed chan struct{}
	filling batch
	// full says that somebody waits for room.
	full bool
	// put counts entries that came, done those that the store has acknowledged.
	put, done uint64
	// oldest is when the first entry of the batch that is on its way was written, in µs since 1970; 0 without one.
	oldest int64
}

// batch is entries in the export format.
type batch struct {
	data []byte
	// ends has where each entry ends.
	ends []int
	// by counts entries by source.
	by map[string]uint64
	// tell is called when the store has them.
	tell  []told
	began time.Time
	// oldest is when the first entry was written, in µs since 1970.
	oldest int64
}

// told is called when a store has an entry. Of several of one key that follow each other, the last one is.
type told struct {
	key string
	do  func()
}

// item is an entry to be sent.
type item struct {
	source string
	data   []byte
	// at is when it was written, in µs since 1970.
	at  int64
	key string
	// acknowledged may be nil.
	acknowledged func()
}

func newQueue(linger time.Duration, now func() time.Time) *queue {
	return &queue{linger: linger, now: now, changed: make(chan struct{})}
}

// broadcast wakes all that wait; mu is held.
func (q *queue) broadcast() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// add puts an entry into the batch, and waits for room. The entry is taken when the error is nil.
func (q *queue) add(ctx context.Context, it item) error {
	for {
		q.mu.Lock()
		if len(q.filling.data) == 0 || len(q.filling.data)+len(it.data) <= maxBatch {
			q.fill(it)
			q.mu.Unlock()
			return nil
		}
		if !q.full {
			q.full = true
			q.broadcast()
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (q *queue) fill(it item) {
	b := &q.filling
	if len(b.data) == 0 {
		*b = batch{by: map[string]uint64{}, began: q.now(), oldest: it.at}
		defer q.broadcast()
	}
	b.data = append(b.data, it.data...)
	b.ends = append(b.ends, len(b.data))
	b.by[it.source]++
	if it.acknowledged != nil {
		t := told{it.key, it.acknowledged}
		if n := len(b.tell); n > 0 && it.key != "" && b.tell[n-1].key == it.key {
			b.tell[n-1] = t
		} else {
			b.tell = append(b.tell, t)
		}
	}
	q.put++
}

// take waits for a batch that is full, or has waited for long enough.
func (q *queue) take(ctx context.Context) (batch, error) {
	for {
		q.mu.Lock()
		b := q.filling
		wait := time.Duration(-1)
		if len(b.data) > 0 {
			wait = b.began.Add(q.linger).Sub(q.now())
		}
		if len(b.data) > 0 && (q.full || wait <= 0) {
			q.filling, q.full, q.oldest = batch{}, false, b.oldest
			q.broadcast()
			q.mu.Unlock()
			return b, nil
		}
		changed := q.changed
		q.mu.Unlock()
		if err := pause(ctx, wait, changed); err != nil {
			return batch{}, err
		}
	}
}

// pause waits for a change, or for a time where it is not negative.
func pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) error {
	var late <-chan time.Time
	if wait >= 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
	case <-changed:
	}
	return nil
}

// acknowledge tells whoever wants to know that a batch is done with.
func (q *queue) acknowledge(b batch) {
	for _, t := range b.tell {
		t.do()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done += uint64(len(b.ends))
	q.oldest = 0
	q.broadcast()
}

// settled waits until all that came up to now is acknowledged.
func (q *queue) settled(ctx context.Context) error {
	q.mu.Lock()
	upTo := q.put
	for q.done < upTo {
		changed := q.changed
		q.mu.Unlock()
		if err := pause(ctx, -1, changed); err != nil {
			return err
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

// waiting is when the oldest entry was written that is not acknowledged, in µs since 1970; 0 without one.
func (q *queue) waiting() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.oldest != 0 {
		return q.oldest
	}
	if len(q.filling.data) > 0 {
		return q.filling.oldest
	}
	return 0
}
