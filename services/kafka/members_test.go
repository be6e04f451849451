package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestBrokersAreTheControllersWhereNobodyElseIs(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{Broker: {"a", "b"}}}
	require.Equal(t, []string{"a", "b"}, Controllers(c))
	require.Equal(t, []string{"a", "b"}, Nodes(c))
	c.Members[Controller] = []string{"b", "c"}
	require.Equal(t, []string{"b", "c"}, Controllers(c))
	require.Equal(t, []string{"a", "b"}, Brokers(c))
	require.Equal(t, []string{"a", "b", "c"}, Nodes(c))
	require.Equal(t, []string{"b", "c"}, Quorum().Initial(c))
	require.Empty(t, Nodes(&facts.Cluster{}))
}

func TestCopiesGoByTheBrokersAndByTheSettings(t *testing.T) {
	for _, tt := range []struct {
		name           string
		brokers        []string
		settings       *Settings
		factor, inSync int
	}{
		{"one broker", []string{"a"}, &Settings{}, 1, 1},
		{"two brokers", []string{"a", "b"}, &Settings{}, 2, 1},
		{"four brokers", []string{"a", "b", "c", "d"}, &Settings{}, 3, 2},
		{"as the settings say", []string{"a", "b", "c", "d"}, &Settings{ReplicationFactor: 4, MinInsyncReplicas: 2}, 4, 2},
		{"no broker yet", nil, &Settings{}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &facts.Cluster{Members: map[string][]string{Broker: tt.brokers}, Services: spec.Services{tt.settings}}
			factor, inSync := Replication(c)
			require.Equal(t, tt.factor, factor)
			require.Equal(t, tt.inSync, inSync)
		})
	}
}

// A node keeps its node.id for ever: its data has it.
func TestTheIDOfANodeStaysWhatItIs(t *testing.T) {
	require.EqualValues(t, 1065704995, ID("kafka-01"))
	require.EqualValues(t, 1219854289, ID("kafka-02"))
	require.Positive(t, ID(""))
}
