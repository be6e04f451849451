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
	moves, err := Off(topics, up, 2, false)
	require.NoError(t, err)
	require.Equal(t, []Move{
		{"a", 0, []int32{1, 2}, []int32{1, 4}}, // 4 had one copy, the others two.
		{"b", 0, []int32{2, 3}, []int32{1, 3}}, // The first keeps its place in the order: it is the preferred leader.
		{"d", 0, []int32{4, 2}, []int32{4, 3}},
	}, moves)
	moves, err = Off(topics, up, 5, false)
	require.NoError(t, err)
	require.Empty(t, moves, "it has nothing")

	everywhere := []Topic{one("a", 1, 2, 3)}
	_, err = Off(everywhere, []int32{1, 2, 3}, 3, false)
	require.ErrorContains(t, err, "no broker that is up can take a-0")
	moves, err = Off(everywhere, []int32{1, 2, 3}, 3, true)
	require.NoError(t, err)
	require.Equal(t, []Move{{"a", 0, []int32{1, 2, 3}, []int32{1, 2}}}, moves)
	_, err = Off([]Topic{one("b", 3)}, []int32{3}, 3, true)
	require.ErrorContains(t, err, "can take b-0", "the last copy is not dropped")
	lonely := one("c", 3, 1)
	lonely.Partitions[0].InSync = []int32{3}
	_, err = Off([]Topic{lonely}, []int32{1, 3}, 3, true)
	require.ErrorContains(t, err, "can take c-0", "the other copy is behind")
}
