package render

import "spore/cluster/facts"

// Taint is a taint of a Kubernetes node (core/v1).
type Taint = taint

// NodeTaints are the taints that a node registers with, for those who keep them so afterwards: a kubelet may not change its
// own.
func NodeTaints(n *facts.Node) ([]Taint, error) { return nodeTaints(Input{Node: n}) }
