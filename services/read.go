package services

import (
	"encoding/json"
	"fmt"
	"io/fs"

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

// ReadClusterPart is ReadCluster for the files of a cluster part.
func ReadClusterPart(part fs.FS, c *facts.Cluster) error {
	data, err := fs.ReadFile(part, facts.ClusterFile)
	if err != nil {
		return err
	}
	if err := ReadCluster(data, c); err != nil {
		return fmt.Errorf("%s: %w", facts.ClusterFile, err)
	}
	return nil
}
