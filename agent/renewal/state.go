package renewal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/services/service"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// State is how far a node is with what is new. Its file is of this boot.
type State struct {
	// Serial is that of the bundle in use, Revision that of whom the node trusts.
	Serial   uint64 `json:"serial,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Ends is when the first of the node's certificates does.
	Ends time.Time `json:"ends,omitzero"`
	// Changed is when something last changed, or a program was last restarted for it, as Clock.
	Changed uint64 `json:"changed,omitempty"`
	// Pending are programs that have yet to take what is new.
	Pending map[string]Pending `json:"pending,omitempty"`
	// Turn is nodeapi.TurnWish or TurnDoing, by program.
	Turn map[string]string `json:"turn,omitempty"`
	// Problem says in words what is waited for, or what is not as it should be.
	Problem string `json:"problem,omitempty"`
}

// Pending is what a program has yet to take.
type Pending struct {
	Way service.Way `json:"way"`
	// Since is when it changed, as Clock: a program that was started later has it.
	Since uint64 `json:"since"`
}

// Names lists the programs that have yet to take something.
func (s State) Names() []string { return slices.Sorted(maps.Keys(s.Pending)) }

// Clock is CLOCK_MONOTONIC in microseconds, as systemd's timestamps are.
func Clock() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano() / 1000)
}

// File is where the state is kept. Its zero value is none.
type File struct {
	Path string
	mu   sync.Mutex
}

// Read reads it; it is empty where nothing was written yet.
func (f *File) Read() (State, error) {
	var s State
	err := atomicfile.ReadJSON(f.Path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	return s, err
}

// Change changes it.
func (f *File) Change(change func(*State)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.Read()
	if err != nil {
		return err
	}
	change(&s)
	return atomicfile.WriteJSON(f.Path, s)
}

// Add notes that programs have yet to take what has just changed.
func (s *State) Add(plan map[string]service.Way, now uint64) {
	for name, way := range plan {
		if s.Pending == nil {
			s.Pending = map[string]Pending{}
		}
		s.Pending[name] = Pending{max(way, s.Pending[name].Way), now}
	}
}

// StateHandler answers with the state in a file, and with the active ones of the units in the status line. It shows no secret.
func StateHandler(file, status string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s, err := (&File{Path: file}).Read()
		if err != nil {
			http.Error(w, "this node cannot read how far it is", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Answer(activeUnits(status), Clock()))
	}
}

// Answer is the state as the node tells it others, at a time as Clock.
func (s State) Answer(units []string, now uint64) nodeapi.Renewal {
	a := nodeapi.Renewal{Serial: s.Serial, Revision: s.Revision, Ends: s.Ends, Pending: s.Names(), Turn: s.Turn, Problem: s.Problem, Units: units}
	if now > s.Changed {
		a.Settled = (time.Duration(now-s.Changed) * time.Microsecond).Seconds()
	}
	return a
}

// activeUnits are those of the status line; without one, none is known to be active.
func activeUnits(status string) (out []string) {
	var line struct {
		Services map[string]string `json:"services"`
	}
	if data, err := os.ReadFile(status); err == nil {
		_ = json.Unmarshal(data, &line)
	}
	for _, unit := range slices.Sorted(maps.Keys(line.Services)) {
		if line.Services[unit] == "active" {
			out = append(out, unit)
		}
	}
	return out
}
