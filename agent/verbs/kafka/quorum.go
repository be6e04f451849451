package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"spore/agent/verbs"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
)

// voter is a controller as the caller is told of it. Behind is in records of the log; Silent in seconds, -1 where the
// leader has not heard of it since it leads.
type voter struct {
	ID     int32  `json:"id"`
	Name   string `json:"name"`
	Behind int64  `json:"behind"`
	Silent int64  `json:"silent"`
}

// member is a broker.
type member struct {
	ID   int32  `json:"id"`
	Name string `json:"name"`
	Up   bool   `json:"up"`
}

// controllers is the result of the verb kafka-quorum.
type controllers struct {
	Leader  string   `json:"leader,omitempty"`
	Epoch   int32    `json:"epoch"`
	Voters  []voter  `json:"voters"`
	Brokers []member `json:"brokers"`
}

// Quorum answers with the controllers, and with the brokers that they have let in. The broker passes the question on to
// the controller that leads.
func Quorum(ctx context.Context, r *verbs.Run) (string, error) {
	b, err := open(r)
	if err != nil {
		return "", err
	}
	var q kraft.Quorum
	var up []int32
	err = b.with(ctx, func(c *kraft.Conn) (err error) {
		if q, err = c.Quorum(ctx); err != nil {
			return err
		}
		up, err = c.Brokers(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	out := told(q, up, kafka.Controllers(r.Cluster), kafka.Brokers(r.Cluster), r.Machine.Now())
	if err := r.Result(out); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s leads %d controllers; %d brokers are up", cmp.Or(out.Leader, "nobody"), len(out.Voters), len(up)), nil
}

// told has the names of cluster.yaml for what Kafka has numbers for.
func told(q kraft.Quorum, up []int32, voters, brokers []string, now time.Time) controllers {
	names := map[int32]string{}
	for _, name := range slices.Concat(voters, brokers) {
		names[kafka.ID(name)] = name
	}
	name := func(id int32) string { return cmp.Or(names[id], fmt.Sprintf("node.id %d, not in cluster.yaml", id)) }
	out := controllers{Epoch: q.Epoch, Voters: []voter{}, Brokers: []member{}}
	if q.Leader >= 0 {
		out.Leader = name(q.Leader)
	}
	end := int64(0)
	for _, v := range q.Voters {
		end = max(end, v.End)
	}
	for _, v := range q.Voters {
		row := voter{ID: v.ID, Name: name(v.ID), Silent: -1}
		if v.End >= 0 {
			row.Behind = end - v.End
		} else {
			row.Behind = end
		}
		switch {
		case v.ID == q.Leader:
			row.Silent = 0
		case !v.Fetched.IsZero():
			row.Silent = max(int64(now.Sub(v.Fetched).Seconds()), 0)
		}
		out.Voters = append(out.Voters, row)
	}
	for _, b := range brokers {
		out.Brokers = append(out.Brokers, member{ID: kafka.ID(b), Name: b, Up: slices.Contains(up, kafka.ID(b))})
	}
	for _, id := range up {
		if names[id] == "" {
			out.Brokers = append(out.Brokers, member{ID: id, Name: name(id), Up: true})
		}
	}
	slices.SortStableFunc(out.Voters, func(a, b voter) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
