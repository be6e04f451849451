// Package unit is what the units of Kubernetes run besides Kubernetes: a master gives the cluster what it needs through
// the API, programs wait for an API server, for the node's object or for felix, and pods get a network when their
// policies can hold them. Package kubernetes speaks to the API.
package unit

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/detect"
	"spore/agent/node"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/kubernetes/kubeapi"
)

// calicoProgram prints the definitions of Calico's kinds, as it was compiled with them.
const calicoProgram = "/usr/bin/calico"

// Bootstrap is the daemon of a master that gives the cluster what it needs through the API.
func Bootstrap(ctx context.Context, m *node.Machine) error {
	_, c, n, err := m.Node()
	if err != nil {
		return err
	}
	if n == nil || !slices.Contains(n.Roles, "control-plane") {
		return fmt.Errorf("%w with the role control-plane", detect.ErrUnmatched)
	}
	nodes, err := nodesOf(m, c)
	if err != nil {
		return err
	}
	client, err := connect(m, c, "kubernetes-agent")
	if err != nil {
		return err
	}
	keep := keeper(m, client, c, n)
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			m.Say(err.Error())
		}
	}
	applied := make(chan struct{})
	once := sync.OnceFunc(func() { close(applied) })
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if keep == nil {
			return
		}
		select {
		case <-applied: // What the cluster needs comes before what its folder has.
			keep.Run(ctx)
		case <-ctx.Done():
		}
	}()
	err = kubeapi.Run(ctx, kubeapi.Options{
		Client: client, Cluster: c, Nodes: nodes, Say: m.Say,
		Kinds: func(ctx context.Context) ([]kubeapi.Object, error) {
			out, err := exec.CommandContext(ctx, calicoProgram, "crds").Output()
			if err != nil {
				return nil, fmt.Errorf("%s crds: %w", calicoProgram, err)
			}
			return kubeapi.ParseKinds(out)
		},
		Status:  func(s string) { notify("STATUS=" + strings.ReplaceAll(s, "\n", " ")) },
		Applied: func() { notify(daemon.SdNotifyReady); once() },
	})
	if err == nil {
		<-kept
	}
	return err
}

// nodesOf reads what is compiled for each node that Kubernetes runs on.
func nodesOf(m *node.Machine, c *facts.Cluster) ([]facts.Node, error) {
	names := slices.Concat(c.Members["control-plane"], c.Members["worker"])
	slices.Sort(names)
	var out []facts.Node
	for _, name := range slices.Compact(names) {
		n, err := m.Part.Node(name)
		if err != nil {
			return nil, err
		}
		out = append(out, *n)
	}
	return out, nil
}

// connect speaks to the API by the node's own balancer, with a certificate that the unit was given.
func connect(m *node.Machine, c *facts.Cluster, leaf string) (*kubeapi.Client, error) {
	o := kubeapi.Credentials{Server: client.Server}
	var err error
	for ref, into := range map[string]*[]byte{leaf + "-certificate": &o.Certificate, leaf + "-key": &o.Key} {
		if *into, err = node.Secret(ref); err != nil {
			return nil, err
		}
	}
	if o.Authorities, err = m.Part.Public("kubernetes-server.crt"); err != nil {
		return nil, err
	}
	return kubeapi.NewClient(o, kubernetes.Of(c.Services).Slow())
}
