package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/services/kafka/kraft"
)

var topics = []kraft.Topic{
	{Name: "orders", Partitions: []kraft.Partition{
		{Number: 0, Leader: 1, Replicas: []int32{1, 2}, InSync: []int32{1, 2}},
		{Number: 1, Leader: 2, Replicas: []int32{1, 2}, InSync: []int32{2}},
		{Number: 2, Leader: -1, Replicas: []int32{3}},
	}},
	{Name: "alarms\n\"", Partitions: []kraft.Partition{{Leader: 1, Replicas: []int32{1, 2}, InSync: []int32{1}}}},
}

// told are the families of one broker, and their first values.
func told(t *testing.T, broker int32, up ...int32) map[string]float64 {
	t.Helper()
	s := family.NewSink(Families())
	Topics(s, broker, topics, up)
	all, errs := s.Families()
	require.Empty(t, errs)
	out := map[string]float64{}
	for _, f := range all {
		out[f.GetName()] = f.Metric[0].Gauge.GetValue()
	}
	return out
}

func TestABrokerTellsItsOwnPartitions(t *testing.T) {
	require.Equal(t, map[string]float64{
		"kafka_brokers": 2, "spore_kafka_leader_partitions": 1, "spore_kafka_under_replicated_partitions": 1,
		"spore_kafka_offline_partitions": 1,
	}, told(t, 2, 1, 2))
}

func TestOneBrokerTellsWhatHoldsForAll(t *testing.T) {
	require.Contains(t, told(t, 1, 2, 1), "kafka_topic_partitions")
	require.NotContains(t, told(t, 2, 2, 1), "kafka_topic_partitions")
	require.Contains(t, told(t, 2, 2, 3), "kafka_topic_partitions", "the first one is down")
	require.False(t, First(1, nil))
}

func TestANodeThatIsNoBrokerAsksNothing(t *testing.T) {
	require.False(t, On(ask.Question{Programs: []string{"etcd"}}))
	require.False(t, On(ask.Question{Programs: []string{"kafka"}}), "a controller")
	require.True(t, On(ask.Question{Programs: []string{"kafka"}, Brokers: map[int32]string{1: "x"}}))
}

func TestABrokerWithoutItsCertificateSaysSo(t *testing.T) {
	err := Measure(context.Background(), paths.Root(t.TempDir()), ask.Question{}, family.NewSink(Families()))
	require.ErrorContains(t, err, "the certificate of this broker")
}
