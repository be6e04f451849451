package kraft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lag is how far a group of consumers is behind in a topic.
type Lag struct {
	Group string `json:"group"`
	// State is the group's, in Kafka's words (Stable, Empty …).
	State string `json:"state"`
	Topic string `json:"topic"`
	// Records are how many the group has not confirmed yet, over all partitions that it has confirmed anything of.
	Records int64 `json:"records"`
	// Unknown counts the partitions whose end is not known, as those without a leader.
	Unknown int `json:"unknown,omitempty"`
}

// Dialer connects to a broker by its node.id.
type Dialer func(ctx context.Context, broker int32) (*Conn, error)

// lagTimeout bounds one question of Lags. There are many, and the next broker is asked when one does not answer.
const lagTimeout = 10 * time.Second

// Lags asks each broker for the groups that it coordinates, and how far they are, and hands the rows over broker by
// broker (give). A broker that does not answer is told to say, and costs its own groups, and the ends that it knows.
func Lags(ctx context.Context, brokers []int32, dial Dialer, say func(string), give func([]Lag) error) error {
	l := &lags{brokers: brokers, conns: map[int32]*Conn{}, say: say, bound: lagTimeout}
	defer l.close()
	for _, b := range brokers {
		c, err := dial(ctx, b)
		if err != nil {
			say(fmt.Sprintf("broker %d: %v", b, err))
			continue
		}
		l.conns[b] = c
	}
	return l.all(ctx, give)
}

// lags is the brokers while they are asked. One whose connection is nil answers no more.
type lags struct {
	brokers []int32
	conns   map[int32]*Conn
	say     func(string)
	bound   time.Duration
}

func (l *lags) close() {
	for _, c := range l.conns {
		if c != nil {
			c.Close()
		}
	}
}

// errAway is why a broker is not asked that did not answer before.
var errAway = errors.New("it does not answer")

// with asks a broker one question. A connection whose answer did not come is out of step, and closed.
func (l *lags) with(ctx context.Context, broker int32, ask func(context.Context, *Conn) error) error {
	c := l.conns[broker]
	if c == nil {
		return errAway
	}
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	err := ask(ctx, c)
	if c.broken {
		c.Close()
		l.conns[broker] = nil
	}
	return err
}

func (l *lags) all(ctx context.Context, give func([]Lag) error) error {
	leaders, err := l.leaders(ctx)
	if err != nil {
		return err
	}
	for _, b := range l.brokers {
		groups := l.groups(ctx, b)
		rows := lagsOf(groups, l.ends(ctx, groups, leaders))
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		if err := give(rows); err != nil {
			return err
		}
	}
	return nil
}

// partitionOf is a partition of a topic.
type partitionOf struct {
	topic     string
	partition int32
}

// leaders are those of all partitions, as the first broker that answers knows them.
func (l *lags) leaders(ctx context.Context) (map[partitionOf]int32, error) {
	last := errors.New("no broker answers")
	for _, b := range l.brokers {
		var topics []Topic
		err := l.with(ctx, b, func(ctx context.Context, c *Conn) (err error) {
			topics, _, err = c.Topics(ctx)
			return err
		})
		if errors.Is(err, errAway) {
			continue
		}
		if err != nil {
			last = err
			l.say(fmt.Sprintf("broker %d: %v", b, err))
			continue
		}
		out := map[partitionOf]int32{}
		for _, t := range topics {
			for _, p := range t.Partitions {
				out[partitionOf{t.Name, p.Number}] = p.Leader
			}
		}
		return out, nil
	}
	return nil, last
}

