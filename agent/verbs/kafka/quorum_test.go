package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/kafka"
	"spore/services/kafka/kraft"
)

func TestControllersHaveTheNamesOfTheirNodes(t *testing.T) {
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	one, two, three := kafka.ID("k-1"), kafka.ID("k-2"), kafka.ID("k-3")
	q := kraft.Quorum{Leader: two, Epoch: 7, Voters: []kraft.Controller{
		{ID: three, End: -1}, {ID: two, End: 100}, {ID: one, End: 90, Fetched: now.Add(-3 * time.Second)}, {ID: 5, End: 100, Fetched: now.Add(time.Minute)},
	}}
	got := told(q, []int32{one, 9}, []string{"k-1", "k-2", "k-3"}, []string{"k-1", "k-2"}, now)
	require.Equal(t, controllers{
		Leader: "k-2", Epoch: 7,
		Voters: []voter{
			{one, "k-1", 10, 3}, {two, "k-2", 0, 0}, {three, "k-3", 100, -1}, {5, "node.id 5, not in cluster.yaml", 0, 0},
		},
		Brokers: []member{{one, "k-1", true}, {two, "k-2", false}, {9, "node.id 9, not in cluster.yaml", true}},
	}, got)
	require.Empty(t, told(kraft.Quorum{Leader: -1}, nil, nil, nil, now).Leader)
}
