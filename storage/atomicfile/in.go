package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What follows is for root in a folder that another user can write. That user can lay a link at each name in it, also
// between two steps: an os.Root follows none that leads out of the folder, and what is given away is given by its open
// file, never by its name.

// OpenIn opens a file in a folder to read it. What is not a file is an error.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("read %s: it is not a file", filepath.Join(root.Name(), name))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadLimitedIn is ReadLimited for a file in a folder of another user.
func ReadLimitedIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	return readAll(f, filepath.Join(root.Name(), name), limit)
}

// WriteDurableIn is WriteDurable for a file in a folder of another user. The directory that it goes to has to be there.
func WriteDurableIn(root *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", filepath.Join(root.Name(), name), err)
		}
	}()
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	fresh := path.Join(path.Dir(name), "."+path.Base(name)+"-"+hex.EncodeToString(random))
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(fresh))
	}
	return SyncIn(root, path.Dir(name))
}

// SyncIn has a directory survive a power cut, with the names in it.
func SyncIn(root *os.Root, name string) error {
	d, err := DirIn(root, name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// DirIn opens a directory in a folder of another user. A link is an error, also one that stays in the folder.
func DirIn(root *os.Root, name string) (*os.File, error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", filepath.Join(root.Name(), name))
	}
	d, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if now, err := d.Stat(); err != nil || !os.SameFile(st, now) {
		d.Close()
		return nil, errors.Join(fmt.Errorf("%s was exchanged while it was opened", filepath.Join(root.Name(), name)), err)
	}
	return d, nil
}

// GiveIn gives a directory in a folder to a user.
func GiveIn(root *os.Root, name string, uid, gid int) error {
	d, err := DirIn(root, name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Chown(uid, gid)
}
