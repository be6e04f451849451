// Package kafkastatus reads what brokers answer to the verbs kafka-topics, kafka-lag and kafka-quorum, which comes in
// parts.
package kafkastatus

import (
	"encoding/json"
	"fmt"
)

// Topic is what is shown of one.
type Topic struct {
	Name, Problem string
	Partitions    []struct {
		Leader           int32
		Replicas, InSync []int32
	}
}

// Counts are of a topic's partitions: how many copies each has at most, how many partitions have copies that are behind,
// and how many have no leader.
func (t Topic) Counts() (copies, behind, offline int) {
	for _, p := range t.Partitions {
		copies = max(copies, len(p.Replicas))
		if len(p.InSync) < len(p.Replicas) {
			behind++
		}
		if p.Leader < 0 {
			offline++
		}
	}
	return copies, behind, offline
}

// Topics puts the parts together in which topics come: the first of a part may go on with the last of the one before.
func Topics(results []json.RawMessage) ([]Topic, error) {
	var all []Topic
	for _, part := range results {
		var topics []Topic
		if err := json.Unmarshal(part, &topics); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		if n := len(all); n > 0 && len(topics) > 0 && all[n-1].Name == topics[0].Name {
			all[n-1].Partitions = append(all[n-1].Partitions, topics[0].Partitions...)
			topics = topics[1:]
		}
		all = append(all, topics...)
	}
	return all, nil
}

// Lag is how far a group is behind in a topic.
type Lag struct {
	Group, State, Topic string
	Records             int64
	Unknown             int
}

// Lags are the rows of all groups.
func Lags(results []json.RawMessage) ([]Lag, error) {
	var all []Lag
	for _, part := range results {
		var lags []Lag
		if err := json.Unmarshal(part, &lags); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		all = append(all, lags...)
	}
	return all, nil
}

// Quorum is that of the controllers, with the brokers that they have let in.
type Quorum struct {
	// Leader is the name of the controller that leads; empty where there is none.
	Leader  string   `json:"leader"`
	Epoch   int32    `json:"epoch"`
	Voters  []Voter  `json:"voters"`
	Brokers []Broker `json:"brokers"`
}

// Voter is a controller.
type Voter struct {
	ID   int32  `json:"id"`
	Name string `json:"name"`
	// Behind is how many records of the log it lacks, and Silent for how long the leader has not heard of it, in seconds;
	// -1 where that is not known.
	Behind int64 `json:"behind"`
	Silent int64 `json:"silent"`
}

// lost is after how many seconds without a question of a voter it does not count (controller.quorum.fetch.timeout.ms is
// 2 seconds; a loaded machine is late).
const lost = 30

// Follows tells whether a controller takes part.
func (v Voter) Follows() bool { return v.Silent >= 0 && v.Silent < lost }

// Broker is a broker of cluster.yaml, or one that is not there any more and still serves.
type Broker struct {
	ID   int32  `json:"id"`
	Name string `json:"name"`
	Up   bool   `json:"up"`
}

// ReadQuorum reads the answer, which has one part.
func ReadQuorum(results []json.RawMessage) (Quorum, error) {
	var q Quorum
	if len(results) != 1 {
		return q, fmt.Errorf("the answer has %d parts, and not one", len(results))
	}
	if err := json.Unmarshal(results[0], &q); err != nil {
		return q, fmt.Errorf("the answer is malformed: %w", err)
	}
	return q, nil
}
