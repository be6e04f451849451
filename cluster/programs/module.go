package programs

import (
	"bytes"
	"strings"

	"golang.org/x/mod/modfile"
)

// MaxModFile bounds go.mod and go.sum beside a program, in bytes.
const MaxModFile = 4 << 20

// goModule is what is looked at of a go.mod.
type goModule struct {
	// requires says that it needs other modules.
	requires bool
	// outside is the first folder by which it replaces a module and that is not below it; empty for none.
	outside string
}

func readModule(mod []byte) (goModule, error) {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return goModule{}, err
	}
	out := goModule{requires: len(f.Require) > 0}
	for _, r := range f.Replace {
		if modfile.IsDirectoryPath(r.New.Path) && r.New.Version == "" && beside(r.New.Path) == "" && out.outside == "" {
			out.outside = r.New.Path
		}
	}
	return out, nil
}

// OutsideFolder is the first folder that a go.mod takes a module from by a replace line and that is not below it, so
// that no hash of the folder or module names what is compiled; empty for none.
func OutsideFolder(mod []byte) (string, error) {
	m, err := readModule(mod)
	return m.outside, err
}

// requiredVersion is the version of a module that a go.mod requires; empty where it does not.
func requiredVersion(mod []byte, module string) (string, error) {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return "", err
	}
	for _, r := range f.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", nil
}

// sumOf is the checksum of a module in a go.sum; empty where it has none.
func sumOf(sums []byte, module, version string) string {
	for line := range bytes.Lines(sums) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == module && f[1] == version {
			return f[2]
		}
	}
	return ""
}

// ModuleSum is the checksum that pins the module of a program; empty for one that is a folder.
func (e Entry) ModuleSum() string {
	if e.Go == nil {
		return ""
	}
	if e.Go.Sum != "" {
		return e.Go.Sum
	}
	return sumOf(e.Sum, e.Go.Module, e.Go.Version)
}
