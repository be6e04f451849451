package answers

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"spore/agent/api"
	"spore/agent/health"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/snapshot"
	"spore/wire/nodeapi"
)

// snapshotsAtOnce is how many snapshots are handed out at once: one to each other master, and one to the operator.
const snapshotsAtOnce = 8

// snapshotsRow answers with the list of etcd's snapshots, or with one of them, encrypted as it is: masters and the operator.
func snapshotsRow(m *node.Machine, c *facts.Cluster, rest string) api.Row {
	return api.Row{
		Method: http.MethodGet, Path: nodeapi.SnapshotsPath + rest, Who: []nodeapi.Role{nodeapi.Node, nodeapi.Admin}, AtOnce: snapshotsAtOnce,
		May: func(caller nodeapi.Caller) error {
			if caller.Is(nodeapi.Admin) || slices.Contains(c.Members["control-plane"], caller.Name) {
				return nil
			}
			return fmt.Errorf("snapshots of etcd are for masters and for the operator; %q is neither", caller.Name)
		},
		Handle: api.Plain(snapshot.Handler(snapshot.Dir{Path: m.Root.At(paths.Snapshots)})),
	}
}

// snapshotsKept are the snapshots of etcd that a master has; nil for another node.
func snapshotsKept(m *node.Machine, c *facts.Cluster, n *facts.Node) *health.Snapshots {
	if !slices.Contains(c.Members["control-plane"], n.Name) {
		return nil
	}
	out := &health.Snapshots{Every: time.Duration(kubernetes.Of(c.Services).AllSnapshots().Every) * time.Minute}
	list, err := snapshot.Dir{Path: m.Root.At(paths.Snapshots)}.List()
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	if e, ok := snapshot.Newest(list, m.Now()); ok {
		out.Count, out.Newest, out.By = len(list), e.Name.Taken, e.Name.Node
	}
	return out
}
