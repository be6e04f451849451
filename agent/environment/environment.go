// Package environment writes the environment files that the units of the service programs read. What is in them is package
// facts'.
package environment

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"spore/cluster/facts"
	"spore/services"
	"spore/storage/atomicfile"
)

// Write makes dir hold exactly the node's environment files; those of an earlier identity are removed. memory is the machine's in
// bytes.
func Write(dir string, c *facts.Cluster, n *facts.Node, memory uint64) error {
	files := services.Environment(c, n, memory)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if _, err := atomicfile.Write(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list environment files: %w", err)
	}
	for _, e := range entries {
		if _, wanted := files[e.Name()]; !wanted && filepath.Ext(e.Name()) == ".env" {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove an earlier environment file: %w", err)
			}
		}
	}
	return nil
}
