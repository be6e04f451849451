package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// settled is how long a file has to be unchanged before its hash is kept. It is far more than a Tick, because the clock of
// the filesystem may be another machine's.
const settled = 2 * time.Second

// maxHashes bounds how many files are remembered.
const maxHashes = 100_000

// Notes keeps small texts by a name of one path element; *store.Store does.
type Notes interface {
	// ReadNote returns a note; the error is fs.ErrNotExist when there is none.
	ReadNote(name string) ([]byte, error)
	// WriteNote keeps a note.
	WriteNote(name string, data []byte) error
}

// Hashes returns hashes of files and remembers them, so that a file that has not changed is not read again. It may be used
// from many goroutines. A nil Hashes reads every file.
type Hashes struct {
	notes Notes
	name  string
	now   time.Time

	mu    sync.Mutex
	known map[string]hashed
	used  map[string]hashed
	dirty bool
}

// hashed is what is remembered of a file.
type hashed struct {
	Stamp  Stamp  `json:"stamp"`
	SHA256 string `json:"sha256"`
}

// OpenHashes reads what a note remembers. now is the time at which the caller started: a file that changed later, or just
// before, is not remembered.
func OpenHashes(notes Notes, name string, now time.Time) (*Hashes, error) {
	h := &Hashes{notes: notes, name: name, now: now, known: map[string]hashed{}, used: map[string]hashed{}}
	data, err := notes.ReadNote(name)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the hashes of files: %w", err)
	}
	if json.Unmarshal(data, &h.known) != nil {
		h.known = map[string]hashed{} // damaged: everything is read again
	}
	return h, nil
}

// SHA256 reads a file and returns its hash in hexadecimal.
func SHA256(name string) (string, error) {
	sum, _, err := read(name)
	return sum, err
}

// SHA256 returns the hash of a file in hexadecimal. The name is absolute, or always relative to the same folder.
func (h *Hashes) SHA256(name string) (string, error) {
	if h == nil {
		return SHA256(name)
	}
	if st, err := Of(name); err == nil {
		h.mu.Lock()
		k, ok := h.known[name]
		if ok && k.Stamp == st {
			h.used[name] = k
		}
		h.mu.Unlock()
		if ok && k.Stamp == st {
			return k.SHA256, nil
		}
	}
	sum, st, err := read(name)
	if err != nil || st == (Stamp{}) || time.Unix(0, st.Changed).After(h.now.Add(-settled)) {
		return sum, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used[name], h.dirty = hashed{st, sum}, true
	return sum, nil
}

// Save keeps what was learnt. Files that nobody asked for are forgotten.
func (h *Hashes) Save() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty || len(h.used) > maxHashes {
		return nil
	}
	data, err := json.Marshal(h.used)
	if err != nil {
		return err
	}
	h.known, h.dirty = maps.Clone(h.used), false
	return h.notes.WriteNote(h.name, data)
}

// read hashes a file. The stamp is zero where the file has none, or changed while it was read.
func read(name string) (string, Stamp, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", Stamp{}, err
	}
	defer f.Close()
	before := ofFile(f)
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", Stamp{}, fmt.Errorf("read %s: %w", name, err)
	}
	if ofFile(f) != before {
		before = Stamp{}
	}
	return hex.EncodeToString(h.Sum(nil)), before, nil
}

// ofFile is Of of an open file, zero where it has no stamp.
func ofFile(f *os.File) Stamp {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return Stamp{}
	}
	s, err := of(f.Name(), &st)
	if err != nil {
		return Stamp{}
	}
	return s
}
