package payload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spore/builder/store"
	"spore/cluster/programs"
)

// buildModule compiles a module at a version. Its checksum names everything in it, its own go.sum among that, which
// names every module that it needs.
func buildModule(ctx context.Context, st *store.Store, e programs.Entry, o Options) (Program, error) {
	g := e.Go
	pkg := g.Package
	if pkg == "" {
		pkg = "."
	}
	t := target{
		name: nameOf(e), pkg: pkg, options: []string{WithoutDWARF}, shown: g.Module + "@" + g.Version,
		files: []file{{g.Module + "@" + g.Version, g.Sum}},
		hint: fmt.Sprintf("where the module's own go.mod or go.sum do not do, put a go.mod that requires it, with "+
			"toolchain and replace lines as needed, and its go.sum into %s/", e.ModuleFolder()),
	}
	t.stage = func(ctx context.Context, into string, run compiler, m *meter) (string, error) {
		m.say("fetching " + t.shown)
		dir, err := run.fetchModule(ctx, into, *g)
		if err != nil {
			return "", err
		}
		return dir, inItself(dir, t.shown, e.ModuleFolder())
	}
	var err error
	if t.toolchain, err = o.toolchainFor(ctx, nil); err != nil {
		return Program{}, err
	}
	p, err := build(ctx, st, t, o)
	p.Version, p.Module = g.Version, &Module{g.Module, g.Version, g.Sum}
	return p, err
}

// inItself refuses a module that takes others from folders outside of it: its checksum does not name what is there.
func inItself(dir, module, beside string) error {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) { // A module from before there was go.mod replaces nothing.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read go.mod of %s: %w", module, err)
	}
	defer f.Close()
	mod, err := io.ReadAll(io.LimitReader(f, programs.MaxModFile+1))
	if err == nil && len(mod) > programs.MaxModFile {
		err = fmt.Errorf("it has more than %d bytes", programs.MaxModFile)
	}
	outside := ""
	if err == nil {
		outside, err = programs.OutsideFolder(mod)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read go.mod of %s: %w", module, err)
	case outside != "":
		return fmt.Errorf("go.mod of %s replaces a module by %.200q, which is outside of the module, so that its checksum "+
			"does not say what is compiled; put a go.mod that requires %s, and its go.sum, into %s/", module, outside,
			module, beside)
	}
	return nil
}

// fetchModule has the go command bring a module, and returns its folder when it is what its checksum says.
func (c compiler) fetchModule(ctx context.Context, dir string, g programs.Go) (string, error) {
	cmd := c.goCommand(ctx, "mod", "download", "-json", g.Module+"@"+g.Version)
	cmd.Dir = dir
	// The checksum of the configuration is the one that counts, and a private module is in no database.
	cmd.Env = append(cmd.Env, "GONOSUMDB="+g.Module)
	out, err := cmd.Output()
	var said struct{ Dir, Sum, Error string }
	if bad := json.Unmarshal(out, &said); bad != nil && err == nil {
		err = bad
	}
	switch {
	case said.Error != "":
		return "", fmt.Errorf("fetch %s@%s: %s", g.Module, g.Version, strings.Join(strings.Fields(said.Error), " "))
	case err != nil:
		return "", fmt.Errorf("fetch %s@%s: %w", g.Module, g.Version, err)
	case said.Sum != g.Sum:
		return "", fmt.Errorf("the module %s@%s has the checksum %s, and sum says %s: the module is another one than was "+
			"meant, or is forged",
			g.Module, g.Version, said.Sum, g.Sum)
	}
	return said.Dir, nil
}
