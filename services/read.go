package services

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"spore/cluster/facts"
)

// ReadCluster reads what package cluster compiled of the whole cluster (facts.ClusterFile), with the settings of each service
// in the service's own type.
func ReadCluster(data []byte, c *facts.Cluster) error {
	type fields facts.Cluster // without the methods of facts.Cluster
	var all = struct {
		*fields
		// Services stands before the field of the same name in Cluster.
		Services map[string]json.RawMessage `json:"services"`
	}{fields: (*fields)(c)}
	c.Services = nil
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	for _, s := range All() {
		text, ok := all.Services[s.Name]
		if !ok || string(text) == "null" {
			continue
		}
		settings := s.Settings()
		if err := json.Unmarshal(text, settings); err != nil {
			return fmt.Errorf("settings of %s: %w", s.Name, err)
		}
		c.Services.Set(settings)
	}
	return nil
}

// ReadPart reads what a cluster part says of the cluster and of each node, in the order of the nodes' files. The part is
// one that was built here: its files are read whole.
func ReadPart(part fs.FS) (*facts.Cluster, []facts.Node, error) {
	var c facts.Cluster
	if err := read(part, facts.ClusterFile, func(data []byte) error { return ReadCluster(data, &c) }); err != nil {
		return nil, nil, err
	}
	files, err := fs.ReadDir(part, facts.NodeDir)
	if err != nil {
		return nil, nil, err
	}
	nodes := make([]facts.Node, len(files))
	for i, f := range files {
		err := read(part, path.Join(facts.NodeDir, f.Name()), func(data []byte) error { return json.Unmarshal(data, &nodes[i]) })
		if err != nil {
			return nil, nil, err
		}
	}
	return &c, nodes, nil
}

func read(part fs.FS, name string, decode func(data []byte) error) error {
	data, err := fs.ReadFile(part, name)
	if err != nil {
		return err
	}
	if err := decode(data); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
