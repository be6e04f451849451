package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"spore/fleet/cephstatus"
)

const (
	quorumsPath = "/quorums"
	// The quorums, by what they are called.
	ofEtcd, ofControllers, ofMonitors = "etcd", "Kafka's controllers", "Ceph's monitors"
	master                            = "control-plane"
)

// quorums is the page of them.
type quorums []*members

// members is a quorum.
type members struct {
	Service, Leader, Trouble string
	Members                  []member
	// Serve of the Votes serve, and May is how many of those may be lost before nothing is written any more.
	Serve, Votes, May, More int
	Level                   Level
}

type member struct {
	Name, State   string
	Votes, Serves bool
	Level         Level
}

// judge counts the members, and says how bad it is.
func (m *members) judge() {
	for i := range m.Members {
		r := &m.Members[i]
		switch {
		case !r.Votes:
			r.Level = Warning
		case r.Serves:
			m.Serve, m.Votes = m.Serve+1, m.Votes+1
		default:
			m.Votes++
			r.Level = Critical
		}
	}
	majority := m.Votes/2 + 1
	m.May = max(m.Serve-majority, 0)
	switch {
	case m.Serve < majority || m.Leader == "":
		m.Level = Critical
	case m.Serve < m.Votes || m.May == 0 && m.Votes > 1:
		m.Level = Warning
	}
	slices.SortStableFunc(m.Members, func(a, b member) int { return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Name, b.Name)) })
	m.Members, m.More = cut(m.Members)
}

// Says is how a quorum is, in words.
func (m *members) Says() string {
	leads := "nobody leads"
	if m.Leader != "" {
		leads = m.Leader + " leads"
	}
	may := "none may be lost"
	switch majority := m.Votes/2 + 1; {
	case m.Serve < majority:
		may = fmt.Sprintf("a majority is %d, so nothing is written", majority)
	case m.May == 1:
		may = "1 may be lost"
	case m.May > 1:
		may = fmt.Sprintf("%d may be lost", m.May)
	}
	return fmt.Sprintf("%d of %d serve; %s; %s", m.Serve, m.Votes, leads, may)
}

func askQuorums(ctx context.Context, w *inquiry, _ any) (any, error) {
	var asks []func() (*members, error)
	var names []string
	for _, q := range []struct {
		role, name string
		ask        func() (*members, error)
	}{
		{master, ofEtcd, func() (*members, error) {
			r, err := w.verb(ctx, master, "etcd-members", none)
			if err != nil {
				return nil, err
			}
			return etcdOf(r.Results)
		}},
		{broker, ofControllers, func() (*members, error) {
			q, err := kafkaQuorum(ctx, w)
			if err != nil {
				return nil, err
			}
			return controllersOf(q), nil
		}},
		{monitor, ofMonitors, func() (*members, error) {
			r, err := w.verb(ctx, monitor, "ceph-status", none)
			if err != nil {
				return nil, err
			}
			a, err := cephstatus.Read(r.Results)
			if err != nil {
				return nil, err
			}
			return monitorsOf(a)
		}},
	} {
		if len(w.cluster.Members[q.role]) > 0 {
			asks, names = append(asks, q.ask), append(names, q.name)
		}
	}
	out, problems := make(quorums, len(asks)), make([]error, len(asks))
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() {
			m, err := ask()
			if err != nil {
				m, problems[i] = &members{Service: names[i], Trouble: err.Error(), Level: Critical}, fmt.Errorf("%s: %w", names[i], err)
			}
			out[i] = m
		})
	}
	all.Wait()
	if !slices.Contains(problems, nil) {
		return nil, errors.Join(problems...) // What was known last stays on the page, as what is old.
	}
	return out, nil
}

// etcdOf reads the answer to etcd-members.
func etcdOf(results []json.RawMessage) (*members, error) {
	m := &members{Service: ofEtcd}
	for _, part := range results {
		var list []struct {
			Name, ID, Problem        string
			Learner, Leader, Started bool
		}
		if err := json.Unmarshal(part, &list); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, e := range list {
			row := member{Name: cmp.Or(e.Name, e.ID), State: "follows", Votes: !e.Learner, Serves: e.Started && e.Problem == ""}
			switch {
			case e.Problem != "":
				row.State = "does not answer: " + e.Problem
			case !e.Started:
				row.State = "has not started yet"
			case e.Learner:
				row.State = "is brought up to date, and does not vote yet"
			case e.Leader:
				row.State, m.Leader = "leads", row.Name
			}
			m.Members = append(m.Members, row)
		}
	}
	m.judge()
	return m, nil
}

func monitorsOf(a cephstatus.Answer) (*members, error) {
	if a.Monitors == nil {
		return nil, fmt.Errorf("%d monitors are in the quorum; the node's release does not tell which there are", len(a.Status.QuorumNames))
	}
	m := &members{Service: ofMonitors, Leader: a.Monitors.Leader}
	for _, name := range a.Monitors.All {
		row := member{Name: name, State: "is not in the quorum", Votes: true}
		if slices.Contains(a.Monitors.Quorum, name) {
			row.Serves, row.State = true, "follows"
		}
		if name == m.Leader && row.Serves {
			row.State = "leads"
		}
		m.Members = append(m.Members, row)
	}
	m.judge()
	return m, nil
}
