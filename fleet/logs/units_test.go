package logs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/fleet"
	"spore/wire/nodeapi"
)

func TestTheNameOfARoleStandsForItsUnits(t *testing.T) {
	config, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	for _, logs := range [][]string{nil, {"valkey-server.service", "valkey-copy.timer"}} {
		config.Roles[1].Logs = logs
		shared, _ := cluster.Facts(config)
		c := &fleet.Cluster{Facts: shared}
		want := logs
		if want == nil {
			want = []string{"valkey-server.service"}
		}
		require.Equal(t, want, roleUnits(c, "valkey"))
		require.Empty(t, roleUnits(c, "valkey.service"), "a unit is a unit")
		require.Empty(t, roleUnits(c, "mqtt-broker"))
	}
}

func TestARoleWithoutUnitsIsNotTheWholeJournal(t *testing.T) {
	config, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	shared, nodes := cluster.Facts(config)
	shared.Members = map[string][]string{"nothing": {nodes[0].Name}, "valkey": {nodes[0].Name}}
	c := &fleet.Cluster{Facts: shared, Nodes: nodes[:1]}
	_, err := (&Options{Several: true, Roles: []string{"nothing"}}).Asks(c, nodeapi.Logs{}, nil)
	require.ErrorContains(t, err, "runs no unit for the role nothing; name units with --unit")
	asks, err := (&Options{Several: true, Roles: []string{"nothing"}, Units: []string{"sshd"}}).Asks(c, nodeapi.Logs{}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"sshd.service"}, asks[0].Units())
	asks, err = (&Options{Several: true, Roles: []string{"nothing", "valkey"}}).Asks(c, nodeapi.Logs{}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, asks[0].Units())
}
