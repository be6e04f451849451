package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/builder/tree"
)

const (
	varConf    = "/usr/lib/tmpfiles.d/spore-var.conf"
	varFactory = "/usr/share/factory"
	tmpfiles   = "/usr/lib/tmpfiles.d"
)

// extraVar are lines that no package has content for.
var extraVar = []string{
	"d /run/lock 1777 root root -",
	"d /var/log/journal 2755 root systemd-journal -",
	"L+ /var/lib/dpkg - - - - ../.." + path.Dir(StatusPath),
}

// emptyVar moves what packages keep under /var to where a read-only root can hold it: directories and links become lines of
// tmpfiles.d(5), files go to /usr/share/factory and are copied from there when they are missing. /var itself stays as an
// empty directory, the mount point of state.
func emptyVar(b *build) error {
	known, err := b.tmpfilesPaths()
	if err != nil {
		return err
	}
	lines := []string{"# What the packages of this image keep under /var. Made by the builder."}
	for _, name := range b.tree.Children("/var") {
		more, err := b.varLines(path.Join("/var", name), known)
		if err != nil {
			return err
		}
		lines = append(lines, more...)
	}
	lines = append(lines, extraVar...)
	for _, name := range b.tree.Children("/var") {
		if err := b.remove(path.Join("/var", name), "made on the state partition by "+varConf); err != nil {
			return err
		}
	}
	if err := b.dir("/var", 0o755, "mount point of state"); err != nil {
		return err
	}
	return b.file(varConf, []byte(strings.Join(lines, "\n")+"\n"), 0o644, "content of /var of the packages")
}

// varLines returns the lines for a path and all below it, parents first.
func (b *build) varLines(p string, known map[string]bool) ([]string, error) {
	n, err := b.tree.Lstat(p)
	if err != nil {
		return nil, err
	}
	var out []string
	if !known[p] {
		line, err := b.varLine(p, n)
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	if n.Type != tree.Dir {
		return out, nil
	}
	for _, name := range b.tree.Children(p) {
		more, err := b.varLines(path.Join(p, name), known)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func (b *build) varLine(p string, n *tree.Inode) (string, error) {
	name := escapeTmpfiles(p)
	switch n.Type {
	case tree.Dir:
		return fmt.Sprintf("d %s %04o %d %d -", name, n.Mode, n.UID, n.GID), nil
	case tree.Symlink:
		return fmt.Sprintf("L %s - - - - %s", name, escapeTmpfiles(n.Target)), nil
	case tree.Regular:
		to := path.Join(varFactory, p)
		if err := b.tree.Add(to, n); err != nil {
			return "", err
		}
		b.note("change", p, "kept as "+to+" and copied from there")
		return fmt.Sprintf("C %s %04o %d %d -", name, n.Mode, n.UID, n.GID), nil
	}
	return "", fmt.Errorf("%s of %s is a device or a pipe, which packages must not have under /var", p, n.Origin)
}

// tmpfilesPaths are the paths that a line of tmpfiles.d of a package makes already.
func (b *build) tmpfilesPaths() (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range b.tree.Children(tmpfiles) {
		data, err := b.tree.ReadFile(path.Join(tmpfiles, name))
		if errors.Is(err, fs.ErrNotExist) || path.Ext(name) != ".conf" {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(string(data), "\n") {
			f := strings.Fields(line)
			if len(f) >= 2 && strings.ContainsRune("dDqQLCfe", rune(f[0][0])) {
				out[f[1]] = true
			}
		}
	}
	return out, nil
}

// escapeTmpfiles writes a path as tmpfiles.d(5) reads it: specifiers and white space escaped.
func escapeTmpfiles(p string) string {
	return strings.NewReplacer("%", "%%", " ", `\x20`, "\t", `\x09`, "\n", `\x0a`, `\`, `\\`, `"`, `\x22`).Replace(p)
}
