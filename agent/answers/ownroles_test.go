package answers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/health"
	"spore/agent/nodetest"
	"spore/agent/status"
	"spore/cluster"
)

func TestStartedRolesOfTheConfigurationsOwnAreAsked(t *testing.T) {
	c, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed(), report.String())
	shared, _ := cluster.Facts(c)
	m, _ := nodetest.New(t, 1)
	require.Empty(t, ownRoles(t.Context(), m, &shared, status.Line{}, nil), "it was not started yet")
	require.Equal(t, []health.OwnRole{{
		Name: "valkey", Units: []string{"valkey-server.service"}, Triggered: []string{}, Problem: "the node has no address at which it could be asked",
	}}, ownRoles(t.Context(), m, &shared, status.Line{Roles: []string{"valkey", "kafka-broker"}, Addresses: []string{"fe80::1", "x"}}, nil))
}
