package services

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/mqtt"
)

func TestATrialTakesAsLongAsTheSlowestServiceSays(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster facts.Cluster
		want    time.Duration
	}{
		"no service":              {facts.Cluster{}, 10 * time.Minute},
		"none that says anything": {facts.Cluster{Services: spec.Services{&mqtt.Settings{}}}, 10 * time.Minute},
		"machines as usual":       {facts.Cluster{Services: spec.Services{&kubernetes.Settings{}}}, 10 * time.Minute},
		"slow machines":           {facts.Cluster{Services: spec.Services{&mqtt.Settings{}, &kubernetes.Settings{SlowMachine: 5}}}, 50 * time.Minute},
		"minutes of cluster.yaml": {facts.Cluster{TrialMinutes: 3}, 3 * time.Minute},
		"both":                    {facts.Cluster{TrialMinutes: 3, Services: spec.Services{&kubernetes.Settings{SlowMachine: 2}}}, 6 * time.Minute},
	} {
		require.Equal(t, tt.want, TrialBound(&tt.cluster), name)
	}
}

func TestAnotherSystemHasToLast(t *testing.T) {
	for minutes, want := range map[int]time.Duration{0: 10 * time.Minute, 1: time.Minute, 60: time.Hour} {
		c := facts.Cluster{TrialSettle: minutes, Services: spec.Services{&kubernetes.Settings{SlowMachine: 5}}}
		require.Equal(t, want, TrialSettle(&c), minutes)
	}
}
