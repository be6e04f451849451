package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// entry is a line of the record: what a row saw, on which day, and by which seed. Wrong is that of Seen.
type entry struct {
	Row     string
	Day     string
	Seed    uint64
	Outcome Outcome
	Wrong   string `json:",omitempty"`
}

// record keeps what each row saw as soon as it ends, one JSON object a line, so that a run of hours that breaks off, or
// in which a row fails, need not begin from the start. A row that runs again has a second line, which counts.
type record struct {
	path string
	mu   sync.Mutex
}

// read has the last entry of each row. A line that was cut when the run broke off is passed over.
func (r *record) read() (map[string]entry, error) {
	data, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the rows saw before: %w", err)
	}
	out := map[string]entry{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Row != "" {
			out[e.Row] = e
		}
	}
	return out, lines.Err()
}

func (r *record) add(s Seen) error {
	if r == nil || s.Outcome == nil {
		return nil
	}
	line, err := json.Marshal(entry{Row: s.name(), Day: s.Day, Seed: s.Seed, Outcome: *s.Outcome, Wrong: s.Wrong})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("keep what a row saw: %w", err)
	}
	_, err = f.Write(append([]byte("\n"), line...)) // The line end comes first: the line before may be cut.
	return errors.Join(err, f.Close())
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }
