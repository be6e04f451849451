package moment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMomentIsATimeOrHowLongAgo(t *testing.T) {
	now := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-24T12:00:00Z":      time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
		"2026-11-24T12:00:00+02:00": time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC),
		"90m":                       now.Add(-90 * time.Minute),
		"3d":                        now.AddDate(0, 0, -3),
		"0s":                        now,
	} {
		got, err := Parse(text, now)
		require.NoError(t, err)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "yesterday", "-1h", "1.5d", "65536d", "2026-11-24", "12:00"} {
		_, err := Parse(text, now)
		require.ErrorContains(t, err, "write 2026-11-24T12:00:00Z", text)
	}
}
