package kraft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTheQuorumIsWhatTheLeaderSaysOfTheOnlyPartition(t *testing.T) {
	text := "no leader yet"
	answer := func(change func(*kmsg.DescribeQuorumResponse)) *kmsg.DescribeQuorumResponse {
		r := &kmsg.DescribeQuorumResponse{Version: 1, Topics: []kmsg.DescribeQuorumResponseTopic{{
			Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
				LeaderID: 2, LeaderEpoch: 7, CurrentVoters: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
					{ReplicaID: 2, LogEndOffset: 50, LastFetchTimestamp: -1}, {ReplicaID: 3, LogEndOffset: -1, LastFetchTimestamp: 1000},
				},
			}},
		}}}
		change(r)
		// As it comes over the wire.
		sent := r.AppendTo(nil)
		got := &kmsg.DescribeQuorumResponse{Version: 1}
		require.NoError(t, got.ReadFrom(sent))
		return got
	}
	q, err := quorumOf(answer(func(*kmsg.DescribeQuorumResponse) {}))
	require.NoError(t, err)
	require.Equal(t, Quorum{Leader: 2, Epoch: 7, Voters: []Controller{{2, 50, time.Time{}}, {3, -1, time.UnixMilli(1000)}}}, q)
	for want, change := range map[string]func(*kmsg.DescribeQuorumResponse){
		"Kafka's error 31":               func(r *kmsg.DescribeQuorumResponse) { r.ErrorCode = 31 },
		"Kafka's error 6":                func(r *kmsg.DescribeQuorumResponse) { r.Topics[0].Partitions[0].ErrorCode = 6 },
		"the answer is about something":  func(r *kmsg.DescribeQuorumResponse) { r.Topics = nil },
		"describe the controllers: Kafk": func(r *kmsg.DescribeQuorumResponse) { r.ErrorCode, r.ErrorMessage = 6, &text },
	} {
		_, err := quorumOf(answer(change))
		require.ErrorContains(t, err, want)
	}
}
