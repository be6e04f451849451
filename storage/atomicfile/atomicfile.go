// Package atomicfile writes files whole or not at all, so that a step that is cut off and run again finds either the old
// content or the new.
package atomicfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write puts data at path with exactly the given mode, creating directories (0755) as needed. A file that already says the
// same is left alone; changed tells.
func Write(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	if st, err := os.Lstat(path); err == nil && st.Mode() == mode {
		if old, err := ReadLimited(path, int64(len(data))); err == nil && bytes.Equal(old, data) {
			return false, nil
		}
	}
	return true, write(path, data, mode, false)
}

// WriteDurable is Write for a file on a disk: it returns when content and name will survive a power cut.
func WriteDurable(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, true)
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
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: it has more than %d bytes", path, limit)
	}
	return data, nil
}

func write(path string, data []byte, mode fs.FileMode, durable bool) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return err
	}
	if durable {
		if err = f.Sync(); err != nil {
			return err
		}
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	if durable {
		return syncDir(dir)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
