package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/atomicfile"
	"spore/agent/etcd/origin"
	"spore/agent/formation"
	"spore/agent/paths"
	"spore/wire/nodeapi"
)

const bootstrapUsage = `usage: spore-agent etcd bootstrap --force [--lose NAME,...]
etcd is formed by itself, when all masters answer that they are empty. --force forms it anew with this master and those
others that are empty, and gives up what the masters of --lose have or may have.`

// apiProgram is the program whose secrets hold what this node asks others with, and apiLeaf the certificate among them.
const (
	apiProgram = "api"
	apiLeaf    = "agent"
)

// bootstrapCommand forms etcd anew by force. What is given up here stays beside the new data.
func bootstrapCommand(ctx context.Context, m *machine, args []string) error {
	var lose []string
	switch {
	case len(args) == 1 && args[0] == "--force":
	case len(args) == 3 && args[0] == "--force" && args[1] == "--lose":
		lose = strings.Split(args[2], ",")
	default:
		return usageError{bootstrapUsage}
	}
	o, err := m.formation()
	if err != nil {
		return err
	}
	p, err := formation.Force(ctx, o, lose)
	var refused *formation.RefusedError
	if errors.As(err, &refused) {
		refused.Command = "spore-agent etcd bootstrap --force"
	}
	if err != nil {
		return err
	}
	fmt.Printf("etcd is formed anew by %s; the other masters join\n", strings.Join(p.Names(), ", "))
	if slices.Contains(lose, o.Node) {
		fmt.Printf("what is in %s, if there is anything, is kept as %s\n", origin.Data, filepath.Join(origin.Home, origin.GivenUp))
	}
	// Not waited for: it is active when the others are there. With it down, the gate makes the new data.
	out, err := exec.CommandContext(ctx, "systemctl", "restart", "--no-block", formation.Etcd().Unit).CombinedOutput()
	if err != nil {
		return fmt.Errorf("restart etcd: %w: %s; go on with systemctl restart etcd", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// formation is what this master's member works with.
func (m *machine) formation() (formation.Options, error) {
	c, n, err := m.master()
	if err != nil {
		return formation.Options{}, err
	}
	s := formation.Etcd()
	return formation.Options{
		Service: s.Name, Cluster: c.ID, Node: n.Name, Initial: s.Initial(c), Dir: m.root.At(paths.Formation), Say: m.say,
		Asker: &formation.Client{Cluster: c.ID, Slow: c.Services.Kubernetes().Slow(), API: nodeapi.Client{Identity: m.apiIdentity, Addresses: m.addressesOf}},
	}, nil
}

// apiIdentity is what this node asks other nodes with.
func (m *machine) apiIdentity() (id nodeapi.Identity, err error) {
	for ref, into := range map[string]*[]byte{apiLeaf + "-certificate": &id.Certificate, apiLeaf + "-key": &id.Key} {
		if *into, err = atomicfile.ReadLimited(m.root.At(filepath.Join(paths.Secrets, apiProgram, ref)), maxSecret); err != nil {
			return id, fmt.Errorf("secret %s of the node's agent: %w", ref, err)
		}
	}
	id.Authorities, err = m.part.Public("agent.crt")
	return id, err
}

// addressesOf lists where another node is asked.
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
