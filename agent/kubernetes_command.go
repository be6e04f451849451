package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/atomicfile"
	"spore/agent/kubernetes"
	"spore/agent/render"
	"spore/cluster/facts"
)

// calicoProgram prints the definitions of Calico's kinds, as it was compiled with them.
const calicoProgram = "/usr/bin/calico"

// kubernetesCommand is the daemon of a master that gives the cluster what it needs through the API.
func kubernetesCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent kubernetes"}
	}
	_, c, n, err := m.node()
	if err != nil {
		return err
	}
	if n == nil || !slices.Contains(n.Roles, "control-plane") {
		return errors.New("this machine is no node with the role control-plane")
	}
	nodes, err := m.kubernetesNodes(c)
	if err != nil {
		return err
	}
	client, err := m.kubernetesClient(c, "kubernetes-agent")
	if err != nil {
		return err
	}
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			m.say(err.Error())
		}
	}
	return kubernetes.Run(ctx, kubernetes.Options{
		Client: client, Cluster: c, Nodes: nodes, Say: m.say,
		Kinds: func(ctx context.Context) ([]kubernetes.Object, error) {
			out, err := exec.CommandContext(ctx, calicoProgram, "crds").Output()
			if err != nil {
				return nil, fmt.Errorf("%s crds: %w", calicoProgram, err)
			}
			return kubernetes.ParseKinds(out)
		},
		Status:  func(s string) { notify("STATUS=" + strings.ReplaceAll(s, "\n", " ")) },
		Applied: func() { notify(daemon.SdNotifyReady) },
	})
}

// kubernetesNodes reads what is compiled for each node that Kubernetes runs on.
func (m *machine) kubernetesNodes(c *facts.Cluster) ([]facts.Node, error) {
	names := slices.Concat(c.Members["control-plane"], c.Members["worker"])
	slices.Sort(names)
	var out []facts.Node
	for _, name := range slices.Compact(names) {
		n, err := m.part.Node(name)
		if err != nil {
			return nil, err
		}
		out = append(out, *n)
	}
	return out, nil
}

// kubernetesClient speaks to the API by the node's own balancer, with a certificate that the unit was given.
func (m *machine) kubernetesClient(c *facts.Cluster, leaf string) (*kubernetes.Client, error) {
	o := kubernetes.Credentials{Server: render.APIServer}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return nil, errors.New("CREDENTIALS_DIRECTORY is not set: this command is for a unit with LoadCredential=")
	}
	for ref, into := range map[string]*[]byte{leaf + "-certificate": &o.Certificate, leaf + "-key": &o.Key} {
		data, err := atomicfile.ReadLimited(filepath.Join(dir, "secret_"+ref), maxSecret)
		if err != nil {
			return nil, fmt.Errorf("secret %s of this unit: %w", ref, err)
		}
		*into = data
	}
	var err error
	if o.Authorities, err = m.part.Public("kubernetes-server.crt"); err != nil {
		return nil, err
	}
	return kubernetes.NewClient(o, c.Services.Kubernetes().Slow())
}
