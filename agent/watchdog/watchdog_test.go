package watchdog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// hardware is a watchdog that counts.
type hardware struct {
	mu              sync.Mutex
	longest         time.Duration
	fed, released   int
	setErr, feedErr error
	fedAt           []time.Duration
	now             func() time.Duration
}

func (h *hardware) SetTimeout(d time.Duration) (time.Duration, error) {
	return min(d, h.longest), h.setErr
}

func (h *hardware) Feed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fed++
	h.fedAt = append(h.fedAt, h.now())
	return h.feedErr
}

func (h *hardware) Release() error { h.released++; return nil }

// longestGap is the longest time that the watchdog was not fed until now.
func (h *hardware) longestGap() (gap time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.fedAt {
		next := h.now()
		if i+1 < len(h.fedAt) {
			next = h.fedAt[i+1]
		}
		gap = max(gap, next-h.fedAt[i])
	}
	return gap
}

// guarded runs f beside a guard of a watchdog, in a time of its own.
func guarded(t *testing.T, change func(*hardware), f func(*Guard, *hardware, *[]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() time.Duration { return time.Since(began) }
		h := &hardware{longest: time.Hour, now: now}
		if change != nil {
			change(h)
		}
		var mu sync.Mutex
		var said []string
		g := NewGuard(now, func(s string) { mu.Lock(); defer mu.Unlock(); said = append(said, s) })
		f(g, h, &said)
	})
}

func TestWorkThatGoesOnIsFedForHowLongItTakes(t *testing.T) {
	guarded(t, nil, func(g *Guard, h *hardware, said *[]string) {
		set, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		require.Equal(t, Timeout, set)
		for range 20 {
			time.Sleep(Bound(Timeout) - time.Second) // one round of a wait, as long as it may take
			g.Alive()
		}
		require.LessOrEqual(t, h.longestGap(), Timeout/feeds)
		require.NoError(t, g.HandOver())
		require.Equal(t, 1, h.released)
		require.Empty(t, *said)
	})
}

func TestWorkThatHangsIsFedNoMore(t *testing.T) {
	guarded(t, nil, func(g *Guard, h *hardware, said *[]string) {
		_, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		time.Sleep(Bound(Timeout) + Timeout + Timeout/feeds + time.Second)
		require.Greater(t, h.longestGap(), Timeout, "the hardware would have reset the machine by now")
		require.Len(t, *said, 1, "it is said once")
		require.Contains(t, (*said)[0], "nothing has gone on for 5m")
		before := h.fed
		g.Alive() // It was slow, and the hardware slower still.
		time.Sleep(Timeout / 2)
		require.Greater(t, h.fed, before)
		require.NoError(t, g.HandOver())
	})
}

func TestSignsOfLifeBeforeTheWatchdogCount(t *testing.T) {
	guarded(t, nil, func(g *Guard, h *hardware, _ *[]string) {
		time.Sleep(time.Hour)
		g.Alive()
		_, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		time.Sleep(Bound(Timeout) - time.Second)
		require.LessOrEqual(t, h.longestGap(), Timeout/feeds)
		require.NoError(t, g.HandOver())
	})
}

func TestAfterTheHandOverTheGuardFeedsNothing(t *testing.T) {
	guarded(t, nil, func(g *Guard, h *hardware, _ *[]string) {
		_, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, g.HandOver())
		require.Equal(t, []time.Duration{0, time.Second}, h.fedAt, "whoever takes over has the whole time")
		time.Sleep(time.Hour)
		require.Equal(t, 2, h.fed)
		require.NoError(t, g.HandOver(), "once more does nothing")
		require.Equal(t, 1, h.released)
	})
}

func TestADriverWithATimeOfItsOwnIsFedInTime(t *testing.T) {
	guarded(t, func(h *hardware) { h.longest = 4 * time.Second }, func(g *Guard, h *hardware, _ *[]string) {
		set, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, set)
		time.Sleep(Timeout)
		require.LessOrEqual(t, h.longestGap(), time.Second)
		require.NoError(t, g.HandOver())
	})
}

