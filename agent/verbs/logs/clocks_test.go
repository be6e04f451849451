package logs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
)

func TestClocksThatDifferAreTold(t *testing.T) {
	s := newStore(t, entries("a", 1, 0)...)
	clocksFor := func(arguments map[string]string) map[string]float64 {
		got, err := s.query(arguments)
		require.NoError(t, err)
		return got.end.Clocks
	}
	require.Empty(t, clocksFor(nil), "nothing is known yet")
	file := s.m.Root.At(logs.TakerMetrics)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("# TYPE "+logs.ClockAhead+" gauge\n"+
		logs.ClockAhead+`{node="a"} 2.5`+"\n"+logs.ClockAhead+`{node="b"} -3600`+"\n"+logs.ClockAhead+`{node="c"} 2`+"\n"+
		logs.ClockAhead+`{node="d"} NaN`+"\n"+logs.ClockAhead+`{node="e"} +Inf`+"\n"+logs.ClockAhead+`{node="f} 7`+"\n"+
		logs.ClockAhead+`{node="g"}7`+"\n"+logs.ClockAhead+"_more{node=\"h\"} 7\n"), 0o600))
	require.Equal(t, map[string]float64{"a": 2.5, "b": -3600}, clocksFor(nil))
	require.Equal(t, map[string]float64{"b": -3600}, clocksFor(map[string]string{"nodes": "b,c"}))
	s.by.Nodes = []string{"a"}
	require.Equal(t, map[string]float64{"a": 2.5}, clocksFor(nil), "a certificate for some nodes")
}
