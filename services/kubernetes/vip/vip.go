// Package vip has one master at a time hold the virtual address of the Kubernetes API (controlPlaneEndpoint of cluster.yaml).
//
// Masters whose own API server is ready try to take a lock in etcd; who has it puts the address on its network card and tells
// the network. The order of two clocks makes it safe: the address has a lifetime in the kernel that ends, with the most that the
// kernel may be late, before the lock may become another's. So the address of a master whose agent hangs, is stopped or
// starved is gone from its card before another takes it, with nobody's help.
//
// One case is left, which no program on the node can close: a machine that is stopped as a whole and goes on later, as a virtual
// machine can be, goes on with the lifetimes that it had. It finds out when etcd answers its next renewal, which it asks for within
// Timing.Every; and whatever etcd and the agent do, the address is gone when the lifetime ends that was left. It announces
// nothing before it knows.
//
// It knows neither etcd nor netlink; package lock and package address do.
package vip

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spore/agent/wait"
	"spore/services/kubernetes/vip/holder"
	"spore/services/kubernetes/vip/lock"
)

// Timing is how long things take. All of it belongs together; see Times.
type Timing struct {
	// Lease is how long the lock is another's at the earliest after this master last renewed it.
	Lease time.Duration
	// Every is the time between renewals, and between questions whether the own API server is ready.
	Every time.Duration
	// Slack is how long before the lock may be another's the lifetime in the kernel ends.
	Slack time.Duration
	// Late is the most by which the kernel is late with taking the address away then. The rest of Slack is for a processor that is
	// too busy for its timers, and for clocks that differ in speed.
	Late time.Duration
	// Patience is how many times in a row the own API server may be not ready before the address is given up.
	Patience int
	// Repeats is how many announcements follow the first, one after each renewal; later there is one after every Remind-th, for
	// whom a machine that went on after a stop told otherwise.
	Repeats, Remind int
}

// Times are the times for a machine that is so many times slower than others (slowMachine of kubernetes.yaml).
func Times(slow int, late time.Duration) Timing {
	s := time.Duration(slow)
	return Timing{Lease: 8 * s * time.Second, Every: s * time.Second, Slack: 1750 * s * time.Millisecond, Late: late, Patience: 3, Repeats: 4, Remind: 30}
}

// Lifetime is the most that the address is given in the kernel, which counts in whole seconds.
func (t Timing) Lifetime() time.Duration { return (t.Lease - t.Slack).Truncate(time.Second) }

// Lock is what package lock has.
type Lock interface {
	Look(ctx context.Context) (lock.State, error)
	Wait(ctx context.Context, s lock.State) error
	Forget(ctx context.Context, s lock.State) error
	Acquire(ctx context.Context) (Held, error)
}

// Held is what lock.Held has.
type Held interface {
	Until() time.Duration
	Renew(ctx context.Context) error
	Release(ctx context.Context) error
}

// Etcd is a lock of package lock as Run wants it.
func Etcd(l *lock.Lock) Lock { return etcd{l} }

type etcd struct{ *lock.Lock }

func (e etcd) Acquire(ctx context.Context) (Held, error) {
	held, err := e.Lock.Acquire(ctx)
	if err != nil {
		return nil, err // and not a Held that holds a nil
	}
	return held, nil
}

// Card is where the address is put.
type Card interface {
	// Ready says why the address cannot be put anywhere now; nil is that it can.
	Ready() error
	// Put gives the address for whole seconds from now.
	Put(seconds int) error
	// Remove takes it away, wherever it is, and tells whether it was there.
	Remove() (bool, error)
	// Announce tells the network where the address is.
	Announce() error
}

// Options says what to hold and how.
type Options struct {
	// Address is the virtual address, Node this master's name: the owner of the lock.
	Address, Node string
	Lock          Lock
	Card          Card
	// Ready asks whether the own API server is ready. ErrGone is in the error when there is none.
	Ready  func(ctx context.Context) error
	Timing Timing
	// Clock is the lock's.
	Clock func() time.Duration
	// Say is for the journal, State is told at each change. Alive is called again and again, at least every four leases, as
	// long as nothing hangs.
	Say   func(string)
	State func(holder.State)
	Alive func()
}

// ErrGone is an API server that does not even accept connections: it is not worth waiting for.
var ErrGone = errors.New("it does not run")

// Run tries for the address and holds it until ctx ends, and gives it up then. It begins with taking the address off the cards,
// where a former life may have left it.
func Run(ctx context.Context, o Options) error {
	if o.Clock == nil {
		o.Clock = lock.Now
	}
	c := &campaign{Options: o}
	removed, err := o.Card.Remove()
	if err != nil {
		return err
	}
	if removed {
		o.Say(fmt.Sprintf("took %s away, which was left here", o.Address))
	}
	for ctx.Err() == nil {
		o.Alive()
		held, err := c.try(ctx)
		if held == nil {
			if err != nil && ctx.Err() == nil {
				c.tell(holder.State{Problem: err.Error()})
			}
			_ = wait.Sleep(ctx, o.Timing.Every)
			continue
		}
		if err := c.hold(ctx, held); err != nil {
			return err
		}
		_ = wait.Sleep(ctx, o.Timing.Every) // another may be better
	}
	return nil
}

type campaign struct {
	Options
	told holder.State
}

// tell passes on what is new.
func (c *campaign) tell(s holder.State) {
	s.Address = c.Address
	if s == c.told {
		return
	}
	if s.Problem != "" && s.Problem != c.told.Problem {
		c.Say(s.Problem)
	}
	c.told = s
	c.State(s)
}

