package trail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// maxFile is how large a file of records grows, in bytes, before it becomes the former one; there are two.
const maxFile = 4 << 20

// Names in the directory of a log.
const (
	currentFile = "trail.jsonl"
	formerFile  = "trail.1.jsonl"
)

// log is a file that lines are added to, and the one before it.
type log struct {
	dir string
	// most is maxFile but in tests.
	most int64

	mu sync.Mutex
}

func newLog(dir string) *log { return &log{dir: dir, most: maxFile} }

// add adds whole lines. They are on the disk when it returns.
func (l *log) add(lines []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(lines); err != nil {
		return fmt.Errorf("keep a record of the call: %w", err)
	}
	return nil
}

func (l *log) append(lines []byte) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(l.dir, currentFile)
	if st, err := os.Stat(name); err == nil && st.Size()+int64(len(lines)) > l.most {
		if err := os.Rename(name, filepath.Join(l.dir, formerFile)); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() == 0 { // The name has to last as well.
		if err := syncDir(l.dir); err != nil {
			return err
		}
	} else if last := make([]byte, 1); true {
		if _, err := f.ReadAt(last, st.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' { // The power was cut in the middle of a line.
			lines = append([]byte("\n"), lines...)
		}
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read returns all lines, the oldest first.
func (l *log) read() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []byte
	for _, name := range []string{formerFile, currentFile} {
		data, err := l.readFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the records of calls: %w", err)
		}
		if len(all) > 0 && !bytes.HasSuffix(all, []byte("\n")) {
			all = append(all, '\n')
		}
		all = append(all, data...)
	}
	return all, nil
}

func (l *log) readFile(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(l.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One batch alone may be larger than the bound.
	return io.ReadAll(io.LimitReader(f, l.most+MaxPost))
}
