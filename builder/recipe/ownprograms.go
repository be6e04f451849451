package recipe

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"spore/builder/tree"
)

// checkOwnPrograms refuses a root in which a program of the user's own cannot be started: its interpreter or a shared
// library is not there, or that lies where none can be.
func checkOwnPrograms(b *build) error {
	var problems []error
	for _, p := range b.opts.Payloads {
		if err := b.checkPlaces(p); err != nil {
			problems = append(problems, err)
		}
		for _, f := range p.Files {
			if f.Interpreter == "" {
				continue
			}
			if err := b.checkStart(f); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s %w", p.who(), f.Path, err))
			}
		}
	}
	return errors.Join(problems...)
}

func (b *build) checkStart(f PayloadFile) error {
	if why := b.runnable(f.Interpreter); why != "" {
		what := "is started by"
		if len(f.Libraries) > 0 {
			what = "is linked dynamically for"
		}
		return fmt.Errorf("%s %s, which %s; add the Debian package that has it to packages in image.yaml", what,
			f.Interpreter, why)
	}
	var missing []string
	for _, name := range f.Libraries {
		if !b.hasLibrary(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("needs %s, which no package of the image has; add the Debian packages of these libraries to "+
		"packages in image.yaml, or take a program that is linked statically", strings.Join(missing, ", "))
}

// hasLibrary reports whether the dynamic linker finds a library without being told where: no image has an ld.so.cache.
func (b *build) hasLibrary(name string) bool {
	for dir := range defaultLibraryPaths {
		if n, err := b.tree.Stat(path.Join(dir, name)); err == nil && n.Type == tree.Regular {
			return true
		}
	}
	return false
}
