package push

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spore/builder/updateset"
	"spore/storage/atomicfile"
	"spore/wire/update"
)

// WriteFile writes the update to a file as one message: the head, both indexes, and the pieces of UKI and cluster part;
// with root also those of the root, for a node that runs another one.
func (u *Update) WriteFile(name string, root bool) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(u.write(f, root), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (u *Update) write(f *os.File, root bool) error {
	w := bufio.NewWriter(f)
	if _, err := w.Write(u.Signed); err != nil {
		return err
	}
	sums := u.set.Boots()
	if root {
		sums = u.set.All()
	}
	for _, sum := range sums {
		content, err := u.set.Object(sum)
		if err != nil {
			return err
		}
		if _, err := w.Write(update.AppendObject(nil, content)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// WriteFolder writes the update as a folder of files: the objects that it does not have yet, and last the head that
// names them.
func (u *Update) WriteFolder(ctx context.Context, dir string) error {
	if err := u.set.WriteFolder(ctx, dir); err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(dir, updateset.Head), u.Signed, 0o644, atomicfile.Unsynced); err != nil {
		return fmt.Errorf("write the head of the update: %w", err)
	}
	return nil
}
