package files

import (
	"bytes"
	"fmt"
)

// writer collects what is written to one file.
type writer struct {
	files *Files
	path  string
	mode  uint32
	data  bytes.Buffer
}

// Write implements io.Writer.
func (w *writer) Write(b []byte) (int, error) {
	if int64(w.data.Len()+len(b)) > MaxRead {
		return 0, fmt.Errorf("write %s: over %d bytes: %w", w.path, MaxRead, ErrBound)
	}
	if w.path == "/dev/null" {
		return len(b), nil
	}
	return w.data.Write(b)
}

// Close implements io.Closer.
func (w *writer) Close() error {
	if w.path == "/dev/null" {
		return nil
	}
	return w.files.WriteFile(w.path, w.data.Bytes(), w.mode)
}
