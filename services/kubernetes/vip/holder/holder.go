// Package holder is what a master knows of who has the virtual address of the Kubernetes API, and the file by which it tells
// others on the node. It stands apart so that those who read it have nothing of etcd in them.
package holder

import (
	"fmt"
	"time"

	"spore/storage/atomicfile"
)

// File is where a master leaves what it knows, as JSON.
const File = "/run/spore-endpoint/state.json"

// State is who has the address. It is a contract for those who read the file.
type State struct {
	// Address is the virtual address, Holder the master that has it as far as this one knows.
	Address string `json:"address"`
	Holder  string `json:"holder,omitempty"`
	// Here is that this master has it.
	Here bool `json:"here"`
	// Problem says why this master does not have it and does not try to, or what keeps it from knowing.
	Problem string `json:"problem,omitempty"`
}

// String is the state for people.
func (s State) String() string {
	switch {
	case s.Here && s.Problem != "":
		return fmt.Sprintf("this master has %s; %s", s.Address, s.Problem)
	case s.Here:
		return "this master has " + s.Address
	case s.Holder != "":
		return s.Holder + " has " + s.Address
	}
	return s.Problem
}

// Since is a state and the time since when it is so.
type Since struct {
	State
	Since time.Time `json:"since"`
}

// Write leaves a state in a file.
func Write(path string, s State, now time.Time) error {
	if err := atomicfile.WriteJSON(path, Since{s, now.UTC().Truncate(time.Millisecond)}); err != nil {
		return fmt.Errorf("tell who has the virtual address: %w", err)
	}
	return nil
}

// Read reads a file of Write.
func Read(path string) (Since, error) {
	var s Since
	err := atomicfile.ReadJSON(path, &s)
	return s, err
}
