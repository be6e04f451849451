package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"spore/agent/api"
	"spore/agent/etcd/snapshot"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/nodeapi"
)

// snapshotsAtOnce is how many snapshots are handed out at once: one to each other master, and one to the operator.
const snapshotsAtOnce = 8

// snapshotsRow answers with the list of etcd's snapshots, or with one of them, encrypted as it is: masters and the operator.
func (m *machine) snapshotsRow(c *facts.Cluster, rest string) api.Row {
	return api.Row{
		Method: http.MethodGet, Path: snapshot.Path + rest, Who: []nodeapi.Role{nodeapi.Node, nodeapi.Admin}, AtOnce: snapshotsAtOnce,
		May: func(caller nodeapi.Caller) error {
			if caller.Is(nodeapi.Admin) || slices.Contains(c.Members["control-plane"], caller.Name) {
				return nil
			}
			return errors.New("snapshots of etcd are for masters and for the operator; " + fmt.Sprintf("%q is neither", caller.Name))
		},
		Handle: api.Plain(snapshot.Handler(snapshot.Dir{Path: m.root.At(paths.Snapshots)})),
	}
}
