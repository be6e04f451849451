package updateset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/storage/atomicfile"
	"spore/storage/pieces"
)

// Names in a folder of an update.
const (
	// PiecesDir has a file for each object, whose name is its hash.
	PiecesDir = "pieces"
	// RootIndex and BootIndex are the two indexes once more by a name that does not change.
	RootIndex = "root.index"
	BootIndex = "boot.index"
	// Head is the signed head, which package push writes.
	Head = "update.head"
)

// WriteFolder writes all objects as files into a folder, which is made where needed, and removes what earlier updates
// have left there. A head of another update is removed first: no node is told of pieces that are not there. What the
// folder has already is read and compared, and not written again; each file appears whole or not at all.
func (s *Set) WriteFolder(ctx context.Context, dir string) error {
	if err := s.writeFolder(ctx, dir); err != nil {
		return fmt.Errorf("write the folder of the update: %w", err)
	}
	return nil
}

func (s *Set) writeFolder(ctx context.Context, dir string) error {
	for _, d := range []string{dir, filepath.Join(dir, PiecesDir)} {
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(d, 0o755); err != nil { // whatever the umask is: a web server has an account of its own
			return err
		}
	}
	if err := s.dropHead(filepath.Join(dir, Head)); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, sum := range s.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		named[sum.String()] = true
		if err := s.writeObject(filepath.Join(dir, PiecesDir, sum.String()), sum); err != nil {
			return err
		}
	}
	for name, x := range map[string]pieces.Index{RootIndex: s.RootPieces, BootIndex: s.BootPieces} {
		data, err := x.Encode()
		if err != nil {
			return err
		}
		if err := atomicfile.Replace(filepath.Join(dir, name), data, 0o644, atomicfile.Unsynced); err != nil {
			return err
		}
	}
	return removeOthers(filepath.Join(dir, PiecesDir), named)
}

// dropHead removes a head that does not name both indexes.
func (s *Set) dropHead(name string) error {
	head, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if bytes.Contains(head, []byte(s.Root.Index.SHA256)) && bytes.Contains(head, []byte(s.Boot.SHA256)) {
		return nil
	}
	return os.Remove(name)
}

// writeObject writes an object unless the file has it already.
func (s *Set) writeObject(name string, sum pieces.Sum) error {
	if there, err := os.ReadFile(name); err == nil && sha256.Sum256(there) == sum {
		return nil
	}
	data, err := s.Object(sum)
	if err != nil {
		return err
	}
	return atomicfile.Replace(name, data, 0o644, atomicfile.Unsynced)
}

// removeOthers removes what is not named of a folder.
func removeOthers(dir string, named map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if named[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