// try waits until the lock may be had, and takes it. It returns nothing when it is to be tried again.
func (c *campaign) try(ctx context.Context) (Held, error) {
	if err := c.fit(ctx); err != nil {
		return nil, fmt.Errorf("does not try for %s: %w", c.Address, err)
	}
	state, err := bound(ctx, c.Timing.Lease/2, c.Lock.Look)
	if err != nil {
		return nil, fmt.Errorf("waits for etcd: %w", err)
	}
	switch state.Holder {
	case "":
	case c.Node:
		// The process that took it has ended; the card does not have the address any more.
		_, err := bound(ctx, c.Timing.Lease/2, func(ctx context.Context) (any, error) { return nil, c.Lock.Forget(ctx, state) })
		if err != nil {
			return nil, err
		}
	default:
		c.tell(holder.State{Holder: state.Holder})
		// A watch that breaks says so, or nothing: look again now and then.
		ctx, cancel := context.WithTimeout(ctx, 4*c.Timing.Lease)
		defer cancel()
		if err := c.Lock.Wait(ctx, state); err != nil {
			return nil, nil
		}
		if err := c.fit(ctx); err != nil {
			return nil, fmt.Errorf("does not try for %s: %w", c.Address, err)
		}
	}
	held, err := bound(ctx, c.Timing.Lease/2, c.Lock.Acquire)
	if errors.Is(err, lock.ErrLost) {
		return nil, nil // another was faster
	}
	return held, err
}

// fit says why this master should not have the address.
func (c *campaign) fit(ctx context.Context) error {
	if err := c.Card.Ready(); err != nil {
		return err
	}
	return c.ready(ctx)
}

func (c *campaign) ready(ctx context.Context) error {
	_, err := bound(ctx, 2*c.Timing.Every, func(ctx context.Context) (any, error) { return nil, c.Ready(ctx) })
	if err != nil {
		return fmt.Errorf("its own API server is not ready: %w", err)
	}
	return nil
}

// hold has the address here until the lock is lost or given up, or ctx ends. Only an address that cannot be removed is an error;
// the kernel's lifetime is what is left then.
func (c *campaign) hold(ctx context.Context, held Held) error {
	health := c.watchHealth(ctx)
	defer health.stop()
	why := c.keep(ctx, held, health)
	if _, err := c.Card.Remove(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		why = errors.New("stops")
	}
	c.tell(holder.State{Problem: fmt.Sprintf("gave up %s: %v", c.Address, why)})
	if errors.Is(why, lock.ErrLost) {
		return nil
	}
	// Whether etcd hears of it or not: the card does not have the address any more.
	_, err := bound(context.WithoutCancel(ctx), 2*c.Timing.Every, func(ctx context.Context) (any, error) { return nil, held.Release(ctx) })
	if err != nil {
		c.Say(err.Error())
	}
	return nil
}

// keep puts the address on the card again and again, and returns why it does not any more.
func (c *campaign) keep(ctx context.Context, held Held, health *health) error {
	if err := c.put(held); err != nil {
		return err
	}
	c.Say(fmt.Sprintf("holds %s", c.Address))
	c.tell(holder.State{Holder: c.Node, Here: true})
	tick := time.NewTicker(c.Timing.Every)
	defer tick.Stop()
	c.announce(0)
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-health.sick:
			return err
		case <-tick.C:
		}
		c.Alive()
		if err := c.Card.Ready(); err != nil {
			return err
		}
		proved, err := c.renew(ctx, held)
		if err != nil {
			return err
		}
		// Where nothing is proved, this machine may just go on after a stop, and the address be another's.
		if proved {
			c.announce(n)
			n++
		}
	}
}

// announce tells the network where the address is, if it is time for that after so many renewals.
func (c *campaign) announce(renewals int) {
	if renewals > c.Timing.Repeats && renewals%c.Timing.Remind != 0 {
		return
	}
	if err := c.Card.Announce(); err != nil {
		c.Say(err.Error())
	}
}

// renew proves that the lock is held and lets the address live on. Without a proof it leaves the address as it is, until that
// must be gone.
func (c *campaign) renew(ctx context.Context, held Held) (proved bool, err error) {
	left := held.Until() - c.Timing.Slack - c.Clock()
	_, err = bound(ctx, min(2*c.Timing.Every, max(left, 0)), func(ctx context.Context) (any, error) { return nil, held.Renew(ctx) })
	switch {
	case errors.Is(err, lock.ErrLost):
		return false, err
	case err == nil:
		c.tell(holder.State{Holder: c.Node, Here: true})
		return true, c.put(held)
	case held.Until()-c.Timing.Slack <= c.Clock():
		return false, fmt.Errorf("etcd did not say in time that it may stay: %w", err)
	}
	c.tell(holder.State{Holder: c.Node, Here: true, Problem: err.Error()})
	return false, nil
}

// put gives the address the lifetime that the lock allows. The process can be stopped at any point: between looking at the clock
// and the system call, too, which then would have the address live from now. So it looks at the clock again afterwards.
func (c *campaign) put(held Held) error {
	seconds := int((held.Until() - c.Timing.Slack - c.Clock()) / time.Second)
	if seconds < 1 {
		return errors.New("etcd's answer came too late")
	}
	if err := c.Card.Put(seconds); err != nil {
		return err
	}
	if c.Clock()+time.Duration(seconds)*time.Second+c.Timing.Late > held.Until() {
		return errors.New("this process was stopped for too long")
	}
	return nil
}

// bound gives a question a bound.
func bound[T any](ctx context.Context, d time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return ask(ctx)
}
