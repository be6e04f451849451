package vip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/wait"
	"spore/services/kubernetes/vip/address"
	"spore/services/kubernetes/vip/holder"
	"spore/services/kubernetes/vip/lock"
)

// world is a master in a bubble of testing/synctest: what Run does is written down with the second at which it did it.
type world struct {
	began  time.Time
	timing Timing
	// mu is held by what comes from outside while Run goes on (at), and by what looks at it.
	mu sync.Mutex
	// holder is another master that has the lock; mine is when the lock is another's again that this one has.
	holder string
	mine   time.Duration
	// lookErr, renewErr, cardErr and readyErr are what the world answers; stall says for how long a process is stopped at a point.
	lookErr, renewErr, cardErr, readyErr error
	stall                                func(where string) time.Duration
	// here is when the kernel takes the address away at the latest; 0 is that it is not there.
	here time.Duration
	log  []string
	said []string
	told []holder.State
	// broken is when the address was there and the lock could have been another's.
	broken []string
}

func newWorld() *world {
	return &world{began: time.Now(), timing: Times(1, address.Lateness), stall: func(string) time.Duration { return 0 }}
}

func (w *world) now() time.Duration { return time.Since(w.began) }

// at changes the world after a time.
func (w *world) at(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	})
}

// see reads what may change.
func see[T any](w *world, what *T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *what
}

// lasts has the lock be another's after a time.
func (w *world) lasts(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mine = w.now() + d
}

// stop is where the process may be stopped.
func (w *world) stop(where string) { time.Sleep(w.stall(where)) }

func (w *world) did(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%gs ", w.now().Seconds())+fmt.Sprintf(format, args...))
}

// check writes down when the address lives longer than the lock.
func (w *world) check(when string) {
	if w.here > see(w, &w.mine) && w.now() < w.here {
		w.broken = append(w.broken, fmt.Sprintf("%s at %s: the address is there until %s, the lock until %s", when, w.now(), w.here, see(w, &w.mine)))
	}
}

func (w *world) options() Options {
	return Options{
		Address: "10.77.0.100", Node: "master-01", Lock: w, Card: (*card)(w), Timing: w.timing, Clock: w.now, Alive: func() {},
		Say:   func(s string) { w.said = append(w.said, s) },
		State: func(s holder.State) { w.told = append(w.told, s) },
		Ready: func(ctx context.Context) error {
			_ = wait.Sleep(ctx, w.stall("ready"))
			return errors.Join(ctx.Err(), see(w, &w.readyErr))
		},
	}
}

// run runs for a time and returns what was done.
func (w *world) run(t *testing.T, d time.Duration) string {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	require.NoError(t, Run(ctx, w.options()))
	synctest.Wait()
	return strings.Join(w.log, "\n")
}

func (w *world) Look(context.Context) (lock.State, error) {
	w.stop("look")
	return lock.State{Holder: see(w, &w.holder)}, w.lookErr
}

func (w *world) Wait(ctx context.Context, _ lock.State) error {
	w.did("wait for %s", w.holder)
	for see(w, &w.holder) != "" && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	return ctx.Err()
}

func (w *world) Forget(context.Context, lock.State) error {
	w.did("forget")
	w.holder = ""
	return nil
}

func (w *world) Acquire(context.Context) (Held, error) {
	asked := w.now()
	w.stop("acquire")
	w.did("acquire")
	w.lasts(w.timing.Lease)
	h := &held{w, asked + w.timing.Lease}
	w.stop("acquired")
	return h, nil
}

type held struct {
	w     *world
	until time.Duration
}

func (h *held) Until() time.Duration { return h.until }

func (h *held) Renew(ctx context.Context) error {
	asked := h.w.now()
	h.w.stop("renew")
	if h.w.now() >= see(h.w, &h.w.mine) {
		return lock.ErrLost
	}
	if err := see(h.w, &h.w.renewErr); err != nil {
		return err
	}
	h.w.lasts(h.w.timing.Lease)
	h.w.stop("renewed")
	h.until = asked + h.w.timing.Lease
	return nil
}

