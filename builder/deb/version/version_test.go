package version

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ordered holds versions, each older than the next; those on one line are equal.
var ordered = [][]string{
	{"0~~", "0:0~~"},
	{"0~~a"},
	{"0~"},
	{"0", "0-0", "0:0", "00", "0-0000"},
	{"0a"},
	{"0+"},
	{"1.0~beta1~svn1245"},
	{"1.0~beta1"},
	{"1.0", "1.00", "1.0-0"},
	{"1.0-1~deb13u1"},
	{"1.0-1", "1.00-01"},
	{"1.0-1+b1"},
	{"1.0-1+deb13u1"},
	{"1.0-1+deb13u2"},
	{"1.0-1+deb13u10"},
	{"1.0-1.1"},
	{"1.0-2"},
	{"1.0a-1"},
	{"1.0+dfsg-1"},
	{"1.0.1"},
	{"1.2-a-1"}, // the last hyphen begins the revision
	{"1.2-b-1"},
	{"1.10"},
	{"2"},
	{"99999999999999999999999999"},
	{"100000000000000000000000000"},
	{"1:0"},
	{"1:0:1"}, // a colon in the upstream part
	{"10:0"},
}

func TestVersionsAreOrderedAsPolicySays(t *testing.T) {
	for i, older := range ordered {
		for j, newer := range ordered {
			for _, a := range older {
				for _, b := range newer {
					require.NoError(t, Check(a))
					c := Compare(a, b)
					switch {
					case i < j:
						require.Negative(t, c, "%s < %s", a, b)
					case i > j:
						require.Positive(t, c, "%s > %s", a, b)
					default:
						require.Zero(t, c, "%s = %s", a, b)
					}
				}
			}
		}
	}
}

func TestDpkgOrdersTheSame(t *testing.T) {
	tool, err := exec.LookPath("dpkg")
	require.NoError(t, err, "run make deps")
	for i := 0; i+1 < len(ordered); i++ {
		a, b := ordered[i][0], ordered[i+1][0]
		out, err := exec.Command(tool, "--compare-versions", a, "lt", b).CombinedOutput()
		require.NoError(t, err, "%s lt %s: %s", a, b, out)
		for _, c := range ordered[i][1:] {
			out, err := exec.Command(tool, "--compare-versions", a, "eq", c).CombinedOutput()
			require.NoError(t, err, "%s eq %s: %s", a, c, out)
		}
	}
}

func TestWhatIsNoVersionIsRefused(t *testing.T) {
	for _, v := range []string{"", ":1", "a:1", "-1:1", "1:", "1-", "-1", "1 0", "1/2", "1_2", "1-1:2", "1ä", "1\n", "9999999999:1", strings.Repeat("1", 257)} {
		require.Error(t, Check(v), "%q", v)
	}
}

// The order is one: what is older cannot be newer, whatever the texts are.
func FuzzCompare(f *testing.F) {
	for i := 0; i+2 < len(ordered); i++ {
		f.Add(ordered[i][0], ordered[i+1][0], ordered[i+2][0])
	}
	f.Add("", "-", ":")
	sign := func(n int) int { return max(-1, min(1, n)) }
	f.Fuzz(func(t *testing.T, a, b, c string) {
		require.Zero(t, Compare(a, a))
		ab, bc, ac := sign(Compare(a, b)), sign(Compare(b, c)), sign(Compare(a, c))
		require.Equal(t, -ab, sign(Compare(b, a)))
		if ab == bc {
			require.Equal(t, ab, ac, "%q %q %q", a, b, c)
		}
		_ = Check(a)
	})
}
