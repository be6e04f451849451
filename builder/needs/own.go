package needs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/builder/manifest"
	"spore/builder/recipe"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/overlay"
)

// OwnFiles are the files of overlay/ and units/ as the root has them, in the order of their paths in the folder.
// Directories that others are in are left out: where the image has them already, they are as they were.
func OwnFiles(c *cluster.Config) []manifest.OwnFile {
	var out []manifest.OwnFile
	for i, e := range c.Overlay.Entries {
		if e.Type == fs.ModeDir && e.File == (overlay.File{}) && holds(e, c.Overlay.Entries[i+1:]) {
			continue
		}
		f := manifest.OwnFile{
			From: e.Source(), Path: e.Path, Type: "file", Mode: fmt.Sprintf("%04o", e.Mode()),
			Owner: cmp.Or(e.File.Owner, "root"), Group: cmp.Or(e.File.Group, "root"), Target: e.Target,
		}
		switch e.Type {
		case fs.ModeDir:
			f.Type = "dir"
		case fs.ModeSymlink:
			f.Type = "symlink"
		default:
			f.SHA256, f.Size = sum(e.Data), int64(len(e.Data))
		}
		out = append(out, f)
	}
	for _, f := range c.Units {
		out = append(out, manifest.OwnFile{
			From: f.Source(), Path: path.Join(recipe.UnitDir, f.Path), Type: "file",
			Mode: "0644", Owner: "root", Group: "root", SHA256: sum(f.Data), Size: int64(len(f.Data)),
		})
	}
	slices.SortFunc(out, func(a, b manifest.OwnFile) int { return strings.Compare(a.From, b.From) })
	return out
}

// holds tells whether the next path of a sorted list is in a directory.
func holds(dir overlay.Entry, next []overlay.Entry) bool {
	return len(next) > 0 && path.Dir(next[0].Path) == dir.Path
}

func sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ownFiles compares the files of overlay/ and units/ with those of the root.
func (m *missing) ownFiles() {
	built := map[string]manifest.OwnFile{}
	for _, f := range m.root.Own {
		built[f.From] = f
	}
	for _, f := range OwnFiles(m.config) {
		at := check.Problem{File: f.From, Line: 1, Column: 1}
		old, ok := built[f.From]
		delete(built, f.From)
		switch {
		case !ok:
			m.errorf(at, "the image was built without this file")
		case old.SHA256 != f.SHA256 || old.Target != f.Target || old.Type != f.Type:
			m.errorf(at, "the image was built with another content of this file")
		case old != f:
			m.errorf(m.config.At(overlay.SettingsFile, "files", f.Path), "the image has %s with owner %s, group "+
				"%s and mode %s", f.Path, old.Owner, old.Group, old.Mode)
		}
	}
	for _, f := range m.root.Own { // what the configuration does not have any more
		if _, left := built[f.From]; left {
			m.errorf(check.Problem{File: f.From, Line: 1, Column: 1}, "the image has this file, and the "+
				"configuration does not")
		}
	}
}
