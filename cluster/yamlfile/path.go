package yamlfile

import "gopkg.in/yaml.v3"

// At returns the value at a path of keys (string) and list indexes (int) below n, or the nearest thing around it that
// exists.
func At(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// Find is At that returns nil where there is no such value. n may be nil.
func Find(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		if n == nil {
			return nil
		}
		n = child(n, step)
	}
	return n
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		if n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					return n.Content[i+1]
				}
			}
		}
	}
	return nil
}
