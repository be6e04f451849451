package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/api"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// apiProgram is the program whose secrets all share that ask other nodes as this one, and apiLeaf the certificate among them.
const (
	apiProgram = "api"
	apiLeaf    = "agent"
)

// apiRows is the table of what the node answers to other nodes and to operators.
func (m *machine) apiRows(c *facts.Cluster, n *facts.Node) []api.Row {
	return append(m.renewalRows(c, n),
		m.formationRow(c, n),
		m.snapshotsRow(c, ""),
		m.snapshotsRow(c, "/{name}"),
		m.statusRow(),
		m.logsRow(),
		m.healthRow(c, n),
		m.configRow(),
	)
}

// apiCommand answers other nodes and operators until it is stopped.
func apiCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent api"}
	}
	c, n, err := m.quorumMember()
	if err != nil {
		return err
	}
	if _, err := m.ownIdentity(); err != nil {
		return err
	}
	server := api.Server{Rows: m.apiRows(c, n), Now: m.now, Say: m.say, Identity: m.ownIdentity}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", nodeapi.Port))
	if err != nil {
		return fmt.Errorf("answer nodes and operators: %w", err)
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS=answering other nodes and the operator"); err != nil {
		m.say(err.Error())
	}
	return server.Serve(ctx, l)
}

// apiClient asks other nodes as this one. It is for commands that root runs.
func (m *machine) apiClient() nodeapi.Client {
	return nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return m.apiIdentity(func(ref string) string { return m.root.At(filepath.Join(paths.Secrets, apiProgram, ref)) })
		},
		Addresses: m.addressesOf,
	}
}

// ownIdentity is what the API shows: the certificate of now, where it was renewed since the unit was started, else the one that
// the unit was started with.
func (m *machine) ownIdentity() (nodeapi.Identity, error) {
	// Both files of one time: the link may be turned to others between the two.
	if dir, err := filepath.EvalSymlinks(m.root.At(filepath.Join(paths.Live, apiProgram))); err == nil {
		return m.apiIdentity(func(ref string) string { return filepath.Join(dir, ref) })
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nodeapi.Identity{}, errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	return m.apiIdentity(func(ref string) string { return filepath.Join(dir, "secret_"+ref) })
}

// apiIdentity reads the certificate of the node's agent, whose entries of the bundle lie where at says.
func (m *machine) apiIdentity(at func(ref string) string) (id nodeapi.Identity, err error) {
	for ref, into := range map[string]*[]byte{apiLeaf + "-certificate": &id.Certificate, apiLeaf + "-key": &id.Key} {
		if *into, err = atomicfile.ReadLimited(at(ref), maxSecret); err != nil {
			return id, fmt.Errorf("secret %s of the node's agent: %w", ref, err)
		}
	}
	id.Authorities, err = m.part.Public("agent.crt")
	return id, err
}

// addressesOf lists where another node is asked: its addresses by the configuration, and its name where it has none there.
func (m *machine) addressesOf(name string) ([]string, error) {
	n, err := m.part.Node(name)
	if err != nil {
		return nil, err
	}
	if len(n.IPs) == 0 {
		return []string{n.FQDN}, nil
	}
	return n.IPs, nil
}
