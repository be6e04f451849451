// Package kubernetesstatus reads what a master answers to the verb kubernetes-status, which comes in parts.
package kubernetesstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spore/wire/machine"
)

// Read puts the parts together.
func Read(results []json.RawMessage) (machine.Kubernetes, error) {
	var all machine.Kubernetes
	for _, part := range results {
		var k machine.Kubernetes
		if err := json.Unmarshal(part, &k); err != nil {
			return machine.Kubernetes{}, fmt.Errorf("the answer is malformed: %w", err)
		}
		all.Nodes, all.Counts, all.Behind = append(all.Nodes, k.Nodes...), append(all.Counts, k.Counts...), append(all.Behind, k.Behind...)
		all.Pods, all.Volumes, all.More = append(all.Pods, k.Pods...), append(all.Volumes, k.Volumes...), append(all.More, k.More...)
	}
	return all, nil
}

// Wrong is what is wrong with a node, in words; empty where nothing is.
func Wrong(n machine.KubernetesNode) string {
	var all []string
	if n.Why != "" {
		all = append(all, n.Why)
	}
	all = slices.Concat(all, n.Pressure)
	if n.Cordoned {
		all = append(all, "cordoned")
	}
	return strings.Join(all, "; ")
}
