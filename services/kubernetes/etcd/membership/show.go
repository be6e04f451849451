package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
)

// showTime bounds the whole, and answerTime how long a member is asked how it is, on a machine of usual speed.
const (
	showTime   = 10 * time.Second
	answerTime = 3 * time.Second
)

// shownMember is a member as it is shown.
type shownMember struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// Peers is where other members find it.
	Peers   []string `json:"peers"`
	Learner bool     `json:"learner,omitempty"`
	Leader  bool     `json:"leader,omitempty"`
	// Started is false for a member that was added and never ran.
	Started bool `json:"started"`
	// Version is its release, Size that of its database in bytes; Problem says why they are missing.
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Show prints who the members are, as this master's etcd knows them, and asks each of them how it is.
func Show(ctx context.Context, m *master.Machine, out io.Writer, asJSON bool) error {
	c, _, err := m.Master()
	if err != nil {
		return err
	}
	own, err := m.Connect(c, client.Own)
	if err != nil {
		return err
	}
	defer own.Close()
	ctx, cancel := context.WithTimeout(ctx, showTime*time.Duration(kubernetes.Of(c.Services).Slow()))
	defer cancel()
	// Not linearized: it is also there for a cluster without a quorum.
	status, err := own.Status(ctx, client.Own)
	if err != nil {
		return fmt.Errorf("ask this master's etcd (spore logs shows what it says): %w", err)
	}
	list, err := own.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return fmt.Errorf("ask this master's etcd for the members: %w", err)
	}
	shown := ask(ctx, list.Members, status.Leader, answerTime*time.Duration(kubernetes.Of(c.Services).Slow()), own.Status)
	if asJSON {
		return json.NewEncoder(out).Encode(shown)
	}
	for _, s := range shown {
		fmt.Fprintln(out, s.line())
	}
	return nil
}

// ask asks all members at once how they are, each for as long as bound: one without power has the others look as if
// they gave no answer where all share a bound, one after the other.
func ask(
	ctx context.Context, members []*etcdserverpb.Member, leader uint64, bound time.Duration,
	status func(ctx context.Context, url string) (*clientv3.StatusResponse, error),
) []shownMember {
	shown := make([]shownMember, len(members))
	var all sync.WaitGroup
	for i, member := range members {
		s := &shown[i]
		*s = shownMember{
			Name: member.Name, ID: fmt.Sprintf("%016x", member.ID), Peers: member.PeerURLs, Learner: member.IsLearner,
			Leader: member.ID == leader, Started: len(member.ClientURLs) > 0,
		}
		if !s.Started {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			each, err := status(ctx, member.ClientURLs[0])
			if err != nil {
				s.Problem = client.Reason(err).Error()
				return
			}
			s.Version, s.Size = each.Version, each.DbSize
		})
	}
	all.Wait()
	return shown
}

// line is a member for people.
func (s shownMember) line() string {
	what := "votes"
	switch {
	case !s.Started:
		what = "was added and has not started yet"
	case s.Learner:
		what = "is being brought up to date, and does not vote yet"
	case s.Leader:
		what = "leads"
	}
	how := s.Problem
	if how == "" && s.Started {
		how = fmt.Sprintf("etcd %s, %.1f MiB", s.Version, float64(s.Size)/(1<<20))
	}
	if how != "" {
		what += " (" + how + ")"
	}
	name := s.Name
	if name == "" {
		name = s.ID
	}
	return fmt.Sprintf("%-20s %s", name, what)
}
