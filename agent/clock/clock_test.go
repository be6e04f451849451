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
		"before the floor": {built.Add(-time.Second), true},
		"1970":             {time.Unix(0, 0), true},
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
		require.NoError(t, Remember(path, time.Unix(tc.now, 0), tc.synchronized))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, tc.want, string(data))
	}
}
