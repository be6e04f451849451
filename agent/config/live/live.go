// Package live lays out the certificates that a program reads again while it runs, for each program in a directory that is
// replaced as a whole: a certificate and its key are never of two times. What systemd copies for a unit (LoadCredential=) stays as
// it was at the start of the unit; systemd before 260 knows no way to refresh it (RefreshOnReload=).
//
// The directory is root's, and its program's group may read it. The one before stays until the next change, since a program may
// just be reading it. Programs of Kubernetes are woken by what happens to the very file that they have read last
// (k8s.io/apiserver, dynamiccertificates): so the files of the one before are touched, and those before them go, both when
// the link leads to the new ones already.
package live

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/storage/atomicfile"
)

// Of is where the file of a bundle's entry lies, below the directory of all.
func Of(dir, program, ref string) string { return filepath.Join(dir, program, ref) }

// Lay makes dir/program hold exactly these files, readable by a group. It tells whether they were others before.
func Lay(dir, program string, group int, files map[string]string) (changed bool, err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return false, fmt.Errorf("lay out the certificates of %s: %w", program, err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return false, fmt.Errorf("lay out the certificates of %s: %w", program, err)
	}
	link := filepath.Join(dir, program)
	if same(link, files) {
		return false, nil
	}
	if changed, err = true, replace(dir, link, group, files); err != nil {
		return false, fmt.Errorf("lay out the certificates of %s: %w", program, err)
	}
	return changed, nil
}

// same tells whether a directory holds exactly these files.
func same(dir string, files map[string]string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(files) {
		return false
	}
	for _, e := range entries {
		want, ok := files[e.Name()]
		have, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if !ok || err != nil || !bytes.Equal(have, []byte(want)) {
			return false
		}
	}
	return true
}

func replace(dir, link string, group int, files map[string]string) error {
	before, err := os.Readlink(link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	program := filepath.Base(link)
	fresh, err := os.MkdirTemp(dir, "."+program+"-")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(fresh, name)
		if err := os.WriteFile(path, []byte(files[name]), 0o600); err != nil {
			return err
		}
		if err := share(path, group, 0o640); err != nil {
			return err
		}
	}
	if err := share(fresh, group, 0o750); err != nil {
		return err
	}
	if err := atomicfile.Link(filepath.Base(fresh), link); err != nil {
		return err
	}
	if err := touch(filepath.Join(dir, before)); before != "" && err != nil {
		return err
	}
	return prune(dir, program, filepath.Base(fresh), before)
}

// touch wakes whoever watches a file of a directory.
func touch(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now := time.Now()
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(dir, e.Name()), now, now); err != nil {
			return err
		}
	}
	return nil
}

// share lets a group read what is root's. Only root can, and tests need not be root.
func share(path string, group int, mode fs.FileMode) error {
	if group != os.Getgid() {
		if err := os.Chown(path, -1, group); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// prune removes all former directories of a program but the last.
func prune(dir, program string, keep ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// The rest of the name is digits (os.MkdirTemp): that of another program may begin with this one's.
		number, ok := strings.CutPrefix(e.Name(), "."+program+"-")
		if !ok || strings.Trim(number, "0123456789") != "" || slices.Contains(keep, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes away what there is of programs that are not to be kept.
func Remove(dir string, keep func(program string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove former certificates: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || keep(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove former certificates: %w", err)
		}
		if err := prune(dir, e.Name()); err != nil {
			return fmt.Errorf("remove former certificates: %w", err)
		}
	}
	return nil
}
