package send

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"spore/storage/atomicfile"
)

// saveAfter is how old a change of a position may get before it is on the disk. What was sent meanwhile is sent again
// after a power cut, and the store leaves it out.
const saveAfter = 5 * time.Second

// maxPositions bounds the file of positions, in bytes.
const maxPositions = 1 << 20

// Positions is how far a store has what a source has, in a file of its own: a value for each key, such as a file of
// logs. It is on the disk some seconds after a change, and after Save.
type Positions[T any] struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	all     map[string]T
	changed bool
	saved   time.Time
}

// OpenPositions reads the positions of a file, which need not exist. One that cannot be understood is begun anew, and
// said: what was sent is sent again.
func OpenPositions[T any](path string, now func() time.Time, say func(string)) *Positions[T] {
	p := &Positions[T]{path: path, now: now, all: map[string]T{}, saved: now()}
	data, err := atomicfile.ReadLimited(path, maxPositions)
	if errors.Is(err, fs.ErrNotExist) {
		return p
	}
	if err == nil {
		err = json.Unmarshal(data, &p.all)
	}
	if err != nil {
		say(fmt.Sprintf("%s: what is sent already is not known, and is sent again: %v", path, err))
	}
	if p.all == nil || err != nil {
		p.all = map[string]T{}
	}
	return p
}

// Get is the position of a key.
func (p *Positions[T]) Get(key string) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.all[key]
	return at, ok
}

// All is a copy of all positions.
func (p *Positions[T]) All() map[string]T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}

// Set changes the position of a key, and writes the file now and then.
func (p *Positions[T]) Set(key string, at T) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[key] = at
	return p.change()
}

// Delete forgets a key, such as a file that is gone.
func (p *Positions[T]) Delete(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, key)
	return p.change()
}

func (p *Positions[T]) change() error {
	p.changed = true
	if p.now().Sub(p.saved) < saveAfter {
		return nil
	}
	return p.save()
}

// Save writes the file if anything has changed.
func (p *Positions[T]) Save() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.save()
}

func (p *Positions[T]) save() error {
	if !p.changed {
		return nil
	}
	p.saved = p.now() // A disk that is full is not asked more often.
	data, err := json.Marshal(p.all)
	if err != nil {
		return fmt.Errorf("internal error: %s: %w", p.path, err)
	}
	if len(data) > maxPositions {
		return fmt.Errorf("%s: the positions would have %d bytes; there is room for %d", p.path, len(data), maxPositions)
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return fmt.Errorf("save what is sent: %w", err)
	}
	if err := atomicfile.Replace(p.path, data, 0o600, atomicfile.Durable); err != nil {
		return fmt.Errorf("save what is sent: %w", err)
	}
	p.changed = false
	return nil
}
