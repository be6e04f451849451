package customize

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var errReplaced = errors.New("it was replaced while this command ran; try again")

// replace writes a file or folder beside dst, brings it to the disk, and puts it in the place of dst. old, if not nil, is
// what dst must still be.
func replace(dst string, old *os.File, write func(name string) error) (err error) {
	work, err := openWork(dst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	name := filepath.Join(work.path, filepath.Base(dst))
	if err := write(name); err != nil {
		return err
	}
	if err := filepath.WalkDir(name, func(p string, _ fs.DirEntry, err error) error { return errors.Join(err, flush(p)) }); err != nil {
		return err
	}
	if old != nil && !same(dst, old) {
		return errReplaced
	}
	if err := put(name, dst); err != nil {
		return err
	}
	return flush(filepath.Dir(dst))
}

// put renames a file or folder over another one. A folder is exchanged for it.
func put(name, dst string) error {
	info, err := os.Stat(dst)
	if err != nil || !info.IsDir() {
		return os.Rename(name, dst)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, dst, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange %s for %s (filesystems that cannot do so need --output): %w", dst, name, err)
	}
	return nil
}

// work is a folder beside an image, for what is not whole yet. What an interrupted run left in it is removed.
type work struct {
	path string
	lock *os.File
}

func openWork(dst string) (*work, error) {
	w := &work{path: filepath.Join(filepath.Dir(dst), "."+filepath.Base(dst)+".customize")}
	if err := os.Mkdir(w.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a folder for the new image: %w", err)
	}
	var err error
	if w.lock, err = os.Open(w.path); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		w.lock.Close()
		return nil, fmt.Errorf("another spore customize writes %s; wait for it", dst)
	}
	left, err := os.ReadDir(w.path)
	for _, e := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(w.path, e.Name())))
	}
	if err != nil {
		w.lock.Close()
		return nil, fmt.Errorf("remove the remains of an interrupted run: %w", err)
	}
	return w, nil
}

func (w *work) remove() error {
	defer w.lock.Close()
	return os.RemoveAll(w.path)
}

// flush brings a file or folder to the disk.
func flush(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", name, err)
	}
	return nil
}

// same tells whether a path still leads to an open file.
func same(name string, f *os.File) bool {
	now, err := os.Stat(name)
	if err != nil {
		return false
	}
	then, err := f.Stat()
	return err == nil && os.SameFile(now, then)
}
