package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"

	"spore/fleet/kafkastatus"
)

const (
	kafkaPath = "/kafka"
	broker    = "kafka-broker"
)

// streams is the page of Kafka. Each of its three parts may be missing for itself.
type streams struct {
	Brokers     []named
	Controllers *members
	QuorumTrouble,
	TopicsTrouble,
	LagTrouble string
	Topics     []topic
	MoreTopics int
	// Partitions, Behind and Offline are of all topics.
	Topic, Partitions, Behind, Offline int
	Lags                               []lag
	MoreLags                           int
	// LagSaid are brokers and groups that are missing.
	LagSaid []string
}

type topic struct {
	Name, Problem      string
	Partitions, Copies int
	Behind, Offline    int
	Level              Level
}

type lag struct {
	kafkastatus.Lag
	Level Level
}

func askKafka(ctx context.Context, w *inquiry, _ any) (any, error) {
	s := &streams{}
	var topics, quorum, lags error
	var all sync.WaitGroup
	all.Go(func() { topics = s.askTopics(ctx, w) })
	all.Go(func() { quorum = s.askQuorum(ctx, w) })
	all.Go(func() { lags = s.askLag(ctx, w) })
	all.Wait()
	if topics != nil && quorum != nil && lags != nil {
		return nil, quorum // Whatever is wrong is wrong with all brokers.
	}
	s.TopicsTrouble, s.QuorumTrouble, s.LagTrouble = text(topics), text(quorum), text(lags)
	return s, nil
}

// text is an error as a page shows it; empty where there is none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (s *streams) askTopics(ctx context.Context, w *inquiry) error {
	r, err := w.verb(ctx, broker, "kafka-topics", none)
	if err != nil {
		return err
	}
	topics, err := kafkastatus.Topics(r.Results)
	if err != nil {
		return err
	}
	var rows []topic
	for _, t := range topics {
		row := topic{Name: t.Name, Problem: t.Problem, Partitions: len(t.Partitions)}
		row.Copies, row.Behind, row.Offline = t.Counts()
		switch {
		case row.Offline > 0:
			row.Level = Critical
		case row.Behind > 0 || t.Problem != "":
			row.Level = Warning
		}
		s.Partitions, s.Behind, s.Offline = s.Partitions+row.Partitions, s.Behind+row.Behind, s.Offline+row.Offline
		rows = append(rows, row)
	}
	s.Topic = len(rows)
	slices.SortStableFunc(rows, func(a, b topic) int { return cmp.Compare(b.Level, a.Level) })
	s.Topics, s.MoreTopics = cut(rows)
	return nil
}

func (s *streams) askQuorum(ctx context.Context, w *inquiry) error {
	q, err := kafkaQuorum(ctx, w)
	if err != nil {
		return err
	}
	s.Controllers = controllersOf(q)
	for _, b := range q.Brokers[:min(len(q.Brokers), maxRows)] {
		row := named{Name: b.Name, State: "up"}
		if !b.Up {
			row.State, row.Level = "down", Critical
		}
		s.Brokers = append(s.Brokers, row)
	}
	return nil
}

func (s *streams) askLag(ctx context.Context, w *inquiry) error {
	r, err := w.verb(ctx, broker, "kafka-lag", none)
	if err != nil {
		return err
	}
	lags, err := kafkastatus.Lags(r.Results)
	if err != nil {
		return err
	}
	var rows []lag
	for _, l := range lags {
		row := lag{Lag: l}
		if l.Unknown > 0 {
			row.Level = Warning
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b lag) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(b.Records, a.Records))
	})
	s.Lags, s.MoreLags = cut(rows)
	s.LagSaid = r.Said
	return nil
}

func kafkaQuorum(ctx context.Context, w *inquiry) (kafkastatus.Quorum, error) {
	r, err := w.verb(ctx, broker, "kafka-quorum", none)
	if err != nil {
		return kafkastatus.Quorum{}, err
	}
	return kafkastatus.ReadQuorum(r.Results)
}

// controllersOf are the controllers as members of their quorum.
func controllersOf(q kafkastatus.Quorum) *members {
	m := &members{Service: ofControllers, Leader: q.Leader}
	for _, v := range q.Voters {
		row := member{Name: v.Name, State: "follows", Votes: true}
		switch {
		case v.Name == q.Leader && q.Leader != "":
			row.Serves, row.State = true, "leads"
		case v.Follows():
			row.Serves = true
			if v.Behind > 0 {
				row.State = strconv.FormatInt(v.Behind, 10) + " records behind"
			}
		case v.Silent < 0:
			row.State = "was not heard by the one that leads"
		default:
			row.State = "was heard " + strconv.FormatInt(v.Silent, 10) + " s ago by the one that leads"
		}
		m.Members = append(m.Members, row)
	}
	m.judge()
	return m
}
