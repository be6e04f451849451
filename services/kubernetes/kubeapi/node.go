package kubeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"spore/cluster/facts"
	kubernetesnode "spore/services/kubernetes/node"
)

// taintsName is the ConfigMap that remembers which taints of each node came from cluster.yaml, so that one which is taken
// out there goes, and one that a person or a controller has set stays. Only masters can write to it: a node could otherwise
// have its own taints removed.
const taintsName = "spore-node-taints"

var taintsPath = "/api/v1/namespaces/kube-system/configmaps/" + taintsName

// attempts is how often a change is tried again that another has come before.
const attempts = 5

// nodeWant is what cluster.yaml says of a node.
type nodeWant struct {
	labels map[string]string
	taints []kubernetesnode.Taint
}

// nodeWants are the labels and taints of the nodes that Kubernetes runs on, by name.
func nodeWants(nodes []facts.Node) (map[string]nodeWant, error) {
	out := map[string]nodeWant{}
	for i := range nodes {
		n := &nodes[i]
		if !runsKubernetes(*n) {
			continue
		}
		labels := maps.Clone(n.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		for _, role := range []string{"control-plane", "worker"} {
			if slices.Contains(n.Roles, role) {
				labels["node-role.kubernetes.io/"+role] = ""
			}
		}
		taints, err := kubernetesnode.NodeTaints(n)
		if err != nil {
			return nil, err
		}
		out[n.Name] = nodeWant{labels, taints}
	}
	return out, nil
}

// node is what matters here of a node (core/v1).
type node struct {
	meta
	Spec struct {
		Taints []map[string]any `json:"taints"` // with fields that only controllers use
	} `json:"spec"`
	Status struct {
		Conditions []struct{ Type, Status string } `json:"conditions"`
	} `json:"status"`
}

// ready tells whether the node's kubelet says so and has done so lately.
func (n *node) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// labelled tells whether the node has all labels that it is to have.
func (n *node) labelled(want map[string]string) bool {
	for k, v := range want {
		if have, ok := n.Metadata.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// keepNode gives a node the labels and taints of cluster.yaml. With again it applies the labels even when they are all
// there, by which those go that were there by an earlier cluster.yaml.
func (b *bootstrap) keepNode(ctx context.Context, n *node, again bool) error {
	name := n.Metadata.Name
	want, ok := b.wants[name]
	if !ok {
		b.sayOnce("node " + name + " is in the API and has no role of Kubernetes in cluster.yaml; `kubectl delete node " + name + "` removes it")
		return nil
	}
	if again || !n.labelled(want.labels) {
		// By its uid it is never made anew when it has been deleted meanwhile.
		err := b.Client.Apply(ctx, Object{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
			"name": name, "uid": n.Metadata.UID, "labels": want.labels,
		}}, true)
		if isStatus(err, http.StatusConflict) || isStatus(err, http.StatusNotFound) {
			return nil // it is gone
		}
		if err != nil {
			return fmt.Errorf("labels of node %s: %w", name, err)
		}
	}
	if err := b.keepTaints(ctx, n, want.taints); err != nil {
		return fmt.Errorf("taints of node %s: %w", name, err)
	}
	return nil
}

// keepTaints gives the node the taints that cluster.yaml has, and takes away those that it had.
func (b *bootstrap) keepTaints(ctx context.Context, n *node, want []kubernetesnode.Taint) error {
	former := b.applied[n.Metadata.Name]
	for range attempts {
		next, changed := mergeTaints(n.Spec.Taints, former, want)
		if !changed {
			break
		}
		path := "/api/v1/nodes/" + n.Metadata.Name
		err := b.Client.merge(ctx, path, Object{
			"metadata": map[string]any{"resourceVersion": n.Metadata.ResourceVersion}, "spec": map[string]any{"taints": next},
		})
		if err == nil {
			break
		}
		if !isStatus(err, http.StatusConflict) {
			return err
		}
		*n = node{}
		if err := b.Client.get(ctx, path, n); isStatus(err, http.StatusNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if slices.Equal(former, want) {
		return nil
	}
	data, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := b.Client.merge(ctx, taintsPath, Object{"data": map[string]any{n.Metadata.Name: string(data)}}); err != nil {
		return err
	}
	b.applied[n.Metadata.Name] = want
	return nil
}

// readApplied reads which taints came from an earlier cluster.yaml.
func (b *bootstrap) readApplied(ctx context.Context) error {
	var o struct {
		Data map[string]string `json:"data"`
	}
	if err := b.Client.get(ctx, taintsPath, &o); err != nil {
		return err
	}
	b.applied = map[string][]kubernetesnode.Taint{}
	var problems []error
	for name, text := range o.Data {
		var taints []kubernetesnode.Taint
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			problems = append(problems, fmt.Errorf("ConfigMap %s, node %s: %w", taintsName, name, err))
			continue
		}
		b.applied[name] = taints
	}
	if err := errors.Join(problems...); err != nil {
		b.sayOnce(err.Error() + "; it is written anew")
	}
	return nil
}

// mergeTaints is what a node's taints become: those that it has, without the former ones, with the wanted ones. Taints are
// told apart by key and effect (core/v1, Taint.MatchTaint).
func mergeTaints(have []map[string]any, former, want []kubernetesnode.Taint) (next []map[string]any, changed bool) {
	same := func(m map[string]any) func(kubernetesnode.Taint) bool {
		return func(t kubernetesnode.Taint) bool { return m["key"] == t.Key && m["effect"] == t.Effect }
	}
	next = []map[string]any{}
	done := map[kubernetesnode.Taint]bool{}
	for _, m := range have {
		i := slices.IndexFunc(want, same(m))
		if i < 0 {
			if slices.ContainsFunc(former, same(m)) {
				changed = true
				continue
			}
			next = append(next, m)
			continue
		}
		done[want[i]] = true
		if value, _ := m["value"].(string); value != want[i].Value {
			m = taintObject(want[i])
			changed = true
		}
		next = append(next, m)
	}
	for _, t := range want {
		if !done[t] {
			next = append(next, taintObject(t))
			changed = true
		}
	}
	return next, changed
}

func taintObject(t kubernetesnode.Taint) map[string]any {
	m := map[string]any{"key": t.Key, "effect": t.Effect}
	if t.Value != "" {
		m["value"] = t.Value
	}
	return m
}
