package membership

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/formation"
	"spore/agent/paths"
	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/origin"
)

// Bootstrap forms etcd anew by force. What is given up here stays beside the new data.
func Bootstrap(ctx context.Context, m *master.Machine, out io.Writer, lose []string) error {
	o, err := formationOptions(m)
	if err != nil {
		return err
	}
	p, err := formation.Force(ctx, o, lose)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "etcd is formed anew by %s; the other masters join\n", strings.Join(p.Names(), ", "))
	if slices.Contains(lose, o.Node) {
		fmt.Fprintf(out, "what is in %s, if there is anything, is kept as %s\n", origin.Data, filepath.Join(origin.Home, origin.GivenUp))
	}
	// Not waited for: it is active when the others are there. With it down, the gate makes the new data.
	said, err := exec.CommandContext(ctx, "systemctl", "restart", "--no-block", kubernetes.EtcdQuorum().Unit).CombinedOutput()
	if err != nil {
		return fmt.Errorf("restart etcd: %w: %s; go on with spore restart NODE etcd", err, strings.TrimSpace(string(said)))
	}
	return nil
}

// formation is what this master's member works with.
func formationOptions(m *master.Machine) (formation.Options, error) {
	c, n, err := m.Master()
	if err != nil {
		return formation.Options{}, err
	}
	s := kubernetes.EtcdQuorum()
	return formation.Options{
		Service: s.Name, Cluster: c.ID, Node: n.Name, Initial: s.Initial(c), Dir: m.Root.At(paths.Formation), Say: m.Say,
		Asker: &formation.Client{Cluster: c.ID, Slow: kubernetes.Of(c.Services).Slow(), API: m.Client()},
	}, nil
}
