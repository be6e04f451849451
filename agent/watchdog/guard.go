package watchdog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// feeds is how often the watchdog is fed within the time that it waits.
	feeds = 4
	// patience is how many of those times may pass between two signs of life of the work.
	patience = 5
)

// Guard feeds a watchdog as long as the work goes on: only while somebody has called Alive within the bound. So a
// machine is reset whose kernel hangs, since nothing is fed then, and one whose kernel lives while the work hangs.
//
// It takes signs of life before there is a watchdog, and when there never is one. A nil Guard guards nothing.
type Guard struct {
	now   func() time.Duration
	say   func(string)
	alive atomic.Int64

	mu     sync.Mutex
	device Device
	stop   chan struct{}
	done   chan struct{}
}

// NewGuard returns a guard without a watchdog. now is a clock that nobody sets, whatever its beginning; say is told
// when the guard feeds no more, and when feeding fails.
func NewGuard(now func() time.Duration, say func(string)) *Guard {
	g := &Guard{now: now, say: say}
	g.Alive()
	return g
}

// Bound is how long the work may take from one sign of life to the next, with a watchdog that waits for timeout.
func Bound(timeout time.Duration) time.Duration { return patience * timeout }

// Alive is a sign of life. Whoever waits for something calls it in each round of the wait.
func (g *Guard) Alive() {
	if g != nil {
		g.alive.Store(int64(g.now()))
	}
}

// Feed sets the device to timeout and feeds it from now on, until HandOver. It returns how long the device waits.
func (g *Guard) Feed(d Device, timeout time.Duration) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.device != nil {
		return 0, errors.New("internal error: a second watchdog")
	}
	set, err := d.SetTimeout(timeout)
	if err != nil {
		// Its timer runs, with a time of its own: a machine that is well must not be reset for that.
		g.say(err.Error())
		set = timeout
	}
	if err := d.Feed(); err != nil {
		return 0, err
	}
	g.device, g.stop, g.done = d, make(chan struct{}), make(chan struct{})
	go g.run(d, Bound(timeout), set/feeds)
	return set, nil
}

// run feeds until it is stopped.
func (g *Guard) run(d Device, bound, every time.Duration) {
	defer close(g.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	hungry := false
	for {
		select {
		case <-g.stop:
			return
		case <-ticker.C:
		}
		silent := g.now() - time.Duration(g.alive.Load())
		if silent > bound {
			if !hungry {
				g.say(fmt.Sprintf("nothing has gone on for %s: the watchdog is not fed any more, and resets the machine", silent.Round(time.Second)))
			}
			hungry = true
			continue
		}
		hungry = false
		if err := d.Feed(); err != nil {
			g.say(err.Error())
		}
	}
}

// HandOver feeds the watchdog a last time and closes it with its timer running: whoever takes the machine over has its
// whole time to open it again. Without a watchdog it does nothing.
func (g *Guard) HandOver() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	d := g.device
	g.device = nil
	g.mu.Unlock()
	if d == nil {
		return nil
	}
	close(g.stop)
	<-g.done
	return errors.Join(d.Feed(), d.Release())
}
