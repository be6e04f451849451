package clock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestFloor(t *testing.T) {
	for name, tc := range map[string]struct {
		stored string
		want   time.Time
	}{
		"nothing stored is the build time":        {"", built},
		"garbage is the build time":               {"soon", built},
		"a later time that was seen wins":         {"1790000000\n", time.Unix(1790000000, 0)},
		"a time before the build does not":        {"100\n", built},
		"a time in the far future is not trusted": {"99999999999\n", built},
	} {
		t.Run(name, func(t *testing.T) { require.True(t, tc.want.Equal(Floor(built, []byte(tc.stored)))) })
	}
}

func TestAClockThatCannotBeRight(t *testing.T) {
	for name, tc := range map[string]struct {
		now   time.Time
		wrong bool
	}{
		"before the floor":         {built.Add(-time.Second), true},
		"1970":                     {time.Unix(0, 0), true},
		"2106, the end of 32 bits": {time.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC), true},
		"2070, as which UEFI firmware passes 1970 on": {time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC), true},
		"the floor itself":                            {built, false},
		"a machine that was built years ago":          {built.AddDate(15, 0, 0), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.wrong, Wrong(tc.now, built)) })
	}
}

func TestAWrongClockIsSetToTheFloor(t *testing.T) {
	var set []time.Time
	record := func(to time.Time) error { set = append(set, to); return nil }
	raised, err := Raise(built.Add(time.Second), built, record)
	require.NoError(t, err)
	require.False(t, raised)
	raised, err = Raise(time.Unix(0, 0), built, record)
	require.NoError(t, err)
	require.True(t, raised)
	require.Equal(t, []time.Time{built}, set)
}

func TestTheLastTimeSeenGoesBackOnlyForATimeServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spore", "clock")
	for _, tc := range []struct {
		now          int64
		synchronized bool
		want         string
	}{{2000, false, "2000\n"}, {1000, false, "2000\n"}, {1000, true, "1000\n"}, {3000, true, "3000\n"}} {
		require.NoError(t, Remember(path, time.Unix(tc.now, 0), time.Unix(9000, 0), tc.synchronized))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, tc.want, string(data))
	}
}

// A clock that stands 15 years ahead passes for one of a machine that was built long ago.
func TestAClockOfTheFutureDoesNotBecomeTheFloor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	future := built.AddDate(15, 0, 0)
	floor := Floor(built, Read(path))
	require.False(t, Wrong(future, floor))
	for range 48 { // Each hour.
		require.NoError(t, Remember(path, future, Believed(floor), false))
	}
	after := Floor(built, Read(path))
	require.True(t, after.Equal(Believed(built)), "%s", after)
	require.Less(t, after.Sub(built), 120*24*time.Hour, "a certificate of a year is renewed with more than that left")

	require.NoError(t, Remember(path, built.Add(time.Hour), Believed(after), true))
	require.True(t, Floor(built, Read(path)).Equal(built.Add(time.Hour)), "a time server puts it right")
}

func TestAClockThatIsALittleSlowIsAClock(t *testing.T) {
	for name, tc := range map[string]struct {
		now  time.Time
		want bool
	}{
		"right":             {built.Add(time.Hour), false},
		"seconds too early": {built.Add(-5 * time.Second), false},
		"an hour too early": {built.Add(-time.Hour), true},
		"1970":              {time.Unix(0, 0), true},
		"2106":              {time.Date(2106, 2, 7, 6, 28, 14, 0, time.UTC), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, FarOff(tc.now, built)) })
	}
}
