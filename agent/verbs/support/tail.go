package support

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// lead is how much before the end of what is kept is kept besides, in bytes.
const lead = 64 << 10

// tail keeps the last bytes that are written to it, in two files that take turns: a journal is printed oldest first,
// and its newest lines are those that count. The files have no name any more when somebody writes, and go with the
// process.
type tail struct {
	// most is how many bytes are to be kept; each file has room for them and the lead.
	most int64
	// now is written, and before was.
	now, before     *os.File
	inNow, inBefore int64
	written         int64
}

func newTail(most int) (*tail, error) {
	t := &tail{most: int64(most)}
	var err error
	if t.now, err = nameless(); err != nil {
		return nil, err
	}
	if t.before, err = nameless(); err != nil {
		return nil, errors.Join(err, t.now.Close())
	}
	return t, nil
}

func nameless() (*os.File, error) {
	f, err := os.CreateTemp("", "support-*")
	if err != nil {
		return nil, fmt.Errorf("keep it for now: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep it for now: %w", err), f.Close())
	}
	return f, nil
}

func (t *tail) close() { _, _ = t.now.Close(), t.before.Close() }

// Write is io.Writer's.
func (t *tail) Write(p []byte) (int, error) {
	size := len(p)
	for len(p) > 0 {
		room := t.most + lead - t.inNow
		if room == 0 {
			t.now, t.before, t.inNow, t.inBefore = t.before, t.now, 0, t.inNow
			if err := t.now.Truncate(0); err != nil {
				return 0, fmt.Errorf("keep it for now: %w", err)
			}
			continue
		}
		n, err := t.now.WriteAt(p[:min(int64(len(p)), room)], t.inNow)
		if err != nil {
			return 0, fmt.Errorf("keep it for now: %w", err)
		}
		t.inNow, t.written, p = t.inNow+int64(n), t.written+int64(n), p[n:]
	}
	return size, nil
}

// read returns the bytes to be kept, behind some that come before them: how many these are, and how many bytes are cut
// off in all, with these. It is called when all was written.
func (t *tail) read() (from io.Reader, before, cut int64, err error) {
	from = io.MultiReader(io.NewSectionReader(t.before, 0, t.inBefore), io.NewSectionReader(t.now, 0, t.inNow))
	kept := t.inBefore + t.inNow
	if skip := kept - t.most - lead; skip > 0 {
		if _, err := io.CopyN(io.Discard, from, skip); err != nil {
			return nil, 0, 0, fmt.Errorf("read it back: %w", err)
		}
		kept -= skip
	}
	return from, max(0, kept-t.most), max(0, t.written-t.most), nil
}
