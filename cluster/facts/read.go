package facts

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
)

// Read reads what a cluster part says of the cluster and of each node, in the order of the nodes' files. The part is one that
// was built here: its files are read whole.
func Read(part fs.FS) (*Cluster, []Node, error) {
	var c Cluster
	if err := readJSON(part, ClusterFile, &c); err != nil {
		return nil, nil, err
	}
	files, err := fs.ReadDir(part, NodeDir)
	if err != nil {
		return nil, nil, err
	}
	nodes := make([]Node, len(files))
	for i, f := range files {
		if err := readJSON(part, path.Join(NodeDir, f.Name()), &nodes[i]); err != nil {
			return nil, nil, err
		}
	}
	return &c, nodes, nil
}

func readJSON(part fs.FS, name string, into any) error {
	data, err := fs.ReadFile(part, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
