package services

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"spore/cluster/facts"
)

// ReadCluster reads what package cluster compiled of the whole cluster (facts.ClusterFile), with the settings of each
// service in the service's own type. The rows of a configuration's own services come from the same file.
func ReadCluster(data []byte, c *facts.Cluster) error { return readCluster(data, c, readDefinition) }

// readCluster is ReadCluster with what reads a role of the configuration's own.
func readCluster(data []byte, c *facts.Cluster, definition func([]byte) (Definition, error)) error {
	type fields facts.Cluster // without the methods of facts.Cluster
	var all = struct {
		*fields
		// These stand before the fields of the same names in Cluster.
		Services map[string]json.RawMessage `json:"services"`
		Roles    json.RawMessage            `json:"roles"`
	}{fields: (*fields)(c)}
	c.Services, c.Roles = nil, nil
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if len(all.Roles) > 0 && string(all.Roles) != "null" {
		l, err := readOwn(all.Roles, definition)
		if err != nil {
			return err
		}
		c.Roles = l.Facts()
	}
	for _, s := range Of(c).all {
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

// ReadPart reads what a cluster part says of the cluster and of each node, in the order of the nodes' files. The part
// is one that was built here: its files are read whole.
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
