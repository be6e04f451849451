package send

import (
	"context"
	"fmt"
	"time"
)

// pauseOfSource is how long nothing is read of a source after an error.
const pauseOfSource = 10 * time.Second

// pump brings one source to one store until ctx is over. ended is closed when no batch is acknowledged any more.
func (s *store) pump(ctx context.Context, source Source, ended <-chan struct{}) {
	trouble := func(err error) bool {
		if ctx.Err() != nil {
			return false
		}
		s.tell(fmt.Sprintf("read what %s has logged, for %s: %s", source.Name(), s.Name, err))
		return sleep(ctx, pauseOfSource) == nil
	}
	var in Reader
	for in == nil {
		var err error
		if in, err = source.Open(s.Name); err != nil {
			in = nil
			if !trouble(err) {
				return
			}
		}
	}
	defer func() {
		<-ended
		if err := in.Close(); err != nil {
			s.say(fmt.Sprintf("%s, for %s: %s", source.Name(), s.Name, err))
		}
	}()
	for {
		b, err := in.Next(ctx)
		if err != nil {
			if !trouble(err) {
				return
			}
			continue
		}
		if err := s.bring(ctx, source.Name(), in, b); err != nil {
			return
		}
	}
}

// bring puts a batch of a source into the queue.
func (s *store) bring(ctx context.Context, source string, in Reader, b Batch) error {
	for i, e := range b.Entries {
		it := item{source: source, at: writtenAt(e), data: s.encode(nil, e, source)}
		if i == len(b.Entries)-1 {
			it.acknowledged = func() {
				if err := in.Done(b); err != nil {
					s.tell(fmt.Sprintf("%s, for %s: %s", source, s.Name, err))
				}
			}
		}
		if err := s.queue.add(ctx, it); err != nil {
			return err
		}
		s.counters.add("spore_logs_sent_total", label("store", s.Name, "source", source), 1)
	}
	return nil
}
