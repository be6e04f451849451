package check

import "spore/cluster/spec"

// NodeFile is a file of nodes/, which is about one node.
type NodeFile struct {
	File
	// Content is what it says.
	Content spec.NodeFile
	// Broken says that the file could not be read or parsed, so that nothing is known of its content.
	Broken bool
}

// NodeFile finds the file about a node by the node's index.
func (k *Checker) NodeFile(node int) (NodeFile, bool) {
	f, ok := k.NodeFiles[k.Cluster.Nodes[node].Name]
	return f, ok
}