// groups are those that a broker coordinates, with how far they are; fewer where it stops to answer.
func (l *lags) groups(ctx context.Context, b int32) []group {
	if l.conns[b] == nil {
		return nil // That was told.
	}
	var named []group
	err := l.with(ctx, b, func(ctx context.Context, c *Conn) (err error) {
		named, err = c.groups(ctx)
		return err
	})
	if err != nil {
		l.say(fmt.Sprintf("broker %d: %v", b, err))
		return nil
	}
	var out []group
	for i, g := range named {
		err := l.with(ctx, b, func(ctx context.Context, c *Conn) (err error) {
			g.confirmed, err = c.confirmed(ctx, g.name)
			return err
		})
		switch {
		case err == nil:
			out = append(out, g)
		case l.conns[b] == nil:
			l.say(fmt.Sprintf("broker %d: %d of its groups are missing: %v", b, len(named)-i, err))
			return out
		default:
			l.say(fmt.Sprintf("group %.64q: %v", g.name, err))
		}
	}
	return out
}

// ends asks each leader once for the ends of all partitions of some groups that it leads. Those of a leader that does
// not answer stay unknown.
func (l *lags) ends(ctx context.Context, groups []group, leaders map[partitionOf]int32) map[partitionOf]int64 {
	byLeader := map[int32][]partitionOf{}
	seen := map[partitionOf]bool{}
	for _, g := range groups {
		for at := range g.confirmed {
			if leader, ok := leaders[at]; ok && !seen[at] {
				seen[at] = true
				byLeader[leader] = append(byLeader[leader], at)
			}
		}
	}
	out := map[partitionOf]int64{}
	for _, leader := range slices.Sorted(maps.Keys(byLeader)) {
		err := l.with(ctx, leader, func(ctx context.Context, c *Conn) error {
			found, err := c.ends(ctx, byLeader[leader])
			maps.Copy(out, found)
			return err
		})
		if err != nil && !errors.Is(err, errAway) {
			l.say(fmt.Sprintf("broker %d: %v", leader, err))
		}
	}
	return out
}

// group is one of those that a broker coordinates, with how far it is.
type group struct {
	name, state string
	confirmed   map[partitionOf]int64
}

func (c *Conn) groups(ctx context.Context) ([]group, error) {
	q := kmsg.NewPtrListGroupsRequest()
	q.Version = 4
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	r := answer.(*kmsg.ListGroupsResponse)
	var out []group
	for _, g := range r.Groups {
		out = append(out, group{name: g.Group, state: g.GroupState})
	}
	return out, failure("list groups", r.ErrorCode, nil)
}

// confirmed is how far a group has come.
func (c *Conn) confirmed(ctx context.Context, name string) (map[partitionOf]int64, error) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = name // and all of its topics
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.Groups = 8, append(q.Groups, g)
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := map[partitionOf]int64{}
	for _, g := range answer.(*kmsg.OffsetFetchResponse).Groups {
		if err := failure("read how far it is", g.ErrorCode, nil); err != nil {
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Offset >= 0 {
					out[partitionOf{t.Topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return out, nil
}

// latest as a time stands for the end of a partition (ListOffsets).
const latest = -1

// ends asks a broker for the ends of partitions that it leads.
func (c *Conn) ends(ctx context.Context, of []partitionOf) (map[partitionOf]int64, error) {
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version, q.ReplicaID = 7, -1
	byTopic := map[string]int{}
	for _, at := range of {
		i, ok := byTopic[at.topic]
		if !ok {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = at.topic
			i = len(q.Topics)
			byTopic[at.topic], q.Topics = i, append(q.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = at.partition, latest
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, p)
	}
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := map[partitionOf]int64{}
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				out[partitionOf{t.Topic, p.Partition}] = p.Offset
			}
		}
	}
	return out, nil
}

// lagsOf compares how far groups are with the ends of their partitions, topic by topic, sorted by group and topic.
func lagsOf(groups []group, ends map[partitionOf]int64) []Lag {
	var out []Lag
	for _, g := range groups {
		byTopic := map[string]Lag{}
		for at, done := range g.confirmed {
			l := byTopic[at.topic]
			l.Group, l.State, l.Topic = g.name, g.state, at.topic
			if end, known := ends[at]; known {
				l.Records += max(0, end-done)
			} else {
				l.Unknown++
			}
			byTopic[at.topic] = l
		}
		out = slices.AppendSeq(out, maps.Values(byTopic))
	}
	slices.SortFunc(out, func(a, b Lag) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Topic, b.Topic))
	})
	return out
}
