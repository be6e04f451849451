package kubeapi

import (
	"context"
	"slices"

	"spore/cluster/facts"
)

// measureObjects let a node's kubelet ask itself for its metrics, which the collector of a worker does with the
// kubelet's certificate. The authorizer of nodes has no rule for that; a role of all nodes would let each of them ask
// all others. They go with the node.
func measureObjects(name, uid string) []Object {
	right := "spore:kubelet-metrics:" + name
	role := role(right, []any{map[string]any{
		"apiGroups": []string{""}, "resources": []string{"nodes/metrics"}, "resourceNames": []string{name},
		"verbs": []string{"get"},
	}})
	out := []Object{role, binding(right, right, "User", "system:node:"+name)}
	for _, o := range out {
		o["metadata"].(map[string]any)["ownerReferences"] = []any{
			map[string]any{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
		}
	}
	return out
}

// letMeasure gives a worker its right, once for each node object. A master has another certificate, and needs none.
func (b *bootstrap) letMeasure(ctx context.Context, n *node) error {
	name, uid := n.Metadata.Name, n.Metadata.UID
	worker := slices.ContainsFunc(b.Nodes, func(f facts.Node) bool {
		return f.Name == name && runsKubernetes(f) && !slices.Contains(f.Roles, "control-plane")
	})
	if !worker || b.measures[name] == uid {
		return nil
	}
	for _, o := range measureObjects(name, uid) {
		if err := b.bind(ctx, o); err != nil {
			return err
		}
	}
	b.measures[name] = uid
	return nil
}
