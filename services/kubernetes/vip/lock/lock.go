// Package lock is a lock in etcd that one of several owners has at a time, for no longer than its lease: a key that is
// created under a lease, by whoever finds it absent. etcd deletes the key when the lease ends.
//
// The package clientv3/concurrency has such locks, and keeps leases alive beside them. It is not used here because it does not
// say until when a lease lasts at least: its answers come from a stream, without the time at which they were asked for, and
// they may come from a leader that is none any more. Here a lease is proved to last until Held.Until on the own clock:
//
//   - etcd counts a lease anew when it grants or renews it, which is after this side has asked. So the time of asking plus the
//     lifetime is a time at which the lease still lasts.
//   - A leader that was cut off or stopped renews leases too for a moment, while its successor may count down already. An answer is
//     believed when a question that takes a majority (a linearizable read) is answered after it in the same term: a term has
//     one leader, and with a newer one there would be a newer term.
//   - A new leader gives every lease its full lifetime again. That makes it longer, never shorter.
//
// What it needs besides is that clocks run at the same speed but for the slack that the caller leaves.
package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// ErrLost says that the lock is another's or nobody's.
var ErrLost = errors.New("the lock is lost")

// Lock is a lock as one of its owners sees it.
type Lock struct {
	Client *clientv3.Client
	// Key is the lock's in etcd, Owner the value that says who has it. No two processes may have the same owner.
	Key, Owner string
	// Lifetime is how long a lease lasts without being renewed; whole seconds.
	Lifetime time.Duration
	// Clock is a clock that nobody sets and that goes on while the machine sleeps; nil is Now.
	Clock func() time.Duration
}

// Now is CLOCK_BOOTTIME.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("internal error: the kernel has no CLOCK_BOOTTIME") // since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

func (l *Lock) now() time.Duration {
	if l.Clock != nil {
		return l.Clock()
	}
	return Now()
}

// State is who has the lock.
type State struct {
	// Holder is empty when nobody has it.
	Holder string
	// Since is how many times etcd was written to when this was so (its revision), for Wait.
	Since int64
	lease clientv3.LeaseID
}

// Look asks who has the lock. A majority of etcd has to answer.
func (l *Lock) Look(ctx context.Context) (State, error) {
	r, err := l.Client.Get(ctx, l.Key)
	if err != nil {
		return State{}, fmt.Errorf("ask etcd who holds %s: %w", l.Key, err)
	}
	s := State{Since: r.Header.Revision}
	if len(r.Kvs) > 0 {
		s.Holder, s.lease = string(r.Kvs[0].Value), clientv3.LeaseID(r.Kvs[0].Lease)
	}
	return s, nil
}

// Wait returns when the lock is no longer as it was, or may not be, and when ctx ends.
func (l *Lock) Wait(ctx context.Context, s State) error {
	// Without a leader, a watch is silent for ever.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range l.Client.Watch(ctx, l.Key, clientv3.WithRev(s.Since+1)) {
		if err := r.Err(); err != nil {
			return fmt.Errorf("watch %s: %w", l.Key, err)
		}
		if len(r.Events) > 0 {
			return nil
		}
	}
	return ctx.Err()
}

// Forget gives up what this owner has from an earlier life. It changes nothing where another has the lock.
func (l *Lock) Forget(ctx context.Context, s State) error {
	if s.Holder != l.Owner {
		return nil
	}
	if s.lease == clientv3.NoLease { // somebody wrote it by hand
		if _, err := l.Client.Delete(ctx, l.Key); err != nil {
			return fmt.Errorf("give up %s of an earlier run: %w", l.Key, err)
		}
		return nil
	}
	return l.revoke(ctx, s.lease)
}

func (l *Lock) revoke(ctx context.Context, id clientv3.LeaseID) error {
	if _, err := l.Client.Revoke(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("give up the lease of %s: %w", l.Key, err)
	}
	return nil
}

// Held is a lock that this owner has.
type Held struct {
	lock  *Lock
	lease clientv3.LeaseID
	until time.Duration
}

// Until is the time of the lock's clock until which it is proved that nobody else has the lock.
func (h *Held) Until() time.Duration { return h.until }

// Acquire takes the lock where nobody has it; ErrLost says that somebody does.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	asked := l.now()
	lease, err := l.Client.Grant(ctx, int64(l.Lifetime/time.Second))
	if err != nil {
		return nil, fmt.Errorf("ask etcd for a lease: %w", err)
	}
	put := clientv3.OpPut(l.Key, l.Owner, clientv3.WithLease(lease.ID))
	r, err := l.Client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(l.Key), "=", 0)).Then(put).Commit()
	if err == nil && r.Succeeded {
		return &Held{l, lease.ID, asked + time.Duration(lease.TTL)*time.Second}, nil
	}
	if err == nil {
		err = ErrLost
	}
	// Whether it was written or not: without its lease it is gone.
	return nil, errors.Join(fmt.Errorf("take %s: %w", l.Key, err), l.revoke(ctx, lease.ID))
}

// Renew proves anew that the lock is held, and moves Until. ErrLost says that it is not. After any other error it is held until
// Until, and Renew may be asked again.
func (h *Held) Renew(ctx context.Context) error {
	asked := h.lock.now()
	renewed, err := h.lock.Client.KeepAliveOnce(ctx, h.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("renew the lease of %s: etcd has ended it: %w", h.lock.Key, ErrLost)
	}
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", h.lock.Key, err)
	}
	held, err := h.lock.Client.Get(ctx, h.lock.Key)
	if err != nil {
		return fmt.Errorf("ask etcd whether %s is held: %w", h.lock.Key, err)
	}
	if !h.mine(held.Kvs) {
		return fmt.Errorf("%s is not held under this lease: %w", h.lock.Key, ErrLost)
	}
	if renewed.RaftTerm != held.Header.RaftTerm {
		return fmt.Errorf("renew the lease of %s: etcd has elected a leader meanwhile", h.lock.Key)
	}
	h.until = max(h.until, asked+time.Duration(renewed.TTL)*time.Second)
	return nil
}

func (h *Held) mine(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && clientv3.LeaseID(kvs[0].Lease) == h.lease
}

// Release gives the lock up, so that another can take it at once.
func (h *Held) Release(ctx context.Context) error { return h.lock.revoke(ctx, h.lease) }