func (h *held) Release(context.Context) error {
	h.w.did("release")
	h.w.lasts(0)
	h.w.check("release")
	return nil
}

// card is the card of the world.
type card world

func (c *card) Ready() error { return see((*world)(c), &c.cardErr) }

func (c *card) Put(seconds int) error {
	w := (*world)(c)
	if w.here == 0 {
		w.did("put")
	}
	w.here = w.now() + time.Duration(seconds)*time.Second + w.timing.Late
	w.check("put")
	w.stop("put")
	return nil
}

func (c *card) Remove() (bool, error) {
	w := (*world)(c)
	there := w.here != 0
	if there {
		w.did("remove")
	}
	w.here = 0
	return there, nil
}

func (c *card) Announce() error { (*world)(c).did("announce"); return nil }

func TestTimesLeaveRoomForTheKernel(t *testing.T) {
	for _, slow := range []int{1, 4, 20} {
		times := Times(slow, address.Lateness)
		require.Less(t, times.Late, times.Slack, "slow %d", slow)
		require.Less(t, times.Lifetime()+times.Late, times.Lease, "slow %d", slow)
		require.Greater(t, times.Lifetime(), 3*times.Every, "a few renewals may fail")
		require.GreaterOrEqual(t, times.Lease, time.Duration(slow)*1500*time.Millisecond, "etcd's shortest lease: one and a half elections")
	}
}

func TestHolding(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(w *world)
		lasts time.Duration
		want  string
		said  string
	}{
		"a free address is taken, announced a few times, and given up at the end, first in the kernel": {
			func(*world) {}, 6500 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n2s announce\n3s announce\n4s announce\n6.5s remove\n6.5s release", "gave up 10.77.0.100: stops",
		},
		"later it is announced now and then": {
			func(w *world) { w.timing.Repeats, w.timing.Remind = 1, 3 }, 6500 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n3s announce\n6s announce\n6.5s remove\n6.5s release", "",
		},
		"what a former process left is taken away before anything else": {
			func(w *world) { w.here, w.holder = time.Hour, "master-01" }, 500 * time.Millisecond,
			"0s remove\n0s forget\n0s acquire\n0s put\n0s announce\n0.5s remove\n0.5s release", "took 10.77.0.100 away, which was left here",
		},
		"another's is waited for": {
			func(w *world) {
				w.holder = "master-02"
				w.at(1450*time.Millisecond, func() { w.holder = "" })
			}, 2200 * time.Millisecond,
			"0s wait for master-02\n1.5s acquire\n1.5s put\n1.5s announce\n2.2s remove\n2.2s release", "",
		},
		"whoever is not ready does not try": {
			func(w *world) { w.readyErr = errors.New("it answers 500") }, 3 * time.Second, "",
			"does not try for 10.77.0.100: its own API server is not ready: it answers 500",
		},
		"whoever has become not ready while another had it does not try": {
			func(w *world) {
				w.holder = "master-02"
				w.at(time.Second, func() { w.holder, w.readyErr = "", errors.New("it answers 500") })
			}, 3 * time.Second, "0s wait for master-02", "does not try for 10.77.0.100",
		},
		"without a card for it nobody tries": {
			func(w *world) { w.cardErr = errors.New("enp1s0 has no carrier") }, 3 * time.Second, "", "does not try for 10.77.0.100: enp1s0 has no carrier",
		},
		"without etcd nobody tries": {
			func(w *world) { w.lookErr = errors.New("no leader") }, 3 * time.Second, "", "waits for etcd: no leader",
		},
		"an API server that is gone gives it up at once": {
			func(w *world) { w.at(1200*time.Millisecond, func() { w.readyErr = ErrGone }) }, 2400 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n1.5s remove\n1.5s release", "gave up 10.77.0.100: its own API server is not ready: it does not run",
		},
		"one that is not ready gives it up after a few questions": {
			func(w *world) {
				w.at(200*time.Millisecond, func() { w.readyErr = errors.New("it answers 500") })
			}, 3400 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n2s announce\n2.5s remove\n2.5s release", "(asked 3 times in a row, every 1s)",
		},
		"one that was not ready for a moment keeps it": {
			func(w *world) {
				w.at(200*time.Millisecond, func() { w.readyErr = errors.New("it answers 500") })
				w.at(2200*time.Millisecond, func() { w.readyErr = nil })
			}, 4500 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n2s announce\n3s announce\n4s announce\n4.5s remove\n4.5s release", "",
		},
		"a cable that is pulled gives it up": {
			func(w *world) {
				w.at(500*time.Millisecond, func() { w.cardErr = errors.New("enp1s0 has no carrier") })
			}, 1800 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s remove\n1s release", "gave up 10.77.0.100: enp1s0 has no carrier",
		},
		"a lock that is lost is not released": {
			func(w *world) { w.at(500*time.Millisecond, func() { w.mine = 0 }) }, 1800 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s remove", "the lock is lost",
		},
		"an etcd that says nothing has it given up before the lock may be another's": {
			func(w *world) { w.at(500*time.Millisecond, func() { w.renewErr = errors.New("no leader") }) }, 7900 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n7s remove\n7s release", "etcd did not say in time that it may stay: no leader",
		},
		"an etcd that says nothing for a moment is forgiven": {
			func(w *world) {
				w.at(500*time.Millisecond, func() { w.renewErr = errors.New("no leader") })
				w.at(4500*time.Millisecond, func() { w.renewErr = nil })
			}, 9500 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n5s announce\n6s announce\n7s announce\n8s announce\n9.5s remove\n9.5s release", "no leader",
		},
		"what is not proved is not announced: the machine may have been stopped, and the address another's": {
			func(w *world) {
				w.at(1500*time.Millisecond, func() { w.renewErr = errors.New("etcd has elected a leader meanwhile") })
				w.at(4500*time.Millisecond, func() { w.mine = 0 })
			}, 5500 * time.Millisecond,
			"0s acquire\n0s put\n0s announce\n1s announce\n5s remove", "the lock is lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				tc.world(w)
				require.Equal(t, tc.want, w.run(t, tc.lasts))
				require.Contains(t, strings.Join(w.said, "\n"), tc.said)
				require.Empty(t, w.broken)
				require.Zero(t, w.here, "at the end it is nowhere")
			})
		})
	}
}

