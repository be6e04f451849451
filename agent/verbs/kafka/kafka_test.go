package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/services/kafka/kraft"
	"spore/wire/nodeapi"
)

func TestANodeThatIsNoBrokerSaysSo(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{"kafka-broker": {"kafka-1"}}}
	for verb, handle := range map[string]verbs.Handler{"topics": Topics, "lag": Lag, "move": Move} {
		m := node.New("test", paths.Root(t.TempDir()))
		_, done, err := verbstest.Do(t, m, c, &facts.Node{Name: "web-1"}, handle, nodeapi.Order{Arguments: map[string]string{"off": "kafka-1"}})
		require.EqualError(t, err, "web-1 is no broker of Kafka", verb)
		require.Empty(t, done)
	}
}

func TestNothingMovesOffWhatIsNoBroker(t *testing.T) {
	m := nodetest.Brokers(t, "10.77.0.11", "10.77.0.12")["kafka-1"]
	c, n, err := m.Self()
	require.NoError(t, err)
	for _, name := range []string{"kafka-9", "", "../x"} {
		_, _, err = verbstest.Do(t, m, c, n, Move, nodeapi.Order{Arguments: map[string]string{"off": name}})
		require.ErrorContains(t, err, `"`+name+`" is no broker; brokers are kafka-1, kafka-2`)
	}
}

func many(name string, partitions, copies int) kraft.Topic {
	t := kraft.Topic{Name: name}
	replicas := make([]int32, copies)
	for i := range replicas {
		replicas[i] = 1<<31 - 1
	}
	for i := range partitions {
		t.Partitions = append(t.Partitions, kraft.Partition{Number: int32(i), Leader: 1<<31 - 1, Replicas: replicas, InSync: replicas})
	}
	return t
}

func TestEachPartOfTheTopicsFitsIntoAnEvent(t *testing.T) {
	long := strings.Repeat("t", 249)
	for name, topics := range map[string][]kraft.Topic{
		"none":                       nil,
		"one without partitions":     {many("a", 0, 0)},
		"one that fills a part":      {many("a", maxPartitions, 3), many("b", 1, 3)},
		"one that is larger":         {many("a", 10, 3), many("b", 3*maxPartitions+1, 3), many("c", 10, 3)},
		"copies on eleven brokers":   {many("a", maxPartitions, 11)},
		"many without partitions":    {many("a", 0, 0), many("b", maxPartitions, 3), many("c", 0, 0)},
		"more than come in one part": nil,
	} {
		if strings.HasPrefix(name, "more") {
			for range 2*atOnce + 1 {
				topics = append(topics, many(long, 4, 3))
			}
		}
		t.Run(name, func(t *testing.T) {
			var back []kraft.Topic
			for _, part := range parts(topics) {
				data, err := json.Marshal(nodeapi.Event{Result: must(t, part)})
				require.NoError(t, err)
				require.Less(t, len(data), nodeapi.MaxEvent)
				require.LessOrEqual(t, len(part), atOnce)
				for i, piece := range part {
					if last := len(back) - 1; i == 0 && last >= 0 && back[last].Name == piece.Name && piece.Name != long {
						back[last].Partitions = append(back[last].Partitions[:len(back[last].Partitions):len(back[last].Partitions)], piece.Partitions...)
						continue
					}
					back = append(back, piece)
				}
			}
			require.Len(t, back, len(topics))
			for i := range topics {
				require.Equal(t, topics[i].Name, back[i].Name)
				require.Equal(t, len(topics[i].Partitions), len(back[i].Partitions))
				for n, p := range back[i].Partitions {
					require.Equal(t, int32(n), p.Number)
				}
			}
		})
	}
}

func must(t *testing.T, v any) json.RawMessage {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// waited waits for the partition a-0 to leave the broker 1, with these looks one after the other; nil fails, and the
// last one goes on.
func waited(t *testing.T, ctx context.Context, looks ...[]kraft.Topic) (said string, err error) {
	t.Helper()
	m := node.New("test", paths.Root(t.TempDir()))
	w := wait{every: time.Millisecond, patience: 500 * time.Millisecond, look: func(context.Context) ([]kraft.Topic, error) {
		now := looks[0]
		if len(looks) > 1 {
			looks = looks[1:]
		}
		if now == nil {
			return nil, errors.New("no broker")
		}
		return now, nil
	}}
	handle := func(_ context.Context, r *verbs.Run) (string, error) {
		return "", w.await(ctx, r, 1, []kraft.Move{{Topic: "a", Partition: 0, From: []int32{1, 2}, To: []int32{3, 2}}})
	}
	events, _, err := verbstest.Do(t, m, &facts.Cluster{}, &facts.Node{}, handle, nodeapi.Order{})
	return verbstest.Said(events), err
}

func TestAMoveWaitsForItsOwnPartitions(t *testing.T) {
	at := func(name string, replicas ...int32) kraft.Topic {
		return kraft.Topic{Name: name, Partitions: []kraft.Partition{{Number: 0, Replicas: replicas}}}
	}
	moving, moved := []kraft.Topic{at("a", 3, 1, 2)}, []kraft.Topic{at("a", 3, 2)}
	said, err := waited(t, t.Context(), moving, moving, moved)
	require.NoError(t, err)
	require.Equal(t, "waiting for 1 partitions", said)

	_, err = waited(t, t.Context(), moving, []kraft.Topic{at("a", 3, 2), at("new", 1, 2)})
	require.NoError(t, err, "a topic that was made later has a copy on the broker")
	_, err = waited(t, t.Context(), moving, []kraft.Topic{at("b", 3)})
	require.NoError(t, err, "the topic was deleted")

	said, err = waited(t, t.Context(), nil, moving, nil, nil, moved)
	require.NoError(t, err)
	require.Contains(t, said, "asking again: no broker")
	_, err = waited(t, t.Context(), moving, nil)
	require.EqualError(t, err, "it is not known how far Kafka is, which goes on: no broker")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = waited(t, ctx, moving)
	require.ErrorContains(t, err, "1 partitions have not moved yet; Kafka goes on")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
