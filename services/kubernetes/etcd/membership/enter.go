// Package membership is who the members of etcd are: a master is let in before its etcd starts, votes when it has
// caught up, and is removed when it is no master any more. An operator sees the members, and forms etcd anew by force.
// Package member has the rules, package client asks.
package membership

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/agent/formation"
	"spore/agent/nic"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/member"
	"spore/services/kubernetes/etcd/origin"
	kubernetesnode "spore/services/kubernetes/node"
)

// askEvery is the time between two rounds of questions.
const askEvery = 2 * time.Second

// Enter has the other members let this master in that has no data, or finds out whether one that has some is one of
// them still. It is the end of `spore-agent etcd-member`, as root, before etcd starts.
func Enter(ctx context.Context, m *master.Machine) error {
	e, err := newEntrant(m)
	if err != nil {
		return err
	}
	if e.origin, err = e.dir.Read(); err != nil {
		return err
	}
	defer m.WaitsFor(master.Service, "")
	if e.origin == nil || e.origin.Ran || e.origin.Kind != formation.Join {
		return e.stays(ctx)
	}
	return e.joins(ctx)
}

// entrant is a master before its etcd starts.
type entrant struct {
	*master.Machine
	cluster *facts.Cluster
	node    *facts.Node
	dir     origin.Dir
	// origin is how its data began; only root and etcd can read that.
	origin *origin.Origin
	peer   string
	// others are the other masters, and where their etcd is asked.
	others map[string]string
	// within bounds a round of requests. etcd drops a change of its members while another one is under way, and answers
	// nobody who sets no bound.
	within time.Duration
	// promoted is true when the others have said that this member votes.
	promoted bool
}

func newEntrant(m *master.Machine) (*entrant, error) {
	c, n, err := m.Master()
	if err != nil {
		return nil, err
	}
	e := &entrant{
		Machine: m, cluster: c, node: n, dir: origin.Dir(m.Root.At(origin.Data)), others: map[string]string{},
		within: requestTime * time.Duration(kubernetes.Of(c.Services).Slow()),
	}
	own, err := nic.Addresses()
	if err != nil {
		return nil, err
	}
	if e.peer, err = kubernetesnode.EtcdPeer(n, own); err != nil {
		return nil, err
	}
	for _, name := range kubernetes.EtcdQuorum().Initial(c) {
		if name == n.Name {
			continue
		}
		other, err := m.Part.Node(name)
		if err != nil {
			return nil, err
		}
		if len(other.IPs) == 0 {
			return nil, fmt.Errorf("master %s has no address in cluster.yaml; give it one under ips", name)
		}
		e.others[name] = client.URL(other.IPs[0])
	}
	return e, nil
}

// stays has a member with data start, unless the others have removed it. Without an answer it starts: they may wait for
// it.
func (e *entrant) stays(ctx context.Context) error {
	id, cluster, err := e.dir.Member()
	if err != nil || id == 0 {
		return err
	}
	others, c, waits := e.ask(ctx)
	if c == nil {
		e.Say("etcd starts with its data; the others cannot say whether it is one of them: " + waits)
		return nil
	}
	defer c.Close()
	switch {
	case others.ID != cluster:
		e.WaitsFor(master.Service, fmt.Sprintf("waiting for an operator: the other masters have another database (%016x) than this one (%016x), as after a restore or a formation by force. If what is here is given up: spore etcd forget %s", others.ID, cluster, e.node.Name))
		select {
		case <-ctx.Done():
		case <-time.After(foreignPause): // then it looks again
		}
		return errors.New("the other masters have another database than this one")
	case slices.ContainsFunc(others.Members, func(m member.Member) bool { return m.ID == id }):
		return nil
	}
	if err := e.dir.PutAside(origin.Removed); err != nil {
		return err
	}
	return fmt.Errorf("the other members have removed this one; its data was put aside as %s, and it joins anew", filepath.Join(origin.Home, origin.Removed))
}

// foreignPause is how long an operator is waited for until it is looked again.
const foreignPause = 5 * time.Minute