func TestAProcessThatIsStoppedBetweenTheClockAndTheKernelTakesTheAddressAwayAsSoonAsItGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		puts := 0
		w.stall = func(where string) time.Duration {
			if where != "put" {
				return 0
			}
			if puts++; puts != 3 {
				return 0
			}
			w.here = w.now() + time.Hour + w.timing.Lifetime() // the system call comes only then
			return time.Hour
		}
		log := w.run(t, time.Hour+2500*time.Millisecond)
		require.Contains(t, log, "3602s remove")
		require.Contains(t, strings.Join(w.said, "\n"), "this process was stopped for too long")
	})
}

func TestWhateverIsSlowTheAddressIsGoneBeforeTheLockIsAnothers(t *testing.T) {
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			w := newWorld()
			var mu sync.Mutex // two goroutines draw
			w.stall = func(where string) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case where == "put": // see the test above
				case random.IntN(4) == 0:
					return time.Duration(random.Int64N(int64(10 * time.Second)))
				case random.IntN(2) == 0:
					return time.Duration(random.Int64N(int64(time.Second)))
				}
				return 0
			}
			w.run(t, 5*time.Minute)
			require.Empty(t, w.broken, "seed %d:\n%s", seed, strings.Join(w.log, "\n"))
		})
	}
}

func TestStateIsToldAtChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.holder = "master-02"
		w.at(time.Minute, func() { w.holder = "" })
		w.run(t, 2*time.Minute)
		require.Equal(t, []holder.State{
			{Address: "10.77.0.100", Holder: "master-02"}, {Address: "10.77.0.100", Holder: "master-01", Here: true},
			{Address: "10.77.0.100", Problem: "gave up 10.77.0.100: stops"},
		}, w.told)
	})
}
