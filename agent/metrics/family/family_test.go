package family

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestASinkTakesWhatItsTableHas(t *testing.T) {
	s := NewSink([]Family{
		{Name: "b_seconds", Type: Gauge, Labels: []string{"x", "a"}, Help: "B."}, {Name: "a_total", Type: Counter, Help: "A."},
	})
	s.Add("b_seconds", 2, "x1", "a1")
	s.Add("b_seconds", 1, "x0", "a0")
	s.Add("a_total", 3)
	out, errs := s.Families()
	require.Empty(t, errs)
	require.Len(t, out, 2)
	require.Equal(t, "a_total", out[0].GetName())
	require.Equal(t, 1.0, out[1].Metric[0].Gauge.GetValue(), "series are sorted")
	require.Equal(t, "a", out[1].Metric[0].Label[0].GetName(), "and so are labels")
}

func TestASinkRefusesWhatItsTableDoesNotHave(t *testing.T) {
	s := NewSink([]Family{{Name: "a", Type: Gauge, Labels: []string{"x"}}, {Name: "h", Type: Histogram}})
	s.Add("b", 1)
	s.Add("a", 1)
	s.Add("a", 1, "x", "y")
	s.Add("h", 1)
	s.Add("a", 1, "x")
	s.Add("a", 2, "x")
	out, errs := s.Families()
	require.Len(t, errs, 5)
	require.Len(t, out, 1)
	require.Equal(t, 1.0, out[0].Metric[0].Gauge.GetValue())
}

func TestALabelIsShortAndUTF8(t *testing.T) {
	for _, text := range []string{"", "a\nb\"", "\xff\xfe", strings.Repeat("x", 1<<20), strings.Repeat("é", 200), strings.Repeat("\xff", 500)} {
		got := Label(text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 3*maxLabel)
	}
	require.Equal(t, "a\nb\"", Label("a\nb\""))
}

func TestUnitsFollowFromNames(t *testing.T) {
	for name, want := range map[string]string{
		"node_cpu_seconds_total": "seconds", "node_load1": "", "node_memory_Dirty_bytes": "bytes", "spore_disk_wear_ratio": "ratio",
	} {
		require.Equal(t, want, Family{Name: name}.Unit())
	}
}
