package kraft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokerGivesItsCopiesToThoseWithTheFewest(t *testing.T) {
	one := func(name string, replicas ...int32) Topic {
		return Topic{Name: name, Partitions: []Partition{{Number: 0, Leader: replicas[0], Replicas: replicas, InSync: replicas}}}
	}
	topics := []Topic{one("a", 1, 2), one("b", 2, 3), one("c", 3, 1), one("d", 4, 2)}
	up := []int32{1, 2, 3, 4}
	moves, begun, err := Off(topics, nil, up, 2, false)
	require.NoError(t, err)
	require.Empty(t, begun)
	require.Equal(t, []Move{
		{"a", 0, []int32{1, 2}, []int32{1, 4}}, // 4 had one copy, the others two.
		{"b", 0, []int32{2, 3}, []int32{1, 3}}, // The first keeps its place in the order: it is the preferred leader.
		{"d", 0, []int32{4, 2}, []int32{4, 3}},
	}, moves)
	moves, _, err = Off(topics, nil, up, 5, false)
	require.NoError(t, err)
	require.Empty(t, moves, "it has nothing")

	everywhere := []Topic{one("a", 1, 2, 3)}
	_, _, err = Off(everywhere, nil, []int32{1, 2, 3}, 3, false)
	require.ErrorContains(t, err, "no broker that is up can take a-0")
	moves, _, err = Off(everywhere, nil, []int32{1, 2, 3}, 3, true)
	require.NoError(t, err)
	require.Equal(t, []Move{{"a", 0, []int32{1, 2, 3}, []int32{1, 2}}}, moves)
	_, _, err = Off([]Topic{one("b", 3)}, nil, []int32{3}, 3, true)
	require.ErrorContains(t, err, "can take b-0", "the last copy is not dropped")
	lonely := one("c", 3, 1)
	lonely.Partitions[0].InSync = []int32{3}
	_, _, err = Off([]Topic{lonely}, nil, []int32{1, 3}, 3, true)
	require.ErrorContains(t, err, "can take c-0", "the other copy is behind")
}

func TestWhatMovesAlreadyIsNotMovedAnotherWay(t *testing.T) {
	one := func(name string, replicas ...int32) Topic {
		return Topic{Name: name, Partitions: []Partition{{Number: 0, Leader: replicas[0], Replicas: replicas, InSync: replicas}}}
	}
	// 3 gives a to 2; somebody else has 1 give b to 2; c and d have not begun.
	topics := []Topic{one("a", 1, 2, 3), one("b", 3, 2, 1), one("c", 3, 1), one("d", 1, 2)}
	leaving := map[Place][]int32{{"a", 0}: {3}, {"b", 0}: {1}, {"gone", 0}: {3}}
	moves, begun, err := Off(topics, leaving, []int32{1, 2, 3}, 3, false)
	require.NoError(t, err)
	require.Equal(t, []Move{{"a", 0, []int32{1, 2, 3}, []int32{1, 2}}}, begun, "it goes on as it is")
	require.Equal(t, []Move{
		{"b", 0, []int32{3, 2, 1}, []int32{1, 2}}, // 1 was to give it up, and keeps it.
		{"c", 0, []int32{3, 1}, []int32{2, 1}},
	}, moves)
	_, _, err = Off([]Topic{one("a", 1, 2, 3)}, map[Place][]int32{{"a", 0}: {2}}, []int32{3}, 3, true)
	require.NoError(t, err, "1 is in sync, and stays")
	_, _, err = Off([]Topic{one("a", 2, 3)}, map[Place][]int32{{"a", 0}: {2}}, []int32{3}, 3, true)
	require.ErrorContains(t, err, "can take a-0", "the only copy in sync beside it is given up")
}
