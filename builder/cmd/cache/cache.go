// Package cache is the command `spore cache`: what the cache of the builder holds, how large it may get, less of it, and
// what of it another machine can have.
package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"spore/builder/cmd/cachefolder"
	"spore/builder/cmd/exit"
	"spore/builder/store"
	"spore/builder/store/kind"
)

type flags struct {
	cache string
	json  bool
}

// Command returns the command.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show, limit, clean, export and import the build cache",
		Long: `Cache shows the folder in which builds keep what is slow to make, its size, its limit, and what it holds. You may delete
it: a build makes again what is missing.

After each build the cache is reduced to its limit: what was unused for the longest time is removed first. The limit is
20 GiB, or a quarter of the disk where that is less, unless spore cache limit or the environment variable
SPORE_CACHE_LIMIT says otherwise.`,
		Example: "  spore cache\n  spore cache limit 10GiB\n  spore cache prune --older-than 30d --dry-run",
		Args:    exit.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := cachefolder.Path(f.cache)
			if err != nil {
				return err
			}
			s, err := survey(dir)
			if err != nil {
				return err
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
			}
			return s.print(cmd.OutOrStdout())
		},
	}
	cmd.PersistentFlags().StringVar(&f.cache, "cache", "", "cache folder (default: spore in the user's cache folder)")
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print an object")
	cmd.AddCommand(pruneCommand(&f), limitCommand(&f), checkCommand(&f), exportCommand(&f), importCommand(&f))
	return cmd
}

// summary is what a cache holds. Sizes are in bytes.
type summary struct {
	Folder  string `json:"folder"`
	Size    int64  `json:"size"`
	Limit   int64  `json:"limit"`
	Objects int    `json:"objects"`
	// Downloads is the size of those that were broken off.
	Downloads int64   `json:"downloads"`
	Kinds     []group `json:"kinds"`
}

// group are the objects of a kind.
type group struct {
	Kind    kind.Kind `json:"kind"`
	Objects int       `json:"objects"`
	Size    int64     `json:"size"`
	// Used is when one of them was last used.
	Used time.Time `json:"used"`
}

// survey looks at every object. It takes no part in the cache, which may be one that cannot be written.
func survey(dir string) (*summary, error) {
	s := &summary{Folder: dir, Kinds: []group{}}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var err error
	if s.Limit, err = cachefolder.Limit(dir); err != nil {
		return nil, err
	}
	objects, err := store.List(dir)
	if err != nil {
		return nil, err
	}
	byKind := map[kind.Kind]*group{}
	for _, o := range objects {
		k, err := kind.OfFile(o.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned just now
		}
		if err != nil {
			return nil, fmt.Errorf("look at the cache: %w", err)
		}
		g := byKind[k]
		if g == nil {
			g = &group{Kind: k}
			byKind[k] = g
		}
		g.Objects, g.Size, g.Used = g.Objects+1, g.Size+o.Size, o.Used.UTC()
		s.Objects, s.Size = s.Objects+1, s.Size+o.Size
	}
	for _, k := range kind.All() {
		if g := byKind[k]; g != nil {
			s.Kinds = append(s.Kinds, *g)
		}
	}
	broken, err := filepath.Glob(filepath.Join(dir, "partial", "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range broken {
		if info, err := os.Stat(name); err == nil {
			s.Downloads += info.Size()
		}
	}
	return s, nil
}

func (s *summary) print(w io.Writer) error {
	if s.Objects == 0 {
		_, err := fmt.Fprintf(w, "%s is empty\n", s.Folder)
		return err
	}
	fmt.Fprintf(w, "folder    %s\nsize      %s in %d objects\nlimit     %s\n", s.Folder, size(s.Size), s.Objects, limitText(s.Limit))
	if s.Downloads > 0 {
		fmt.Fprintf(w, "begun     %s of downloads\n", size(s.Downloads))
	}
	fmt.Fprintf(w, "\n%-10s %8s %10s  %s\n", "KIND", "OBJECTS", "SIZE", "LAST USED")
	for _, g := range s.Kinds {
		if _, err := fmt.Fprintf(w, "%-10s %8d %10s  %s\n", g.Kind, g.Objects, size(g.Size), g.Used.Local().Format("2006-01-02 15:04")); err != nil {
			return err
		}
	}
	return nil
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }

func limitText(n int64) string {
	if n == 0 {
		return "none"
	}
	return size(n)
}