func TestADriverThatTakesNoTimeIsFedNevertheless(t *testing.T) {
	guarded(t, func(h *hardware) { h.setErr = errors.New("no such request") }, func(g *Guard, h *hardware, said *[]string) {
		_, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		time.Sleep(Timeout)
		require.LessOrEqual(t, h.longestGap(), Timeout/feeds)
		require.Equal(t, []string{"no such request"}, *said)
		require.NoError(t, g.HandOver())
	})
}

func TestOneGuardHasOneWatchdog(t *testing.T) {
	guarded(t, nil, func(g *Guard, h *hardware, _ *[]string) {
		require.NoError(t, g.HandOver(), "without a watchdog there is nothing to hand over")
		_, err := g.Feed(h, Timeout)
		require.NoError(t, err)
		_, err = g.Feed(h, Timeout)
		require.ErrorContains(t, err, "a second watchdog")
		require.NoError(t, g.HandOver())
	})
	guarded(t, func(h *hardware) { h.feedErr = errors.New("broken") }, func(g *Guard, h *hardware, _ *[]string) {
		_, err := g.Feed(h, Timeout)
		require.EqualError(t, err, "broken")
		require.NoError(t, g.HandOver())
	})
}

func TestANilGuardGuardsNothing(t *testing.T) {
	var g *Guard
	g.Alive()
	require.NoError(t, g.HandOver())
}

func TestAMachineWithoutAWatchdogIsToldFromOneThatFails(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "watchdog0"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	// A file is no watchdog: it opens, and knows none of the requests.
	path := filepath.Join(t.TempDir(), "watchdog0")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	h, err := Open(path)
	require.NoError(t, err)
	require.Empty(t, h.Identity)
	require.False(t, h.HasReset())
	_, err = h.SetTimeout(Timeout)
	require.ErrorContains(t, err, "set the watchdog to 60 s")
	require.ErrorContains(t, h.Feed(), "feed the watchdog")
	require.NoError(t, h.Release())
	require.ErrorContains(t, h.Release(), "close the watchdog")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, data, "the character V would stop the timer")
}

func TestTheKernelSaysWhichWatchdogThereIs(t *testing.T) {
	files := func(identity, state, timeout, bootstatus string) fstest.MapFS {
		out := fstest.MapFS{}
		for name, text := range map[string]string{"identity": identity, "state": state, "timeout": timeout, "bootstatus": bootstatus} {
			if text != "" {
				out[class+name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  *Info
	}{
		"none":                        {fstest.MapFS{}, nil},
		"held":                        {files("i6300ESB timer\n", "active\n", "60\n", "0\n"), &Info{Identity: "i6300ESB timer", Seconds: 60, Held: true}},
		"it has reset the machine":    {files("iTCO_wdt\n", "active\n", "60\n", "32\n"), &Info{Identity: "iTCO_wdt", Seconds: 60, Held: true, HasReset: true}},
		"nobody has it open":          {files("hpwdt\n", "inactive\n", "30\n", "0x20\n"), &Info{Identity: "hpwdt", Seconds: 30, HasReset: true}},
		"other bits of the last boot": {files("x\n", "active\n", "60\n", "1\n"), &Info{Identity: "x", Seconds: 60, Held: true}},
		"a kernel that says less":     {files("x\n", "", "", ""), &Info{Identity: "x"}},
		"nonsense":                    {files("\x1b[2Jx\x00y\n", "?\n", "-1\n", "many\n"), &Info{Identity: "[2Jx"}},
		"a name without an end":       {files(strings.Repeat("x", 1000), "active", "1e9", ""), &Info{Identity: strings.Repeat("x", maxText), Held: true}},
	} {
		require.Equal(t, c.want, Read(c.files), name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("i6300ESB timer\n", "active\n", "60\n", "0x20\n")
	f.Add("", "", "-", "99999999999999999999")
	f.Fuzz(func(t *testing.T, identity, state, timeout, bootstatus string) {
		info := Read(fstest.MapFS{
			class + "identity": {Data: []byte(identity)}, class + "state": {Data: []byte(state)},
			class + "timeout": {Data: []byte(timeout)}, class + "bootstatus": {Data: []byte(bootstatus)},
		})
		require.NotNil(t, info)
		require.GreaterOrEqual(t, info.Seconds, 0)
		require.LessOrEqual(t, len(info.Identity), maxText)
		require.NotContains(t, info.Identity, "\x1b")
	})
}
