package ntp

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// byHand is an answer put together by hand after RFC 5905, figure 8: of stratum 2, to a poll of 8 seconds.
const byHand = "240203e8000001c5000007daa29fc801e5c1a2b3118f4c7de5c1a6d000000000e5c1a6d08f5c28f6e5c1a6d08f6a4e2b"

func TestAPacketIsReadAndWritten(t *testing.T) {
	b, err := hex.DecodeString(byHand)
	require.NoError(t, err)
	p, err := parse(b)
	require.NoError(t, err)
	require.Equal(t, uint8(LeapNone), p.leap)
	require.Equal(t, uint8(4), p.version)
	require.Equal(t, uint8(modeServer), p.mode)
	require.Equal(t, uint8(2), p.stratum)
	require.Equal(t, int8(3), p.poll)
	require.Equal(t, int8(-24), p.precision)
	require.InDelta(t, 6.912, float64(p.rootDelay.Microseconds())/1000, 0.01)
	require.InDelta(t, 30.67, float64(p.rootDispersion.Microseconds())/1000, 0.01)
	require.Equal(t, [4]byte{162, 159, 200, 1}, p.reference)
	require.Equal(t, b, p.bytes())
}

func TestWhatIsTooShortIsNoPacket(t *testing.T) {
	for _, n := range []int{0, 1, 47} {
		_, err := parse(make([]byte, n))
		require.ErrorContains(t, err, "no NTP packet", n)
	}
	_, err := parse(make([]byte, 48+20))
	require.NoError(t, err, "extension fields and authentication follow")
}

func TestTimestampsGoOverTheEndOfAnEra(t *testing.T) {
	// RFC 5905, figure 4: the first era ends at 06:28:16 on 7 February 2036.
	end := time.Date(2036, 2, 7, 6, 28, 16, 0, time.UTC)
	require.Zero(t, stamp(end))
	require.Equal(t, timestamp(1<<31), stamp(end.Add(500*time.Millisecond)))
	require.Equal(t, timestamp(epoch<<32), stamp(time.Unix(0, 0)))
	for _, start := range []time.Time{end.Add(-time.Second), end, time.Date(2026, 11, 22, 0, 0, 0, 1, time.UTC), time.Date(2106, 2, 7, 6, 28, 14, 0, time.UTC)} {
		for _, d := range []time.Duration{0, time.Nanosecond * 10, 1500 * time.Millisecond, -1500 * time.Millisecond, 30 * 365 * 24 * time.Hour, -30 * 365 * 24 * time.Hour} {
			require.InDelta(t, float64(d), float64(stamp(start.Add(d)).since(stamp(start))), 2, "%s and %s", start, d)
		}
	}
}

func TestShortTimesAreBounded(t *testing.T) {
	for d, want := range map[time.Duration]uint32{0: 0, -time.Second: 0, time.Second: 1 << 16, time.Second / 2: 1 << 15, 20 * time.Hour: 1<<32 - 1} {
		require.InDelta(t, float64(want), float64(toShort(d)), 1, d)
	}
	require.Equal(t, time.Second+time.Second/2, fromShort(3<<15))
	require.Less(t, fromShort(1<<32-1), 1<<16*time.Second)
}

func FuzzParse(f *testing.F) {
	b, err := hex.DecodeString(byHand)
	require.NoError(f, err)
	f.Add(b)
	f.Add(packet{version: version, mode: modeClient, transmit: 1}.bytes())
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(data)
		if err != nil {
			require.Less(t, len(data), size)
			return
		}
		again, err := parse(p.bytes())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.True(t, bytes.Equal(data[:size], p.bytes()))
		if h, err := judge(p, client, now, now.Add(time.Second)); err == nil {
			require.Less(t, h.State.Stratum, uint8(maxStratum))
			require.NotEqual(t, uint8(LeapAlarm), h.State.Leap)
			require.GreaterOrEqual(t, h.Delay, time.Duration(0))
			require.LessOrEqual(t, h.Delay, time.Second)
			s := Judge(Clock{Synchronized: true, Heard: &h}, now.Add(time.Minute))
			require.True(t, s.Leap == LeapAlarm || s.Stratum == h.State.Stratum+1)
		}
		server := Server{State: func() State { return State{Stratum: 1} }, Now: func() time.Time { return now }}
		if out := server.answer(data, client, now); out != nil {
			require.LessOrEqual(t, len(out), len(data), "nobody is flooded with more than he sent")
			require.Equal(t, data[40:48], out[24:32], "the answer belongs to the question")
		}
	})
}