// joins returns when the others have let this master in, and it is noted how etcd is to start.
func (e *entrant) joins(ctx context.Context) error {
	for {
		wait, err := e.step(ctx)
		if err != nil || wait == "" {
			return err
		}
		e.WaitsFor(master.Service, "waiting for "+wait)
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", wait, ctx.Err())
		case <-time.After(askEvery):
		}
	}
}

// step does the next step, and says for whom to wait; "" when all is done.
func (e *entrant) step(ctx context.Context) (string, error) {
	others, c, waits := e.ask(ctx)
	if c == nil {
		return waits, nil
	}
	defer c.Close()
	wait, again, err := e.enter(ctx, c, others)
	if again {
		return e.step(ctx)
	}
	return wait, err
}

// enter does the next step with the others, whose client is c. It says for whom to wait, or that there is a further
// step.
func (e *entrant) enter(ctx context.Context, c *clientv3.Client, others client.Cluster) (wait string, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	refusing, err := e.refusing(ctx, c)
	if err != nil {
		return client.Reason(err).Error(), false, nil
	}
	if len(refusing) > 0 {
		return strings.Join(refusing, ", ") + " to run with a configuration in which this node is a master", false, nil
	}
	s := member.Enter(others.Members, member.Self{Name: e.node.Name, Peer: e.peer, ID: e.origin.ID})
	switch {
	case s.Wait != "":
		return s.Wait, false, nil
	case s.Done:
		return "", false, e.note(e.origin.ID, others)
	case s.Remove != nil:
		e.Say(fmt.Sprintf("removes %s (%016x) from etcd: that is what this master was before it lost its data", s.Remove.Label(), s.Remove.ID))
		if _, err := c.MemberRemove(ctx, s.Remove.ID); err != nil {
			return "the others to remove what this master was before: " + client.Reason(err).Error(), false, nil
		}
		return "", true, nil
	}
	e.Say("asks the others to let this master in")
	answer, err := c.MemberAddAsLearner(ctx, []string{e.peer})
	if err != nil {
		return "the others to let this master in: " + client.Reason(err).Error(), false, nil
	}
	others.Members = append(others.Members, member.Member{ID: answer.Member.ID, Peers: answer.Member.PeerURLs})
	return "", false, e.note(answer.Member.ID, others)
}

// note writes down as what this master was let in, and beside whom.
func (e *entrant) note(id uint64, others client.Cluster) error {
	o := *e.origin
	o.ID, o.Members = id, map[string][]string{}
	for _, m := range others.Members {
		name := m.Name
		if m.ID == id {
			name = e.node.Name
		} else if name == "" {
			name = fmt.Sprintf("%016x", m.ID)
		}
		o.Members[name] = m.Peers
	}
	return e.dir.Write(o)
}

// ask asks the others who the members are, one after the other until one knows; the client is that one's. Else it says
// for whom to wait.
func (e *entrant) ask(ctx context.Context) (client.Cluster, *clientv3.Client, string) {
	var waits []string
	for _, name := range kubernetes.EtcdQuorum().Initial(e.cluster) {
		url, other := e.others[name]
		if !other {
			continue
		}
		c, err := e.Connect(e.cluster, url)
		if err != nil {
			return client.Cluster{}, nil, err.Error()
		}
		found, err := client.Members(ctx, c, kubernetes.Of(e.cluster.Services).Slow())
		if err == nil {
			return found, c, ""
		}
		c.Close()
		waits = append(waits, fmt.Sprintf("%s (%v)", name, err))
	}
	if len(waits) == 0 {
		return client.Cluster{}, nil, "an operator: there is no other master in cluster.yaml (docs/formation.md, By force)"
	}
	return client.Cluster{}, nil, strings.Join(waits, "; ")
}

// refusing lists the masters in whose configuration this node is no master: they would remove it again.
func (e *entrant) refusing(ctx context.Context, c *clientv3.Client) (out []string, err error) {
	lists, err := readLists(ctx, c)
	if err != nil {
		return nil, err
	}
	for name := range e.others {
		if list, ok := lists[name]; ok && !slices.Contains(list, e.node.Name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}
