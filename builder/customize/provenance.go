package customize

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"spore/builder/pipeline"
)

// untrue is the provenance that stops to be true when the change is written, or empty: it lies beside the image, and says what
// the image of that name was built from. Nothing that a change knows can replace it, since the inputs of the root are not at
// hand.
func (c *Change) untrue() string {
	dst := c.options.Output
	if dst == "" {
		if c.same() {
			return ""
		}
		dst = c.original.path
	}
	if !slices.Contains(members, filepath.Base(dst)) {
		return ""
	}
	name := filepath.Join(filepath.Dir(dst), pipeline.ProvenanceName)
	if _, err := os.Lstat(name); err != nil {
		return ""
	}
	return name
}

// noteProvenance tells what will be removed.
func (s *Set) noteProvenance() {
	for _, c := range s.Changes {
		if name := c.untrue(); name != "" {
			c.note("%s is removed: it describes the build of the image, and this change is not a build", name)
			return
		}
	}
}

// removeProvenance comes before anything is written, so that an interrupted run leaves no untrue one either.
func (s *Set) removeProvenance() error {
	for _, c := range s.Changes {
		if name := c.untrue(); name != "" {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
