package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	"spore/builder/tree"
)

// mountPoints are directories that a read-only root must have (file-hierarchy(7), and the image layout).
var mountPoints = []struct {
	path string
	mode uint32
}{
	{"/boot", 0o755}, {"/dev", 0o755}, {"/efi", 0o755}, {"/home", 0o755}, {"/media", 0o755}, {"/mnt", 0o755}, {"/opt", 0o755},
	{"/proc", 0o555}, {"/root", 0o700}, {"/run", 0o755}, {"/srv", 0o755}, {"/sys", 0o555}, {"/tmp", 0o1777}, {"/var", 0o755},
	{"/etc/credstore", 0o700}, {"/etc/credstore.encrypted", 0o700}, {"/etc/cluster-config", 0o755}, {"/etc/systemd/network", 0o755},
}

// hidden are mount points whose content in a package would never be seen.
var hidden = []string{"/dev", "/proc", "/run", "/sys", "/tmp"}

// makeMountPoints makes them, with their modes.
func makeMountPoints(b *build) error {
	for _, dir := range hidden {
		for _, name := range b.tree.Children(dir) {
			if err := b.remove(path.Join(dir, name), "hidden by what is mounted there"); err != nil {
				return err
			}
		}
	}
	for _, m := range mountPoints {
		if err := b.dir(m.path, m.mode, "mount point"); err != nil {
			return err
		}
		n, err := b.tree.Stat(m.path)
		if err != nil {
			return err
		}
		n.Mode = m.mode
	}
	return nil
}

// fillOrigins marks the directories that were made as parents, and gives them the recipe's time stamp.
func fillOrigins(b *build) error {
	return b.tree.Walk(func(_ string, n *tree.Inode) error {
		if n.Origin == "" {
			n.Origin = "step:parents"
		}
		if n.MTime == 0 {
			n.MTime = b.epoch
		}
		return nil
	})
}

// checkTree refuses a root that cannot work: a script whose interpreter is not there, or an enabled unit that is not there.
func checkTree(b *build) error {
	var problems []string
	err := b.tree.Walk(func(p string, n *tree.Inode) error {
		switch {
		case n.Type == tree.Symlink && strings.HasPrefix(p, localUnits+"/"):
			if _, err := b.tree.Stat(p); errors.Is(err, fs.ErrNotExist) && n.Target != "/dev/null" {
				problems = append(problems, fmt.Sprintf("%s leads to %s, which is not there", p, n.Target))
			}
		case n.Type == tree.Regular && n.Mode&0o111 != 0 && inPath(p):
			interpreter, err := b.interpreter(n.Content)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			if interpreter == "" {
				return nil
			}
			if _, err := b.tree.Stat(interpreter); err != nil {
				if err := b.remove(p, "a script for "+interpreter+", which is not in the image"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{"/etc/alternatives", "/usr/bin", "/usr/sbin"} {
		if err := b.dropDangling(dir); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

func inPath(p string) bool {
	d := path.Dir(p)
	return d == "/usr/bin" || d == "/usr/sbin"
}

// interpreter is Interpreter for a file that may be known.
func (b *build) interpreter(c tree.Content) (string, error) {
	if sum, ok := tree.KnownSHA256(c); ok {
		if known, ok := b.opts.Interpreters[sum]; ok {
			return known, nil
		}
	}
	return Interpreter(c)
}

// Interpreter returns the interpreter of a script; for /usr/bin/env the program that it looks for. Empty for anything else.
func Interpreter(c tree.Content) (string, error) {
	r, err := c.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	buf := make([]byte, 256)
	size := 0
	for size < len(buf) {
		k, err := r.Read(buf[size:])
		size += k
		if err != nil {
			break
		}
	}
	line, ok := strings.CutPrefix(string(buf[:size]), "#!")
	if !ok {
		return "", nil
	}
	line, _, _ = strings.Cut(line, "\n")
	f := strings.Fields(line)
	switch {
	case len(f) == 0:
		return "", nil
	case len(f) > 1 && path.Base(f[0]) == "env":
		return path.Join("/usr/bin", f[len(f)-1]), nil
	}
	return f[0], nil
}

func sortedPackages(in []Package) []Package {
	out := append([]Package(nil), in...)
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
