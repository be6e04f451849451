package facts

import (
	"errors"
	"fmt"
	"strings"

	"spore/cluster/spelling"
)

// maxNamed bounds how many nodes an error names.
const maxNamed = 10

// Find returns the node of a name. where says what has the nodes, such as "configs/cluster.yaml", for the error.
func Find(nodes []Node, name, where string) (*Node, error) {
	for i := range nodes {
		if nodes[i].Name == name {
			return &nodes[i], nil
		}
	}
	return nil, NoNode(where, name, Names(nodes))
}

// Names are the names of nodes, in their order.
func Names(nodes []Node) []string {
	out := make([]string, len(nodes))
	for i := range nodes {
		out[i] = nodes[i].Name
	}
	return out
}

// NoNode is the error of a name that somebody wrote and no node has: it names the nodes that there are, the first of them
// where they are many, and the one that was probably meant.
func NoNode(where, name string, names []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has no node %.64q", where, name)
	if near := spelling.Nearest(name, names); near != "" {
		fmt.Fprintf(&b, "; did you mean %q? Its nodes are ", near)
	} else if len(names) > 0 {
		b.WriteString("; its nodes are ")
	}
	b.WriteString(strings.Join(names[:min(len(names), maxNamed)], ", "))
	if len(names) > maxNamed {
		fmt.Fprintf(&b, " and %d more", len(names)-maxNamed)
	}
	return errors.New(b.String())
}
