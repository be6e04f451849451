package kraft

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Quorum is that of the controllers, as the one that leads sees it (KIP-595, KIP-836).
type Quorum struct {
	// Leader is the node.id of the controller that leads; -1 where there is none.
	Leader int32
	Epoch  int32
	Voters []Controller
}

// Controller is a voter of the quorum. End is the end of its log, -1 where that is not known, and Fetched when the leader heard of it
// last, zero where that is not known.
type Controller struct {
	ID      int32
	End     int64
	Fetched time.Time
}

// metadataTopic is the log of the controllers, which has one partition.
const metadataTopic = "__cluster_metadata"

// Quorum asks for the controllers. A broker passes the question on to the one that leads.
func (c *Conn) Quorum(ctx context.Context) (Quorum, error) {
	q := kmsg.NewPtrDescribeQuorumRequest()
	q.Version = 1
	q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}}}
	answer, err := c.ask(ctx, q)
	if err != nil {
		return Quorum{}, err
	}
	return quorumOf(answer.(*kmsg.DescribeQuorumResponse))
}

func quorumOf(r *kmsg.DescribeQuorumResponse) (Quorum, error) {
	const what = "describe the controllers"
	if err := failure(what, r.ErrorCode, r.ErrorMessage); err != nil {
		return Quorum{}, err
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return Quorum{}, errors.New(what + ": the answer is about something else")
	}
	p := r.Topics[0].Partitions[0]
	if err := failure(what, p.ErrorCode, p.ErrorMessage); err != nil {
		return Quorum{}, err
	}
	out := Quorum{Leader: p.LeaderID, Epoch: p.LeaderEpoch}
	for _, v := range p.CurrentVoters {
		voter := Controller{ID: v.ReplicaID, End: v.LogEndOffset}
		if v.LastFetchTimestamp > 0 {
			voter.Fetched = time.UnixMilli(v.LastFetchTimestamp)
		}
		out.Voters = append(out.Voters, voter)
	}
	return out, nil
}

// Brokers are the node.ids of the brokers that the controllers have let in, sorted.
func (c *Conn) Brokers(ctx context.Context) ([]int32, error) {
	r, err := c.describe(ctx, brokers)
	if err != nil {
		return nil, err
	}
	var up []int32
	for _, b := range r.Brokers {
		up = append(up, b.NodeID)
	}
	slices.Sort(up)
	return up, nil
}
