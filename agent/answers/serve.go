// Package answers is what the node's API answers to other nodes and to operators: status, health, the journal,
// snapshots of etcd, the state of certificates and of quorums, and a place to leave a bundle or an update. It
// runs without privileges. Package api is the server.
package answers

import (
	"context"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/api"
	"spore/agent/bundle"
	"spore/agent/formation/quorum"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// rows is the table of what the node answers to other nodes and to operators.
func rows(m *node.Machine, c *facts.Cluster, n *facts.Node) []api.Row {
	return append(bundle.Rows(m, c, n),
		quorum.Row(m, c, n),
		snapshotsRow(m, c, ""),
		snapshotsRow(m, c, "/{name}"),
		statusRow(m),
		logsRow(m),
		healthRow(m, c, n),
		updateRow(m),
		backRow(m),
		piecesRow(m),
	)
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
	server := api.Server{Rows: rows(m, c, n), Now: m.Now, Say: m.Say, Identity: m.OwnIdentity}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS=answering other nodes and the operator"); err != nil {
		m.Say(err.Error())
	}
	return server.Serve(ctx, l)
}
