// Package origins is the table by which an image tells where each of its files comes from, and what was left out of it
// and why. It lies in the root itself, so that an image needs nothing beside it to be accountable.
//
// The table names no paths: the origins follow the order of a walk through the root, a directory before its content and
// names sorted by their bytes. Of 10,000 files it takes about 20 KiB of a compressed root.
package origins

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// Path is where a root has its table.
const Path = "/usr/lib/spore/origins.json"

// MaxSize bounds an encoded table, in bytes.
const MaxSize = 64 << 20

// origin is that of the table itself.
const origin = "step:origins"

// format is the version of this form.
const format = 1

// Table tells of one root.
type Table struct {
	Format int `json:"format"`
	// Origins lists each origin once: "deb:NAME_VERSION", "payload:NAME", "unit:FILE", "overlay:FILE",
	// "configuration:FILE", "step:NAME".
	Origins []string `json:"origins"`
	// Runs are pairs of a place in Origins and of how many paths of the walk have it.
	Runs [][2]int `json:"runs"`
	// LeftOut is sorted by path.
	LeftOut []LeftOut `json:"leftOut"`
}

// LeftOut is something that packages bring and the root does not have.
type LeftOut struct {
	// Path is left out with all below it.
	Path string `json:"path"`
	// Step is the step of the recipe, Why its reason.
	Step string `json:"step"`
	Why  string `json:"why"`
	// Origin is that of the file, where it is one.
	Origin string `json:"origin,omitempty"`
	// Bytes is the size of the files, uncompressed.
	Bytes int64 `json:"bytes,omitempty"`
	// Files are those of a package that was left out as a whole; Path is that package's name then.
	Files []string `json:"files,omitempty"`
}

// Lay adds the table to a finished root.
func Lay(t *tree.Tree, leftOut []LeftOut) error {
	n := &tree.Inode{Type: tree.Regular, Mode: 0o644, Origin: origin}
	if err := t.Add(Path, n); err != nil {
		return fmt.Errorf("lay the table of origins: %w", err)
	}
	data, err := json.Marshal(of(t, leftOut))
	if err != nil {
		return err
	}
	n.Content = tree.Bytes(append(data, '\n'))
	return nil
}

func of(t *tree.Tree, leftOut []LeftOut) Table {
	out := Table{Format: format, Origins: []string{}, Runs: [][2]int{}, LeftOut: slices.Clone(leftOut)}
	index := map[string]int{}
	// Walk stops only at an error of its callback, and this one has none.
	_ = t.Walk(func(_ string, n *tree.Inode) error {
		i, ok := index[n.Origin]
		if !ok {
			i = len(out.Origins)
			index[n.Origin] = i
			out.Origins = append(out.Origins, n.Origin)
		}
		if last := len(out.Runs) - 1; last >= 0 && out.Runs[last][0] == i {
			out.Runs[last][1]++
		} else {
			out.Runs = append(out.Runs, [2]int{i, 1})
		}
		return nil
	})
	slices.SortStableFunc(out.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Decode reads a table.
func Decode(data []byte) (*Table, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("read the table of origins: more than %d bytes", MaxSize)
	}
	var t Table
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("read the table of origins: %w", err)
	}
	if t.Format != format {
		return nil, fmt.Errorf("read the table of origins: it has the form %d, and this program knows %d; use the spore that built the image", t.Format, format)
	}
	return &t, nil
}

// List returns the origin of each path of a walk, of which there are count.
func (t *Table) List(count int) ([]string, error) {
	out := make([]string, 0, count)
	for _, r := range t.Runs {
		if r[0] < 0 || r[0] >= len(t.Origins) || r[1] < 1 || r[1] > count-len(out) {
			return nil, errors.New("the table of origins does not fit the root")
		}
		for range r[1] {
			out = append(out, t.Origins[r[0]])
		}
	}
	if len(out) != count {
		return nil, fmt.Errorf("the table of origins has %d paths, and the root has %d", len(out), count)
	}
	return out, nil
}

// Missing tells why a path is not in the root, or returns nil when nothing is known of it. The closest rule wins.
func (t *Table) Missing(p string) *LeftOut {
	var best *LeftOut
	for i := range t.LeftOut {
		l := &t.LeftOut[i]
		if len(l.Files) > 0 {
			if slices.Contains(l.Files, p) {
				return l
			}
			continue
		}
		if (l.Path == p || strings.HasPrefix(p, path.Clean(l.Path)+"/")) && (best == nil || len(l.Path) > len(best.Path)) {
			best = l
		}
	}
	return best
}
