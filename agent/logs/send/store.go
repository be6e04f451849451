package send

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"spore/services/logs/sending"
)

// Pauses between two tries: the first one, and how many times as long they become.
const (
	firstPause = time.Second
	mostPauses = 30
)

// A problem is said when it has lasted for sayAfter, and said again after sayAgain. Each line goes to the stores as
// well.
const (
	sayAfter = 10 * time.Second
	sayAgain = 10 * time.Minute
)

// maxPieces bounds into how many pieces a batch is cut to find what the store calls malformed.
const maxPieces = 64

// store is one store with what waits for it.
type store struct {
	sending.Store
	number   int
	queue    *queue
	upstream *upstream
	counters *counters
	say      func(string)
	now      func() time.Time
	// pause is firstPause but in tests.
	pause time.Duration

	journal *journal
	// unread is of who writes the counters.
	unread unread

	mu sync.Mutex
	// problem is why the last try failed; empty when it did not. since is from when on, said when it was said last.
	problem     string
	since, said time.Time
	// told says that somebody was told of the problem.
	told bool
}

// run sends batch after batch until ctx is over.
func (s *store) run(ctx context.Context) {
	for {
		b, err := s.queue.take(ctx)
		if err != nil {
			return
		}
		pieces := 0
		if err := s.deliver(ctx, b.data, b.ends, 0, &pieces); err != nil {
			return // ctx is over. Nothing is acknowledged: all is sent again after the next start.
		}
		for source, n := range b.by {
			s.counters.add("spore_logs_acknowledged_total", label("store", s.Name, "source", source), float64(n))
		}
		s.counters.set("spore_logs_acknowledged_timestamp_seconds", s.label(), float64(s.now().Unix()))
		s.queue.acknowledge(b)
	}
}

func (s *store) label() string { return label("store", s.Name) }

// deliver sends entries until the store has them, or calls them malformed; ends is where each of them ends in data,
// counted from start on. The error is that of ctx.
func (s *store) deliver(ctx context.Context, data []byte, ends []int, start int, pieces *int) error {
	*pieces++
	a, err := s.insist(ctx, data)
	if err != nil || a == taken {
		return err
	}
	if len(ends) == 1 || a == refused && *pieces > maxPieces {
		s.counters.add("spore_logs_malformed_total", s.label(), float64(len(ends)))
		s.tell(fmt.Sprintf("%d entries were dropped, which %s does not take: %s", len(ends), s.Name, a))
		return nil
	}
	half := len(ends) / 2
	cut := ends[half-1]
	if err := s.deliver(ctx, data[:cut-start], ends[:half], start, pieces); err != nil {
		return err
	}
	return s.deliver(ctx, data[cut-start:], ends[half:], cut, pieces)
}

// insist tries until the store has decided.
func (s *store) insist(ctx context.Context, data []byte) (answer, error) {
	packed := s.upstream.packed(data)
	pause := s.pause
	for {
		a, wait, err := s.upstream.send(ctx, packed)
		if a == later && ctx.Err() != nil {
			return later, ctx.Err()
		}
		s.counters.add("spore_logs_batches_total", label("store", s.Name, "answer", a.String()), 1)
		s.counters.add("spore_logs_sent_bytes_total", s.label(), float64(len(packed)))
		s.note(a, err)
		if a != later {
			return a, nil
		}
		// Many nodes wait for one store: they do not come at the same time.
		if err := sleep(ctx, max(wait, pause/2+rand.N(pause))); err != nil {
			return later, err
		}
		pause = min(2*pause, mostPauses*s.pause)
	}
}

func sleep(ctx context.Context, d time.Duration) error { return pause(ctx, d, nil) }

// note keeps what became of a try, and says what changes.
func (s *store) note(a answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if a == later {
		s.counters.set("spore_logs_store_reached", s.label(), 0)
		if s.problem == "" {
			s.since = now
		}
		s.problem = err.Error()
		if now.Sub(s.since) >= sayAfter && (!s.told || now.Sub(s.said) >= sayAgain) {
			s.said, s.told = now, true
			s.say(fmt.Sprintf("%s does not take entries; they stay on this node: %s", s.Name, s.problem))
		}
		return
	}
	s.counters.set("spore_logs_store_reached", s.label(), 1)
	if s.problem != "" {
		s.problem = ""
		if s.told {
			s.say(fmt.Sprintf("%s takes entries again, after %s", s.Name, now.Sub(s.since).Round(time.Second)))
		}
		s.told = false
	}
	if err != nil && now.Sub(s.said) >= sayAgain {
		s.said = now
		s.say(fmt.Sprintf("%s: %s", s.Name, err))
	}
}

// tell says something, not too often.
func (s *store) tell(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.said) >= sayAgain/10 {
		s.said = now
		s.say(text)
	}
}

// status is a part of the line of systemctl status.
func (s *store) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != "" {
		return fmt.Sprintf("%s: waiting since %s: %.200s", s.Name, s.since.UTC().Format(time.RFC3339), s.problem)
	}
	return s.Name + ": sending"
}
