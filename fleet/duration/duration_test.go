package duration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "1d": 24 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute} {
		got, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "d", "0d", "-1d", "1.5d", "65536d", "0s", "-3h", "soon", "30"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "write for instance 30d or 12h", text)
	}
}
