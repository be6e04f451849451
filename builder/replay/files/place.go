package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"spore/builder/tree"
)

// place resolves the path that is to be written, and refuses those that are outside of a root filesystem.
func (f *Files) place(p string, follow bool) (string, error) {
	if !path.IsAbs(p) || len(p) > maxPath || strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("%.200q is not an absolute path: %w", p, ErrRefused)
	}
	var q string
	var err error
	if follow {
		q, err = f.tree.Follow(p)
	} else {
		q, err = f.tree.Resolve(p)
	}
	if err != nil {
		return "", err
	}
	if q == "/" || hidden(q) || q == "/dev" || strings.HasPrefix(q, "/dev/") {
		return "", fmt.Errorf("write %s: %w", p, ErrRefused)
	}
	return q, nil
}

// hidden tells whether a path is one of the kernel's filesystems, which no build has.
func hidden(p string) bool {
	p = path.Clean(p)
	return strings.HasPrefix(p, "/proc/") || strings.HasPrefix(p, "/sys/") || p == "/proc" || p == "/sys"
}

// tooLong is the error for a path that no system call takes (PATH_MAX, path_resolution(7)): following it costs as much
// as it is long.
func tooLong(op, p string) error {
	if len(p) <= maxPath {
		return nil
	}
	return &fs.PathError{Op: op, Path: p[:100] + "…", Err: errors.New("file name too long")}
}

// special returns the inode of a device that a shell redirects to.
func special(p string) *tree.Inode {
	switch path.Clean(p) {
	case "/dev":
		return &tree.Inode{Type: tree.Dir, Mode: 0o755}
	case "/dev/null":
		return &tree.Inode{Type: tree.CharDevice, Mode: 0o666, Major: 1, Minor: 3}
	}
	return nil
}
