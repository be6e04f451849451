package kraft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is a topic, with its partitions in order.
type Topic struct {
	Name     string `json:"name"`
	Internal bool   `json:"internal,omitempty"`
	// Problem says why nothing more is known of it.
	Problem    string      `json:"problem,omitempty"`
	Partitions []Partition `json:"partitions"`
}

// Partition is one of a topic. The numbers are node.id of brokers; Leader is -1 where there is none.
type Partition struct {
	Number   int32   `json:"partition"`
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	InSync   []int32 `json:"inSync"`
}

// Topics lists all topics, by name, and the brokers that are up.
func (c *Conn) Topics(ctx context.Context) (topics []Topic, up []int32, err error) {
	q := kmsg.NewPtrMetadataRequest()
	q.Version, q.Topics = 12, nil // nil is all of them.
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	r := answer.(*kmsg.MetadataResponse)
	for _, b := range r.Brokers {
		up = append(up, b.NodeID)
	}
	for _, t := range r.Topics {
		out := Topic{Internal: t.IsInternal}
		if t.Topic != nil {
			out.Name = *t.Topic
		}
		if err := failure("describe "+out.Name, t.ErrorCode, nil); err != nil {
			out.Problem = err.Error()
		}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, Partition{p.Partition, p.Leader, p.Replicas, p.ISR})
		}
		slices.SortFunc(out.Partitions, func(a, b Partition) int { return cmp.Compare(a.Number, b.Number) })
		topics = append(topics, out)
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(up)
	return topics, up, nil
}

// Move is where the replicas of a partition are to be.
type Move struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
}

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int32
}

// Leaving tells which brokers give up which partitions right now, in moves that have begun and are not done. Topics
// lists them as replicas all the same.
func (c *Conn) Leaving(ctx context.Context) (map[Place][]int32, error) {
	q := kmsg.NewPtrListPartitionReassignmentsRequest()
	q.Version, q.Topics = 0, nil // nil is all of them.
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	r := answer.(*kmsg.ListPartitionReassignmentsResponse)
	if err := failure("list what moves", r.ErrorCode, r.ErrorMessage); err != nil {
		return nil, err
	}
	out := map[Place][]int32{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out[Place{t.Topic, p.Partition}] = p.RemovingReplicas
		}
	}
	return out, nil
}

// Off plans how a broker gets rid of all partitions: each of its replicas goes to the broker that is up, has none of
// that partition, and has the fewest replicas. A partition that has a replica on every broker has one less then, which
// shrink allows, as long as another broker is in sync. leaving is what Conn.Leaving answers: what the broker gives up
// already is in begun, as it is now, and is not to be begun again.
func Off(topics []Topic, leaving map[Place][]int32, up []int32, broker int32, shrink bool) (moves, begun []Move, err error) {
	stays := func(t Topic, p Partition) (out []int32) {
		for _, r := range p.Replicas {
			if !slices.Contains(leaving[Place{t.Name, p.Number}], r) {
				out = append(out, r)
			}
		}
		return out
	}
	load := map[int32]int{}
	for _, b := range up {
		load[b] = 0
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			for _, r := range stays(t, p) {
				load[r]++
			}
		}
	}
	var stuck []string
	for _, t := range topics {
		for _, p := range t.Partitions {
			replicas := stays(t, p)
			i := slices.Index(replicas, broker)
			if i < 0 {
				if slices.Contains(p.Replicas, broker) {
					begun = append(begun, Move{t.Name, p.Number, p.Replicas, replicas})
				}
				continue
			}
			to, ok := lightest(up, load, replicas)
			others := func(r int32) bool { return r != broker && slices.Contains(replicas, r) }
			if !ok && shrink && slices.ContainsFunc(p.InSync, others) {
				moves = append(moves, Move{t.Name, p.Number, p.Replicas, slices.Delete(replicas, i, i+1)})
				continue
			}
			if !ok {
				stuck = append(stuck, fmt.Sprintf("%s-%d", t.Name, p.Number))
				continue
			}
			load[to]++
			load[broker]--
			replicas[i] = to
			moves = append(moves, Move{t.Name, p.Number, p.Replicas, replicas})
		}
	}
	if len(stuck) > 0 {
		more := ""
		if len(stuck) > 10 {
			stuck, more = stuck[:10], fmt.Sprintf(" and %d more", len(stuck)-10)
		}
		return nil, nil, fmt.Errorf("no broker that is up can take %s%s: each of them has a copy already; add a broker first, or allow one copy less with --shrink", strings.Join(stuck, ", "), more)
	}
	return moves, begun, nil
}

// lightest is the broker with the fewest replicas that is not one of some.
func lightest(up []int32, load map[int32]int, not []int32) (best int32, ok bool) {
	for _, b := range up {
		if !slices.Contains(not, b) && (!ok || load[b] < load[best]) {
			best, ok = b, true
		}
	}
	return best, ok
}

// Begin has the controllers begin to move replicas. It returns before the data is there: a broker that
// still gives up a partition is one of its replicas (Topics).
func (c *Conn) Begin(ctx context.Context, moves []Move) error {
	q := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	q.Version = 0
	byTopic := map[string]int{}
	for _, m := range moves {
		i, ok := byTopic[m.Topic]
		if !ok {
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = m.Topic
			i = len(q.Topics)
			byTopic[m.Topic], q.Topics = i, append(q.Topics, t)
		}
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = m.Partition, m.To
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, p)
	}
	answer, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	r := answer.(*kmsg.AlterPartitionAssignmentsResponse)
	problems := []error{failure("move replicas", r.ErrorCode, r.ErrorMessage)}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			problems = append(problems, failure(fmt.Sprintf("move %s-%d", t.Topic, p.Partition), p.ErrorCode, p.ErrorMessage))
		}
	}
	return errors.Join(problems...)
}
