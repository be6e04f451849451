// Package answers is what the node's API answers to other nodes and to operators: status, health, the journal,
// snapshots of etcd, the state of certificates and of quorums, tests of roles, and a place to leave a bundle or an
// update. It runs without privileges. Package api is the server.
package answers

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/api"
	"spore/agent/bundle"
	"spore/agent/formation/quorum"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/rolehealth"
	"spore/agent/roletests"
	"spore/agent/trail"
	"spore/agent/withdrawn"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// rows is the table of what the node answers to other nodes and to operators.
func rows(m *node.Machine, c *facts.Cluster, n *facts.Node, k *trail.Keeper) []api.Row {
	out := slices.Concat(bundleRows(m, c, n, k), verbRows(m, k), trailRows(m, k))
	lines := new(rolehealth.Lines)
	return append(out,
		quorum.Row(m, c, n),
		memberRow(m, c, n),
		snapshotsRow(m, c, ""),
		snapshotsRow(m, c, "/{name}"),
		recorded(k, "snapshot", bringSnapshotRow(m, c, n)),
		statusRow(m),
		logsRow(m),
		healthRow(m, c, n, lines),
		metricsRow(m, c, n, lines),
		entriesRow(m, c, n),
		recorded(k, "update", updateRow(m)),
		recorded(k, "back", backRow(m)),
		piecesRow(m),
		shellRow(m, k),
		recorded(k, "role-tests", roletests.Row(c, n, m.Root.At)),
	)
}

// bundleRows are what the node answers of renewal, with a record of each bundle that the operator sends.
func bundleRows(m *node.Machine, c *facts.Cluster, n *facts.Node, k *trail.Keeper) []api.Row {
	out := bundle.Rows(m, c, n)
	for i, r := range out {
		if r.Path == nodeapi.BundlePath {
			out[i] = recorded(k, "bundle", r)
		}
	}
	return out
}

// Serve answers other nodes and operators until it is stopped.
func Serve(ctx context.Context, m *node.Machine) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", nodeapi.Port))
	if err != nil {
		return fmt.Errorf("answer nodes and operators: %w", err)
	}
	return ServeOn(ctx, m, l)
}

// ServeOn is Serve on a listener, which it closes.
func ServeOn(ctx context.Context, m *node.Machine, l net.Listener) error {
	defer l.Close()
	c, n, err := m.Self()
	if err != nil {
		return err
	}
	if _, err := m.OwnIdentity(); err != nil {
		return err
	}
	keeper := newKeeper(m, c, n)
	if err := keeper.Open(); err != nil { // The node is to be repaired by its API, whatever its disk is like.
		m.Say(err.Error())
	}
	ctx, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		keeper.Run(ctx)
	}()
	defer func() { // It may be writing which records another node has.
		stop()
		<-kept
	}()
	server := api.Server{
		Rows: rows(m, c, n, keeper), Node: n.Name, Withdrawn: withdrawn.Of(m.Part, m.Say).Now, Now: m.Now, Say: m.Say, Identity: m.OwnIdentity,
		Behind: func() bool { _, err := os.Stat(m.Root.At(paths.ClockWrong)); return err == nil },
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS=answering other nodes and the operator"); err != nil {
		m.Say(err.Error())
	}
	return server.Serve(ctx, l)
}
