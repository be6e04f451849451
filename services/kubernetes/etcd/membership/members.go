package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/member"
	kubernetesnode "spore/services/kubernetes/node"
)

// lookEvery is how often the members are compared with the configuration, on a machine of usual speed.
const lookEvery = 10 * time.Second

// Keep keeps the members of etcd as the configuration says, until it is stopped: whoever is no master any more is
// removed, and whoever has another address tells it.
func Keep(ctx context.Context, m *master.Machine) error {
	e, err := newEntrant(m)
	if err != nil {
		return err
	}
	own, err := m.Connect(e.cluster, client.Own)
	if err != nil {
		return err
	}
	defer own.Close()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return err
	}
	slow := time.Duration(kubernetes.Of(e.cluster.Services).Slow())
	for {
		round, cancel := context.WithTimeout(ctx, e.within)
		wait, err := e.keep(round, own)
		cancel()
		if err != nil {
			wait = "waiting for etcd: " + client.Reason(err).Error()
		}
		if wait == "" {
			wait = "the members of etcd are the masters of cluster.yaml"
		}
		m.WaitsFor(promoteService, wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery * slow):
		}
	}
}

// keep says in etcd who the masters are and where this one is, and, where this member leads or nobody of them does, removes one that is none. It says
// for whom it waits.
func (e *entrant) keep(ctx context.Context, own *clientv3.Client) (string, error) {
	masters := slices.Sorted(slices.Values(kubernetes.EtcdQuorum().Initial(e.cluster)))
	lists, err := readLists(ctx, own)
	if err != nil {
		return "", err
	}
	if err := writeList(ctx, own, e.node.Name, masters, lists); err != nil {
		return "", err
	}
	lists[e.node.Name] = masters
	s, err := own.Status(ctx, client.Own)
	if err != nil {
		return "", err
	}
	found, err := client.Members(ctx, own, kubernetes.Of(e.cluster.Services).Slow())
	if err != nil {
		return "", err
	}
	if self := (member.Self{Name: e.node.Name, Peer: e.peer, ID: s.Header.MemberId}); member.Moved(found.Members, self) {
		e.Say("tells the other members of etcd its address, which is another one than before: " + e.peer)
		if _, err := own.MemberUpdate(ctx, self.ID, []string{e.peer}); err != nil {
			return "", fmt.Errorf("change this member's address: %w", client.Reason(err))
		}
	}
	if s.Leader != s.Header.MemberId && member.Led(found.Members, s.Leader, masters) {
		return "", nil
	}
	peers, err := e.peers(masters)
	if err != nil {
		return "", err
	}
	step := member.Leave(found.Members, masters, lists, peers)
	switch {
	case step.Wait != "":
		return "waiting for " + step.Wait, nil
	case step.Done:
		return "", nil
	}
	e.Say(fmt.Sprintf("removes %s (%016x) from etcd: it is not a master in cluster.yaml any more", step.Remove.Label(), step.Remove.ID))
	// Several may do it when the leader is the one that goes.
	if _, err := own.MemberRemove(ctx, step.Remove.ID); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return "", fmt.Errorf("remove %s: %w", step.Remove.Label(), client.Reason(err))
	}
	// An entry after the removal, also where there is nothing to delete: see settle.
	_, err = own.Delete(ctx, listsPrefix+step.Remove.Name)
	return "", err
}

// peers is where the masters find each other.
func (e *entrant) peers(masters []string) (map[string]string, error) {
	out := map[string]string{e.node.Name: e.peer}
	for _, name := range masters {
		if name == e.node.Name {
			continue
		}
		n, err := e.Part.Node(name)
		if err != nil {
			return nil, err
		}
		if out[name], err = kubernetesnode.EtcdPeer(n, nil); err != nil {
			return nil, fmt.Errorf("master %s: %w", name, err)
		}
	}
	return out, nil
}
