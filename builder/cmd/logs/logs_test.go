package logs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/reach"
	"spore/cluster"
)

func TestTheNameOfARoleStandsForItsUnits(t *testing.T) {
	config, report := cluster.LoadDir("../../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	for _, logs := range [][]string{nil, {"valkey-server.service", "valkey-copy.timer"}} {
		config.Roles[1].Logs = logs
		shared, _ := cluster.Facts(config)
		c := &reach.Cluster{Facts: shared}
		want := logs
		if want == nil {
			want = []string{"valkey-server.service"}
		}
		require.Equal(t, want, roleUnits(c, "valkey"))
		require.Empty(t, roleUnits(c, "valkey.service"), "a unit is a unit")
		require.Empty(t, roleUnits(c, "mqtt-broker"))
	}
}
