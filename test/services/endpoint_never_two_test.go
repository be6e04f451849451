//go:build e2e

package services

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"spore/services/kubernetes/vip"
)

// What "never two" means here: no two kernels have the address at a time, and no machine says on the wire that it has
// the address while another's kernel has it. A machine that is stopped as a whole is another matter: see
// docs/endpoint.md, and test/nspawn.

// span is a time in which a kernel had the address at each look.
type span struct {
	who, mac   string
	start, end time.Time
	// looks is how many those were.
	looks int
	// goesOn says that a look before saw it there, too, so long before that it may have been elsewhere in between.
	goesOn bool
}

func (s span) String() string {
	return fmt.Sprintf("%s had it from %s to %s", s.who, s.start.Format("15:04:05.000"), s.end.Format("15:04:05.000"))
}

// watch looks at the kernels of all masters, one after the other and around again, until it is stopped.
type watch struct {
	masters []*endpointMaster
	kernels []*netlink.Handle
	vip     netip.Addr
	spans   [][]span
	err     error
	longest time.Duration
	stop    chan struct{}
	ended   sync.WaitGroup
}

const (
	// lookEvery is the time between two looks at all kernels.
	lookEvery = 5 * time.Millisecond
	// blink is how long nobody may have looked, on a busy host, for two looks to be of one span: the address does not
	// go to another master and come back in that time.
	blink = 250 * time.Millisecond
)

// watchKernels begins to look.
func (l *endpoints) watchKernels() *watch {
	l.t.Helper()
	w := &watch{masters: l.masters, vip: l.vip, spans: make([][]span, len(l.masters)), stop: make(chan struct{})}
	for _, m := range l.masters {
		var h *netlink.Handle
		m.in(func() {
			var err error
			h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
			require.NoError(l.t, err)
		})
		l.t.Cleanup(h.Close)
		w.kernels = append(w.kernels, h)
	}
	stop := w.stop
	w.ended.Go(func() { w.look(stop) })
	l.t.Cleanup(func() { w.end() })
	return w
}

// end stops the looks.
func (w *watch) end() []span {
	if w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
	w.ended.Wait()
	return slices.Concat(w.spans...)
}

func (w *watch) look(stop <-chan struct{}) {
	had := make([]bool, len(w.masters))
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for i, m := range w.masters {
			before := time.Now()
			has, err := w.has(w.kernels[i])
			after := time.Now()
			if err != nil {
				w.err = fmt.Errorf("look at the addresses of %s: %w", m.name, err)
				return
			}
			w.longest = max(w.longest, after.Sub(before))
			// The first look counts from its end, each later one up to its beginning: the span is not longer than it
			// was.
			switch {
			case has && had[i] && before.Sub(w.spans[i][len(w.spans[i])-1].end) < blink:
				last := &w.spans[i][len(w.spans[i])-1]
				last.end, last.looks = before, last.looks+1
			case has:
				begun := span{who: m.name, mac: m.mac, start: after, end: after, looks: 1, goesOn: had[i]}
				w.spans[i] = append(w.spans[i], begun)
			}
			had[i] = has
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func (w *watch) has(h *netlink.Handle) (bool, error) {
	list, err := h.AddrList(nil, nl.FAMILY_ALL)
	// Something changed meanwhile, so that the list is not of one moment.
	for errors.Is(err, netlink.ErrDumpInterrupted) {
		list, err = h.AddrList(nil, nl.FAMILY_ALL)
	}
	return slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.IP.Equal(w.vip.AsSlice()) }), err
}

// two says where two machines had the address, or one said so while another had it.
func two(spans []span, claims []move) (broken []string) {
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if a.who != b.who && a.start.Before(b.end) && b.start.Before(a.end) {
				broken = append(broken, fmt.Sprintf("%s, and %s", a, b))
			}
		}
		for _, c := range claims {
			if c.mac != a.mac && c.at.After(a.start) && c.at.Before(a.end) {
				broken = append(broken, fmt.Sprintf("%s, and %s said so at %s", a, c.mac, c.at.Format("15:04:05.000")))
			}
		}
	}
	return broken
}

// requireNeverTwo ends the watch and judges all of its time.
func (l *endpoints) requireNeverTwo(t *testing.T, w *watch, timing vip.Timing) {
	t.Helper()
	spans := w.end()
	require.NoError(t, w.err)
	claims := l.claims()
	for _, s := range spans {
		t.Logf("%s, at %d looks", s, s.looks)
	}
	t.Logf("the longest look took %s; the wire has %d claims: %s", w.longest, len(claims), l.pcap)
	require.Empty(t, two(spans, claims))

	// That all of it was seen: whoever announced the address was seen with it, and whoever has it announces it.
	for _, c := range claims {
		require.True(t, slices.ContainsFunc(spans, func(s span) bool {
			return s.mac == c.mac && c.at.After(s.start.Add(-timing.Every)) && c.at.Before(s.end.Add(timing.Every))
		}), "%s said at %s that it has the address, and no look saw it there", c.mac, c.at.Format("15:04:05.000"))
	}
	for _, s := range spans {
		require.True(t, s.goesOn || s.end.Sub(s.start) < timing.Every || slices.ContainsFunc(claims, func(c move) bool {
			return c.mac == s.mac && c.at.After(s.start.Add(-timing.Every)) && c.at.Before(s.end)
		}), "%s, and the wire does not have it", s)
	}
}

func TestTwoMachinesWithTheAddressAreNoticed(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	had := func(who string, from, to int) span {
		return span{who: who, mac: "mac of " + who, start: at(from), end: at(to)}
	}
	said := func(who string, ms int) move { return move{at(ms), "mac of " + who} }
	moves := []span{had("a", 0, 10), had("b", 11, 20), had("a", 21, 30)}
	for _, c := range []struct {
		name   string
		spans  []span
		claims []move
		broken int
	}{
		{"one after the other", moves, []move{said("a", 1), said("b", 12), said("a", 22)}, 0},
		{"a claim while nobody has it", []span{had("a", 0, 10), had("b", 20, 30)}, []move{said("b", 15)}, 0},
		{"two at a time", []span{had("a", 0, 10), had("b", 9, 20)}, nil, 1},
		{"two at a time, the later first", []span{had("b", 9, 20), had("a", 0, 10)}, nil, 1},
		{"one within the other's time", []span{had("a", 0, 30), had("b", 10, 20)}, nil, 1},
		{"a claim of one that has lost it", moves[:2], []move{said("a", 15)}, 1},
		{"a claim of one that does not have it yet", moves[:2], []move{said("b", 5)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Len(t, two(c.spans, c.claims), c.broken, strings.Join(two(c.spans, c.claims), "\n"))
		})
	}
}
