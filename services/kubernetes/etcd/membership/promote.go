package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
)

// Promote returns when this master's member votes. One that was let in is promoted by the others when it has caught up.
// It runs as root, before etcd-members.service.
func Promote(ctx context.Context, m *master.Machine) error {
	e, err := newEntrant(m)
	if err != nil {
		return err
	}
	defer m.WaitsFor(promoteService, "")
	own, err := m.Connect(e.cluster, client.Own)
	if err != nil {
		return err
	}
	defer own.Close()
	for {
		votes, wait := e.promote(ctx, own)
		if votes {
			return nil
		}
		m.WaitsFor(promoteService, "waiting for "+wait)
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", wait, ctx.Err())
		case <-time.After(askEvery):
		}
	}
}

// promoteService is under which name it is said for whom a new member waits.
const promoteService = "etcd-members"

// promote has the others promote this member, and says whether it votes, or for whom it waits.
func (e *entrant) promote(ctx context.Context, own *clientv3.Client) (votes bool, wait string) {
	ctx, cancel := context.WithTimeout(ctx, e.within)
	defer cancel()
	s, err := own.Status(ctx, client.Own)
	if err != nil {
		return false, "this master's etcd (" + client.Reason(err).Error() + ")"
	}
	if !s.IsLearner && !e.promoted {
		return true, ""
	}
	_, c, waits := e.ask(ctx)
	if c == nil {
		return false, waits + " to promote this member"
	}
	defer c.Close()
	if s.IsLearner {
		_, err = c.MemberPromote(ctx, s.Header.MemberId)
	}
	switch {
	case err == nil:
		e.promoted = true
		if err := e.settle(ctx, c); err != nil {
			return false, "the others to write that this member votes: " + client.Reason(err).Error()
		}
		e.Say("this member of etcd votes from now on")
		return true, ""
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return false, "this member to catch up with the others"
	}
	return false, "the others to promote this member: " + client.Reason(err).Error()
}

// settle has a majority write down what it decided before. etcd keeps only with the next entry of its log on disk that the last
// one was decided (raft, HardState.Commit): when all members lose power before there is one, none of them knows any more that
// this member votes, and those are needed that were without it.
func (e *entrant) settle(ctx context.Context, c *clientv3.Client) error {
	data, err := json.Marshal(slices.Sorted(slices.Values(kubernetes.EtcdQuorum().Initial(e.cluster))))
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, listsPrefix+e.node.Name, string(data))
	return err
}

// requestTime bounds a round of questions, on a machine of usual speed.
const requestTime = 10 * time.Second
