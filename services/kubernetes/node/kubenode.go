package node

import (
	"spore/cluster/facts"
	"spore/services/rendering"
)

// NodeTaints are the taints that a node registers with, for those who keep them so afterwards: a kubelet may not change its
// own.
func NodeTaints(n *facts.Node) ([]Taint, error) { return nodeTaints(rendering.Input{Node: n}) }
