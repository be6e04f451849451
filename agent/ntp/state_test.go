package ntp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatAClockIsWorth(t *testing.T) {
	upstream := netip.MustParseAddr("10.77.0.2")
	heard := &Heard{From: upstream, At: now.Add(-1000 * time.Second), Offset: -2 * time.Millisecond, Delay: 4 * time.Millisecond,
		State: State{Stratum: 2, RootDelay: 10 * time.Millisecond, RootDispersion: 20 * time.Millisecond, Reference: [4]byte{1, 2, 3, 4}}}
	through := func(stratum uint8) *Heard {
		h := *heard
		h.State.Stratum = stratum
		return &h
	}
	t.Run("one that follows a server says so, and how far off it may be", func(t *testing.T) {
		s := Judge(Clock{Synchronized: true, Follows: upstream, Heard: heard}, now)
		require.Equal(t, State{
			Stratum: 3, Reference: [4]byte{10, 77, 0, 2}, RootDelay: 14 * time.Millisecond,
			// The server's, the offset, 50 ppm of 1000 s, and what it is read with.
			RootDispersion: 20*time.Millisecond + 2*time.Millisecond + 50*time.Millisecond + resolution, Updated: heard.At, Follows: upstream,
		}, s)
	})
	t.Run("one that has lost its server goes on, and admits more each hour", func(t *testing.T) {
		s := Judge(Clock{Synchronized: true, Heard: heard}, now)
		require.Equal(t, uint8(3), s.Stratum)
		require.False(t, s.Follows.IsValid(), "the server may ask it now")
		later := Judge(Clock{Synchronized: true, Heard: heard}, now.Add(8*time.Hour))
		require.Greater(t, later.RootDispersion, s.RootDispersion+time.Second)
	})
	t.Run("one that no server has set for long says that it is its own", func(t *testing.T) {
		s := Judge(Clock{Heard: heard}, now)
		require.Equal(t, uint8(localStratum), s.Stratum)
		require.Equal(t, "LOCL", string(s.Reference[:]))
		require.Equal(t, uint8(LeapNone), s.Leap)
		require.Equal(t, localDispersion, s.RootDispersion)
		require.Equal(t, Judge(Clock{}, now), s)
	})
	t.Run("one that is set by an unknown hand has the kernel's bound", func(t *testing.T) {
		require.Equal(t, 300*time.Millisecond, Judge(Clock{Synchronized: true, MaxError: 300 * time.Millisecond}, now).RootDispersion)
	})
	t.Run("one that was wrong at the start says nothing until a server has set it", func(t *testing.T) {
		require.Equal(t, alarm(), Judge(Clock{Wrong: true}, now))
		require.Equal(t, alarm(), Judge(Clock{Wrong: true, Heard: heard}, now))
		require.Equal(t, uint8(3), Judge(Clock{Synchronized: true, Wrong: true, Heard: heard}, now).Stratum)
	})
	t.Run("at the end of the chain there is nothing left", func(t *testing.T) {
		require.Equal(t, uint8(15), Judge(Clock{Synchronized: true, Heard: through(14)}, now).Stratum)
		require.Equal(t, alarm(), Judge(Clock{Synchronized: true, Heard: through(15)}, now))
	})
	t.Run("a node that follows the clock of another is behind it", func(t *testing.T) {
		require.Equal(t, uint8(localStratum+1), Judge(Clock{Synchronized: true, Heard: through(localStratum)}, now).Stratum)
	})
	t.Run("a clock that was set back admits no less", func(t *testing.T) {
		require.GreaterOrEqual(t, Judge(Clock{Synchronized: true, Heard: heard}, heard.At.Add(-time.Hour)).RootDispersion, heard.State.RootDispersion)
	})
}

func TestServersOfIPv6HaveAnIdentifierToo(t *testing.T) {
	require.Equal(t, [4]byte{192, 0, 2, 1}, referenceOf(netip.MustParseAddr("::ffff:192.0.2.1")))
	a, b := referenceOf(netip.MustParseAddr("2001:db8::1")), referenceOf(netip.MustParseAddr("2001:db8::2"))
	require.NotEqual(t, a, b)
}

func TestTheKernelSaysWhetherSomebodyKeepsTheClock(t *testing.T) {
	synchronized, maxError, err := Kernel()
	require.NoError(t, err)
	if synchronized {
		require.Less(t, maxError, 16*time.Second)
	}
}
