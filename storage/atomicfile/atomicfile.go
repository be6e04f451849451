// Package atomicfile writes files whole or not at all, so that a step that is cut off and run again finds either the
// old content or the new. All programs of Spore write by it what others read meanwhile.
//
// It leaves out what is put in its place in another way: folders, objects of the store (which get their names under its
// lock), and what a device or the firmware takes in one write.
//
// github.com/google/renameio/v2 (2.0.2, Apache-2.0, no dependencies, 530 lines) does a part of this. It syncs the
// content each time, which files in a tmpfs and outputs of a build do not need, and never the directory, so that a new
// name may be lost with the power. It makes two more files at each write to find whether TMPDIR would do. With an
// os.Root it lays the unfinished file at the top of that folder, and not beside its name.
package atomicfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Safety says what a write keeps from a loss of power. It keeps all of them from a reader: whoever opens the path finds
// the old content or the new.
type Safety int

const (
	// Unsynced is for a tmpfs and for what is made again: after a loss of power the file may be empty.
	Unsynced Safety = iota
	// Whole has the old content or the new after a loss of power.
	Whole
	// Durable has the new content after a loss of power, once the call has returned.
	Durable
)

// Write puts data at path with exactly the given mode, creating directories (0755) as needed. A file that already says
// the same is left alone; changed tells.
func Write(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	if st, err := os.Lstat(path); err == nil && st.Mode() == mode {
		if old, err := ReadLimited(path, int64(len(data))); err == nil && bytes.Equal(old, data) {
			return false, nil
		}
	}
	return true, makeAndReplace(path, data, mode, Unsynced)
}

// WriteDurable is Write for a file on a disk: it returns when content and name will survive a power cut.
func WriteDurable(path string, data []byte, mode fs.FileMode) error {
	return makeAndReplace(path, data, mode, Durable)
}

func makeAndReplace(path string, data []byte, mode fs.FileMode, safety Safety) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Replace(path, data, mode, safety)
}

// Replace puts data at path, in a directory that is there, also where the file already says the same.
func Replace(path string, data []byte, mode fs.FileMode, safety Safety) error {
	return Fill(path, mode, safety, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Fill is Replace with what fill writes. The file that it is given has another name beside path, which begins with a
// dot; it is removed when anything fails.
func Fill(path string, mode fs.FileMode, safety Safety, fill func(*os.File) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // Its mode is 0600.
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = finish(f, path, mode, safety)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
	}
	return err
}

// Finish gives a file that was written under another name, on the same file system, its mode and its name, and closes
// it. When it fails, the file is the caller's to remove.
func Finish(f *os.File, path string, mode fs.FileMode, safety Safety) error {
	err := finish(f, path, mode, safety)
	if err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func finish(f *os.File, path string, mode fs.FileMode, safety Safety) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if safety >= Whole {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if safety < Durable {
		return nil
	}
	return SyncDir(filepath.Dir(path))
}

// Clear removes what a process that was killed has left beside a path that it replaced. Nobody may be replacing it.
func Clear(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove what was left beside %s: %w", path, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+filepath.Base(path)+"-") && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); err != nil {
				return fmt.Errorf("remove what was left beside %s: %w", path, err)
			}
		}
	}
	return nil
}

// SyncDir makes the names in a directory last (fsync(2)).
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Link has path be a symbolic link to target, in a directory that is there. What was at path before stays until the
// link is in its place. Only one process at a time may do so for a path.
func Link(target, path string) error {
	fresh := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	_ = os.Remove(fresh) // what a process left that was cut off
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		os.Remove(fresh)
		return err
	}
	return nil
}

// WriteJSON writes v as one line of JSON, readable by all.
func WriteJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("internal error: %s: %w", path, err)
	}
	_, err = Write(path, append(data, '\n'), 0o644)
	return err
}

// ReadJSON reads what WriteJSON wrote, at most 1 MiB.
func ReadJSON(path string, v any) error {
	data, err := ReadLimited(path, 1<<20)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// ReadLimited reads a file that has at most limit bytes. Where another user can write, what is there may be a pipe,
// which would be waited for, or a link to a device that has no end: both are errors.
func ReadLimited(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, limit)
}

func readAll(f *os.File, path string, limit int64) ([]byte, error) {
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is not a file", path)
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("read %s: it has %d bytes, more than %d", path, st.Size(), limit)
	}
	// It may be longer by now. With room for one read more, its end is found without more memory.
	data := bytes.NewBuffer(make([]byte, 0, st.Size()+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > limit {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, limit)
	}
	return data.Bytes(), nil
}
