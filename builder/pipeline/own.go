package pipeline

import (
	"fmt"
	"path"
	"strings"

	"spore/builder/provenance"
)

// ownKey is what the root has of overlay/ and units/ of the configuration, for its key. Without any of it, there is
// nothing.
func (b *build) ownKey() []string {
	var out []string
	for _, e := range b.Config.Overlay.Entries {
		how := fmt.Sprintf("%s %04o %q %q %t", e.Type, e.Mode(), e.File.Owner, e.File.Group, e.File.Replace)
		out = append(out, "overlay", e.Path, how, e.Target, hashed(e.Path, e.Data).Digest)
	}
	for _, f := range b.Config.Units {
		out = append(out, "unit", f.Path, hashed(f.Path, f.Data).Digest)
	}
	return out
}

// ownResources are the files of overlay/ and units/ for the provenance.
func (b *build) ownResources() []provenance.Resource {
	var out []provenance.Resource
	for _, e := range b.Config.Overlay.Entries {
		if e.Type.IsRegular() {
			out = append(out, hashed(e.Source(), e.Data))
		}
	}
	for _, f := range b.Config.Units {
		out = append(out, hashed(f.Source(), f.Data))
	}
	return out
}

// ownModules are the modules that overlay/ and units/ load by name (modules-load.d(5)): they stay whatever rules leave
// out.
func (b *build) ownModules() []string {
	var out []string
	for _, e := range b.Config.Overlay.Entries {
		if path.Base(path.Dir(e.Path)) != "modules-load.d" || path.Ext(e.Path) != ".conf" {
			continue
		}
		for _, line := range strings.Split(string(e.Data), "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
				out = append(out, line)
			}
		}
	}
	for _, f := range b.Config.Units {
		out = append(out, modprobed(f.Data)...)
	}
	return out
}
