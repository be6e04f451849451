// Package render makes the configuration files of the service programs from what the node was told: one pure function a
// program, called by its unit as ExecStartPre=spore-agent render NAME.
//
// It runs as the program's user, inside the unit's sandbox; files go to the unit's RuntimeDirectory and secrets come from
// its CREDENTIALS_DIRECTORY. Rendering twice gives the same bytes.
package render

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"spore/services/node"
	"spore/services/rendering"
	"spore/storage/atomicfile"
)

// Render returns the configuration files of a program by their paths below Input.Dir.
func Render(name string, in rendering.Input) (map[string]rendering.File, error) {
	renderings := node.Renderings()
	fn, ok := renderings[name]
	if !ok {
		return nil, fmt.Errorf("render %s: no such program; there are %v", name, slices.Sorted(maps.Keys(renderings)))
	}
	files, err := fn(in)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return files, nil
}

// Write puts the files into dir, each whole or not at all.
func Write(dir string, files map[string]rendering.File) error {
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		path := filepath.Join(dir, name)
		if filepath.Dir(name) != "." { // dir itself is systemd's to make
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
		// dir lies in a tmpfs.
		if err := atomicfile.Replace(path, files[name].Data, files[name].Mode, atomicfile.Unsynced); err != nil {
			return err
		}
	}
	return nil
}
