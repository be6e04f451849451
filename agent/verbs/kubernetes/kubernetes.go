// Package kubernetes is the verb kubernetes-status, on a master: the nodes, workloads, pods that are not well and
// volumes, as the API server has them. It asks as somebody who may list these and nothing else.
package kubernetes

import (
	"context"
	"fmt"

	"spore/agent/verbs"
	"spore/agent/verbs/drain"
	"spore/services/kubernetes/kubeapi"
	"spore/wire/machine"
)

// atOnce is how many nodes are in one part of the result.
const atOnce = 500

// Status answers with how Kubernetes is.
func Status(ctx context.Context, r *verbs.Run) (string, error) {
	c, err := drain.Connect(r)
	if err != nil {
		return "", err
	}
	return status(ctx, r, c)
}

func status(ctx context.Context, r *verbs.Run, c *kubeapi.Client) (string, error) {
	k, err := c.Looker("spore:look:" + r.Node.Name).Look(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the API server: %w", err)
	}
	ready := 0
	for _, n := range k.Nodes {
		if n.Ready == "True" {
			ready++
		}
	}
	done := fmt.Sprintf("%d of %d nodes are ready; %d workloads lack pods, %d pods are not well", ready, len(k.Nodes), len(k.Behind), len(k.Pods))
	for len(k.Nodes) > atOnce {
		if err := r.Result(machine.Kubernetes{Nodes: k.Nodes[:atOnce]}); err != nil {
			return "", err
		}
		k.Nodes = k.Nodes[atOnce:]
	}
	return done, r.Result(k)
}
