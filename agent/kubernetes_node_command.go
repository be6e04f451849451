package main

import (
	"context"
	"errors"
)

// kubernetesNodeCommand waits until Kubernetes knows this node, for programs that write into its object and would otherwise
// be started again and again.
func kubernetesNodeCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent kubernetes-node"}
	}
	_, c, n, err := m.node()
	if err != nil {
		return err
	}
	if n == nil {
		return errors.New("this machine is no node")
	}
	client, err := m.kubernetesClient(c, "calico-node")
	if err != nil {
		return err
	}
	return client.AwaitNode(ctx, n.Name, c.Services.Kubernetes.Slow(), m.say)
}
