package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/cluster/check"
	"spore/cluster/programs"
	"spore/cluster/regular"
)

// programsDir holds programs of the user's own.
const programsDir = programs.Dir

// loadPrograms reads programs/*.yaml, and looks at what these name beside them.
func (l *loader) loadPrograms(c *Config) {
	entries, used := l.dir(programsDir), map[string]bool{}
	for _, name := range l.programFiles(entries) {
		e := programs.Entry{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		s := l.file(name, &e.Program)
		e.Source, e.Broken = s, s.broken
		l.besideProgram(&e)
		for _, p := range []string{e.Local(), e.ModuleFolder()} {
			used[p] = true
		}
		c.Programs, c.programs = append(c.Programs, e), append(c.programs, s)
	}
	c.unusedPrograms = unusedPrograms(entries, used)
}

// programFiles lists the YAML files; beside them lie what they name, and texts for people.
func (l *loader) programFiles(entries []fs.DirEntry) []string {
	var out []string
	for _, e := range entries {
		name := path.Join(programsDir, e.Name())
		switch {
		case e.IsDir():
		case path.Ext(name) == ".yml":
			l.add(check.Error, name, 1, 1, "files end in .yaml; rename it to %s", strings.TrimSuffix(e.Name(), ".yml")+".yaml")
		case path.Ext(name) == ".yaml":
			out = append(out, name)
		}
	}
	return out
}

// besideProgram looks at the file, or the folder, that a program names.
func (l *loader) besideProgram(e *programs.Entry) {
	e.Beside = map[string]error{}
	if name := e.Local(); name != "" {
		info, err := fs.Stat(l.fsys, name)
		if err == nil {
			err = regular.Check(info)
		}
		e.Beside[name] = plain(err)
	}
	dir := e.ModuleFolder()
	if dir == "" {
		return
	}
	if e.Beside[dir] = l.plainFolder(dir); e.Beside[dir] != nil {
		return
	}
	e.Mod, e.Sum = l.moduleFile(path.Join(dir, "go.mod")), l.moduleFile(path.Join(dir, "go.sum"))
	_, err := fs.Stat(l.fsys, path.Join(dir, "vendor", "modules.txt"))
	e.Vendored = err == nil
}

// plainFolder says what is wrong with a folder of programs/: what a link leads to can be anywhere.
func (l *loader) plainFolder(dir string) error {
	rest := strings.Split(strings.TrimPrefix(dir, programsDir+"/"), "/")
	for i := range rest {
		at := path.Join(programsDir, path.Join(rest[:i+1]...))
		info, err := fs.Lstat(l.fsys, at)
		switch {
		case err != nil:
			return plain(err)
		case info.Mode()&fs.ModeSymlink != 0 && at == dir:
			return errors.New("it is a link; put the folder itself there")
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a link; put the folder itself there", at)
		case !info.IsDir():
			return errors.New("it is not a folder")
		}
	}
	return nil
}

// moduleFile reads go.mod or go.sum; nil where there is none.
func (l *loader) moduleFile(name string) []byte {
	info, err := fs.Stat(l.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > programs.MaxModFile {
		l.add(check.Error, name, 1, 1, "it is larger than %d MiB", programs.MaxModFile>>20)
		return nil
	}
	data, err := l.read(name)
	if err != nil {
		l.add(check.Error, name, 1, 1, "cannot be read: %v", plain(err))
	}
	return data
}

// unusedPrograms lists what lies in programs/ and no file names, but for texts for people.
func unusedPrograms(entries []fs.DirEntry, used map[string]bool) []string {
	var out []string
	for _, e := range entries {
		name := path.Join(programsDir, e.Name())
		if !used[name] && !usedBelow(used, name) && (e.IsDir() || !isYAML(name)) && !strings.HasPrefix(e.Name(), "README") {
			out = append(out, name)
		}
	}
	return out
}

// usedBelow reports whether something below a folder is used.
func usedBelow(used map[string]bool, dir string) bool {
	for p := range used {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// ProgramFiles are the files of programs/ as the user wrote them, by their path in the folder. Only a build reads them.
func (c *Config) ProgramFiles() map[string][]byte {
	out := map[string][]byte{}
	for _, s := range c.programs {
		out[s.path] = s.data
	}
	return out
}

// checkPrograms checks the programs of the user's own. What nobody names is worth a warning: the image is the same
// without it.
func (k *checker) checkPrograms() {
	programs.Check(k.Checker, k.c.Programs)
	for _, name := range k.c.unusedPrograms {
		k.Warningf(check.In(&source{path: name}), "no file of %s/ names it, so the image does not have it; write "+
			"%s/NAME.yaml for it, or remove it", programsDir, programsDir)
	}
}
