package spelling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistanceCountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"mosquito", "mosquitto", 1},
		{"noeds", "nodes", 1}, {"ca", "abc", 3}, {"worker", "broker", 2},
	} {
		require.Equal(t, c.want, Distance(c.a, c.b, 9), "%s %s", c.a, c.b)
		require.Equal(t, c.want, Distance(c.b, c.a, 9), "%s %s", c.b, c.a)
	}
}

func TestBeyondTheLimitItIsMoreThanTheLimit(t *testing.T) {
	for _, c := range [][2]string{{"", "abc"}, {"kitten", "sitting"}, {"abcdef", "ghijkl"}} {
		require.Greater(t, Distance(c[0], c[1], 2), 2, "%v", c)
	}
}
