package spelling

import (
	"strings"
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

func TestTheNearestWord(t *testing.T) {
	known := []string{"dns-01", "edge-01", "mqtt-01"}
	for wrong, want := range map[string]string{
		"edge-1": "edge-01", "EDGE-10": "edge-01", "mqqt-01": "mqtt-01", "storage": "", "": "",
		strings.Repeat("edge-01", 10): "", // longer than anything that is compared
	} {
		require.Equal(t, want, Nearest(wrong, known), wrong)
	}
	require.Empty(t, Nearest("edge-01", nil))
}
