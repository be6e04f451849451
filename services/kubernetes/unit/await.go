package unit

import (
	"context"

	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/kubeapi"
)

// Node waits until Kubernetes knows this node, for programs that write into its object and would otherwise
// be started again and again.
func Node(ctx context.Context, m *node.Machine) error {
	client, c, n, err := self(m, "calico-node")
	if err != nil {
		return err
	}
	return client.AwaitNode(ctx, n.Name, kubernetes.Of(c.Services).Slow(), m.Say)
}

// Ready waits until an API server is ready, for programs that end when none is or try again all the time.
// leaf names the certificate of the unit; allowed is the verb and the resource that its user is to be allowed besides.
func Ready(ctx context.Context, m *node.Machine, leaf string, allowed []string) error {
	client, c, _, err := self(m, leaf)
	if err != nil {
		return err
	}
	ctx, cancel, err := wait.WhileMainRuns(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if len(allowed) == 2 {
		return client.AwaitAllowed(ctx, allowed[0], allowed[1], kubernetes.Of(c.Services).Slow(), m.Say)
	}
	return client.AwaitReady(ctx, kubernetes.Of(c.Services).Slow(), m.Say)
}

// self is the client of a unit on this node.
func self(m *node.Machine, leaf string) (*kubeapi.Client, *facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return nil, nil, nil, err
	}
	if n == nil {
		return nil, nil, nil, detect.ErrUnmatched
	}
	client, err := connect(m, c, leaf)
	return client, c, n, err
}
