package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/paths"
	"spore/agent/state"
)

func TestTheLineBeginsAsTestsExpectIt(t *testing.T) {
	l := Line{
		Spore: 1, Cluster: "plant", Node: "edge-01", Matched: &Matched{"mac", "52:54:00:77:00:0b", 1}, Roles: []string{"dns-server"},
		Held: []activate.Held{{Role: "mqtt-broker", Reason: "missing"}}, Failed: []string{}, State: &state.Info{Kind: "tmpfs"}, System: "running", Times: map[string]float64{"detect": 1.5},
	}
	require.Equal(t, `{"spore":1,"cluster":"plant","node":"edge-01","matched":{"by":"mac","value":"52:54:00:77:00:0b","phase":1},"roles":["dns-server"],`+
		`"held":[{"role":"mqtt-broker","reason":"missing"}],"failed":[],"state":{"kind":"tmpfs"},"system":"running","times":{"detect":1.5},"cpu":0,"cpuSpawn":0}`, l.String())
	require.NotContains(t, l.String(), "\n")
}

func TestALineIsTheSameWhateverItCost(t *testing.T) {
	a := Line{System: "running", CPU: 1, Times: map[string]float64{"detect": 1}}
	b := Line{System: "running", CPU: 2, Spawn: 3}
	require.True(t, a.Same(b))
	b.Failed = []string{"x.service"}
	require.False(t, a.Same(b))
}

func TestStepsAreRememberedAcrossProcesses(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.Empty(t, Steps(root))
	require.NoError(t, Record(root, "detect", Step{At: 1.5, CPU: 2, Spawn: 3}))
	require.NoError(t, Record(root, "state", Step{At: 2.5}))
	require.NoError(t, Record(root, "detect", Step{At: 9}))
	require.Equal(t, map[string]Step{"detect": {At: 9}, "state": {At: 2.5}}, Steps(root))
}

func TestClocks(t *testing.T) {
	require.Positive(t, SinceBoot())
	require.Positive(t, UsedCPU())
	require.Equal(t, 1.235, Milliseconds(1.23456))
}
