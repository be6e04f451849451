// Package give gives what the store of logs takes to receivers of the plant: it reads the store's queue for each of
// them, sends, and is past an entry only when the receiver has it. Receivers know nothing of each other: one that is
// away, or answers nonsense, holds up no other, and not the store. What waits for it is on the disk, in the queue.
//
// An entry may arrive twice, after a power cut or a broken connection; it is lost only where the queue is full, or
// where the receiver calls it malformed.
package give

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"spore/agent/logs/give/parcel"
)

const (
	// gather is for how long, and gatherBytes up to how many bytes of lines, batches of the queue are put together.
	gather, gatherBytes = 200 * time.Millisecond, 1 << 20
	// firstWait and mostWait are how long it waits before it tries again: twice as long each time.
	firstWait, mostWait = time.Second, time.Minute
	// mostAsked bounds what a receiver asks for in Retry-After.
	mostAsked = 10 * time.Minute
	// quiet is for how long nothing more is said about the same receiver.
	quiet = time.Minute
	// maxSaid bounds what is said at once, in bytes.
	maxSaid = 512
)

// Queue is the store's queue, as one consumer of it has it: B are its batches.
type Queue[B any] interface {
	// Next waits for the next batch.
	Next(ctx context.Context) (B, error)
	// Done says that a batch, and all before it, need not be kept for this consumer.
	Done(B) error
}

// Receiver takes entries.
type Receiver interface {
	// Give sends entries, in their order, and returns when the receiver has them. With an error, Left of the outcome is
	// sent again later.
	Give(ctx context.Context, entries []parcel.Entry) (parcel.Outcome, error)
}

// Filter is which entries a receiver gets.
type Filter struct {
	// Sources are values of the field _SPORE_SOURCE.
	Sources []string
	// Least is the highest number of PRIORITY.
	Least int
}

func (f Filter) wants(e parcel.Entry) bool {
	return e.Importance() <= f.Least && slices.Contains(f.Sources, e.Get(parcel.Source))
}

// Giver gives to one receiver. Its zero value is not ready: see New.
type Giver[B any] struct {
	name     string
	queue    Queue[B]
	lines    func(B) []byte
	filter   Filter
	receiver Receiver
	clock    Clock
	log      func(string)

	said time.Time

	mu     sync.Mutex
	counts Counts
}

// Clock is the time, and how one waits for it.
type Clock struct {
	Now func() time.Time
	// Sleep returns early with the error of a context that ends.
	Sleep func(context.Context, time.Duration) error
}

// Counts are what became of entries since the program began. How far the receiver is behind, and what it missed, the
// queue tells.
type Counts struct {
	// Given were taken, Filtered were not wanted, and Refused were taken never.
	Given, Filtered, Refused uint64
	// Failures are how often the receiver was away, or said that it takes nothing now.
	Failures uint64
}

// New makes a giver of a name. lines are those of a batch; log takes a line for people.
func New[B any](
	name string, q Queue[B], lines func(B) []byte, f Filter, r Receiver, c Clock, log func(string),
) *Giver[B] {
	return &Giver[B]{name: name, queue: q, lines: lines, filter: f, receiver: r, clock: c, log: log}
}

// Counts are what became of entries until now.
func (g *Giver[B]) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

// Run gives until the context ends, whose error it returns. A queue that cannot be read is tried again, too: its disk
// may be full.
func (g *Giver[B]) Run(ctx context.Context) error {
	for {
		batches, entries, malformed, err := g.gather(ctx)
		if err == nil {
			g.count(func(c *Counts) { c.Refused += uint64(malformed) })
			if err = g.giveAll(ctx, entries); err == nil {
				err = g.done(batches)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			g.complain(err)
			if err := g.clock.Sleep(ctx, firstWait); err != nil {
				return err
			}
		}
	}
}

// gather waits for a batch, and takes those with it that follow soon.
func (g *Giver[B]) gather(ctx context.Context) (batches []B, entries []parcel.Entry, malformed int, err error) {
	size := 0
	add := func(b B) {
		lines := g.lines(b)
		size += len(lines)
		got, bad := parcel.Parse(lines)
		batches, malformed = append(batches, b), malformed+bad
		for _, e := range got {
			if g.filter.wants(e) {
				entries = append(entries, e)
				continue
			}
			g.count(func(c *Counts) { c.Filtered++ })
		}
	}
	b, err := g.queue.Next(ctx)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the queue: %w", err)
	}
	add(b)
	soon, cancel := context.WithTimeout(ctx, gather)
	defer cancel()
	for size < gatherBytes {
		b, err := g.queue.Next(soon)
		if err != nil { // It is over, or said again by the next one that waits.
			break
		}
		add(b)
	}
	return batches, entries, malformed, nil
}

// giveAll has the receiver take entries, however long that takes. Those that it calls malformed again and again are
// left out, so that others go on.
func (g *Giver[B]) giveAll(ctx context.Context, entries []parcel.Entry) error {
	wait, rejections := firstWait, 0
	for len(entries) > 0 {
		got := g.give(ctx, entries)
		entries = got.left
		if got.taken > 0 {
			wait, rejections = firstWait, 0
		}
		var rejected *parcel.Rejected
		if errors.As(got.err, &rejected) {
			if rejections++; rejections >= mostRejections {
				got.refused, got.why, got.err = got.refused+len(entries), rejected.Error(), nil
				entries = nil
			}
		}
		g.count(func(c *Counts) {
			c.Given, c.Refused = c.Given+uint64(got.taken), c.Refused+uint64(got.refused)
		})
		if got.refused > 0 {
			g.complain(fmt.Errorf("the receiver refuses %d entries, which are left out: %s", got.refused, got.why))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if got.err == nil {
			break
		}
		g.count(func(c *Counts) { c.Failures++ })
		g.complain(got.err)
		if err := g.clock.Sleep(ctx, pause(wait, got.err)); err != nil {
			return err
		}
		wait = min(2*wait, mostWait)
	}
	return nil
}

// pause is how long to wait: what the receiver asks for, where it asks.
func pause(wait time.Duration, err error) time.Duration {
	var later *parcel.Later
	if errors.As(err, &later) && later.After > 0 {
		return min(later.After, mostAsked)
	}
	return wait
}

func (g *Giver[B]) done(batches []B) error {
	for _, b := range batches {
		if err := g.queue.Done(b); err != nil {
			return fmt.Errorf("keep the position in the queue: %w", err)
		}
	}
	return nil
}

func (g *Giver[B]) count(change func(*Counts)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.counts)
}

// complain says what is wrong, at most once a minute.
func (g *Giver[B]) complain(err error) {
	now := g.clock.Now()
	if since := now.Sub(g.said); !g.said.IsZero() && since >= 0 && since < quiet {
		return
	}
	g.said = now
	g.log("give to " + g.name + ": " + parcel.Cut(printable(err.Error()), maxSaid))
}

// printable is a text without control characters: a receiver's answer may be in it.
func printable(s string) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, []byte(s)))
}
