package kafkastatus

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartitionsOfATopicAreCounted(t *testing.T) {
	topics, err := Topics([]json.RawMessage{
		json.RawMessage(`[{"name":"a","partitions":[{"leader":1,"replicas":[1,2],"inSync":[1,2]}]}]`),
		json.RawMessage(`[{"name":"a","partitions":[{"leader":-1,"replicas":[1,2,3],"inSync":[1]}]},{"name":"b","problem":"x"}]`),
	})
	require.NoError(t, err)
	require.Len(t, topics, 2)
	copies, behind, offline := topics[0].Counts()
	require.Equal(t, [3]int{3, 1, 1}, [3]int{copies, behind, offline})
	_, err = Topics([]json.RawMessage{json.RawMessage(`{}`)})
	require.ErrorContains(t, err, "malformed")
}

func TestAControllerThatIsSilentDoesNotFollow(t *testing.T) {
	for silent, want := range map[int64]bool{0: true, lost - 1: true, lost: false, -1: false} {
		require.Equal(t, want, Voter{Silent: silent}.Follows(), silent)
	}
	_, err := ReadQuorum(nil)
	require.EqualError(t, err, "the answer has 0 parts, and not one")
	_, err = ReadQuorum([]json.RawMessage{json.RawMessage(`[]`)})
	require.ErrorContains(t, err, "malformed")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`[{"name":"a","partitions":[{"leader":1,"replicas":null}]}]`))
	f.Add([]byte(`{"leader":"a","voters":[{}],"brokers":[]}`))
	f.Add([]byte(`[{"group":"g","records":-5}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts := []json.RawMessage{data}
		if topics, err := Topics(parts); err == nil {
			for _, topic := range topics {
				_, behind, offline := topic.Counts()
				require.LessOrEqual(t, max(behind, offline), len(topic.Partitions))
			}
		}
		_, _ = Lags(parts)
		_, _ = ReadQuorum(parts)
	})
}
