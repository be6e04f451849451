// Package recipetest helps tests of the recipe: it reads .deb files with dpkg-deb, so that a test does not lean on our own
// reader, and writes a tree into a directory, which needs root.
package recipetest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"spore/builder/deb/deb822"
	"spore/builder/recipe"
	"spore/builder/tree"
)

// section is the data of one file inside of an unpacked tar.
type section struct {
	file      string
	off, size int64
}

func (s section) Size() int64 { return s.size }

func (s section) Open() (io.ReadCloser, error) {
	f, err := os.Open(s.file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, s.off, s.size), f}, nil
}

// LoadDebs reads every .deb in a directory. Their data is kept as tar files in spool.
func LoadDebs(dir, spool string) ([]recipe.Package, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []recipe.Package
	for _, name := range names {
		p, err := loadDeb(name, spool)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func loadDeb(file, spool string) (recipe.Package, error) {
	var p recipe.Package
	status, err := exec.Command("dpkg-deb", "--field", file).Output()
	if err != nil {
		return p, fmt.Errorf("dpkg-deb --field (run make deps): %w", err)
	}
	s := deb822.NewScanner(string(status))
	if !s.Next() {
		return p, fmt.Errorf("no control paragraph: %w", s.Err())
	}
	p.Name, p.Version, p.Status = s.Paragraph().Get("Package"), s.Paragraph().Get("Version"), status
	control, err := os.MkdirTemp(spool, "control")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(control)
	if out, err := exec.Command("dpkg-deb", "--control", file, control).CombinedOutput(); err != nil {
		return p, fmt.Errorf("dpkg-deb --control: %w: %s", err, out)
	}
	p.Scripts = map[string][]byte{}
	for _, name := range []string{"preinst", "postinst", "config", "templates", "triggers"} {
		if data, err := os.ReadFile(filepath.Join(control, name)); err == nil {
			p.Scripts[name] = data
		}
	}
	if data, err := os.ReadFile(filepath.Join(control, "conffiles")); err == nil {
		p.Conffiles = strings.Fields(string(data))
	}
	data := filepath.Join(spool, filepath.Base(file)+".tar")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		f, err := os.Create(data)
		if err != nil {
			return p, err
		}
		defer f.Close()
		cmd := exec.Command("dpkg-deb", "--fsys-tarfile", file)
		cmd.Stdout = f
		if err := cmd.Run(); err != nil {
			return p, fmt.Errorf("dpkg-deb --fsys-tarfile: %w", err)
		}
	}
	p.Entries = func(yield func(string, *tree.Inode) error) error { return readTar(data, yield) }
	return p, nil
}

func readTar(file string, yield func(string, *tree.Inode) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	inodes := map[string]*tree.Inode{}
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		off, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)
		n := &tree.Inode{Mode: uint32(h.Mode) & 0o7777, UID: uint32(h.Uid), GID: uint32(h.Gid), MTime: h.ModTime.Unix()}
		switch h.Typeflag {
		case tar.TypeDir:
			n.Type = tree.Dir
		case tar.TypeReg:
			n.Type, n.Content = tree.Regular, section{file, off, h.Size}
		case tar.TypeSymlink:
			n.Type, n.Target, n.Mode = tree.Symlink, h.Linkname, 0o777
		case tar.TypeLink:
			n = inodes[path.Clean("/"+h.Linkname)]
			if n == nil {
				return fmt.Errorf("%s is a hard link to %s, which did not come before", name, h.Linkname)
			}
		default:
			return fmt.Errorf("%s has the type %q", name, h.Typeflag)
		}
		inodes[name] = n
		if err := yield(name, n); err != nil {
			return err
		}
	}
}

// WriteDir writes a tree below an existing directory, owners and modes included. It needs root.
func WriteDir(t *tree.Tree, dir string) error {
	links := map[*tree.Inode]string{}
	return t.Walk(func(p string, n *tree.Inode) error {
		to := filepath.Join(dir, p)
		if first := links[n]; first != "" {
			return os.Link(first, to)
		}
		if err := writeInode(n, to); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if n.Type == tree.Regular {
			links[n] = to
		}
		return nil
	})
}

func writeInode(n *tree.Inode, to string) error {
	switch n.Type {
	case tree.Dir:
		if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case tree.Symlink:
		if err := os.Symlink(n.Target, to); err != nil {
			return err
		}
	case tree.Regular:
		if err := writeFile(n, to); err != nil {
			return err
		}
	default:
		return fmt.Errorf("type %d cannot be written", n.Type)
	}
	if err := os.Lchown(to, int(n.UID), int(n.GID)); err != nil {
		return err
	}
	if n.Type != tree.Symlink {
		if err := unix.Chmod(to, n.Mode); err != nil {
			return err
		}
	}
	for _, x := range n.Xattrs {
		if err := unix.Lsetxattr(to, x.Name, x.Value, 0); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(n *tree.Inode, to string) error {
	r, err := n.Content.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
