package main

import (
	"context"
	"errors"

	"spore/agent/kubernetes"
	"spore/agent/wait"
	"spore/cluster/facts"
)

// kubernetesNodeCommand waits until Kubernetes knows this node, for programs that write into its object and would otherwise
// be started again and again.
func kubernetesNodeCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent kubernetes-node"}
	}
	client, c, n, err := m.kubernetesNode("calico-node")
	if err != nil {
		return err
	}
	return client.AwaitNode(ctx, n.Name, c.Services.Kubernetes().Slow(), m.say)
}

// kubernetesReadyCommand waits until an API server is ready, for programs that end when none is or try again all the time.
// LEAF names the certificate of the unit; VERB RESOURCE is what its user is to be allowed besides.
func kubernetesReadyCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) != 1 && len(args) != 3 {
		return usageError{"usage: spore-agent kubernetes-ready LEAF [VERB RESOURCE]"}
	}
	client, c, _, err := m.kubernetesNode(args[0])
	if err != nil {
		return err
	}
	ctx, cancel, err := wait.WhileMainRuns(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if len(args) == 3 {
		return client.AwaitAllowed(ctx, args[1], args[2], c.Services.Kubernetes().Slow(), m.say)
	}
	return client.AwaitReady(ctx, c.Services.Kubernetes().Slow(), m.say)
}

// kubernetesNode is the client of a unit on this node.
func (m *machine) kubernetesNode(leaf string) (*kubernetes.Client, *facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.node()
	if err != nil {
		return nil, nil, nil, err
	}
	if n == nil {
		return nil, nil, nil, errors.New("this machine is no node")
	}
	client, err := m.kubernetesClient(c, leaf)
	return client, c, n, err
}
