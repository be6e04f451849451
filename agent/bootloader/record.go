package bootloader

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/storage/atomicfile"
)

// MaxSize bounds a boot loader, in bytes: systemd-boot has about 120 KiB.
const MaxSize = 1 << 20

// States of a new boot loader.
const (
	// Waiting is one that came with an update and is to be tried once the system of that update has shown that it stays.
	Waiting = "waiting"
	// Tried is one that the firmware was told to start at the next start, and at that alone.
	Tried = "tried"
	// Proved is one that has started the machine: it is being made the one that the firmware starts by itself.
	Proved = "proved"
	// Kept is one that the firmware starts by itself.
	Kept = "kept"
	// Failed is one that did not start the machine, or would not: the one before stays.
	Failed = "failed"
)

// Record is what a node remembers of the boot loader that came last.
type Record struct {
	// SHA256 is that of the program, in lower-case hexadecimal; empty when none ever came.
	SHA256 string `json:"sha256"`
	// RootHash and ClusterHash are the system that brought it: it is tried while that one runs.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	State       string `json:"state"`
	// BootID is that of the kernel that told the firmware to start it.
	BootID string `json:"bootID,omitempty"`
	// Placed is the boot in which a loader took the place of the one before: the second copy on the ESP, of which the
	// firmware has an option behind the first (Fallbacks), stays what it was until the first has started the machine.
	Placed string `json:"placed,omitempty"`
	// Offered says that the firmware may have a boot option for it, or for one that came before it and was not judged.
	Offered bool `json:"offered,omitempty"`
	// Problem says why it failed, or why it still waits.
	Problem string `json:"problem,omitempty"`
}

// Names in the directory of a new boot loader.
const (
	recordName  = "loader.json"
	contentName = "loader.efi"
)

const maxRecord = 64 << 10

// Read reads the record of a directory; it is empty where no boot loader ever came.
func Read(dir string) (Record, error) {
	var r Record
	data, err := atomicfile.ReadLimited(filepath.Join(dir, recordName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read what is known of a new boot loader: %w", err)
	}
	return r, nil
}

func (r Record) write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("internal error: record of a boot loader: %w", err)
	}
	return atomicfile.WriteDurable(filepath.Join(dir, recordName), append(data, '\n'), 0o644)
}

// Is tells whether it is of the system that brought it.
func (r Record) Is(rootHash, clusterHash string) bool {
	return r.RootHash == rootHash && r.ClusterHash == clusterHash
}

// Keep keeps a boot loader that came with an update of a system, until it is tried. One that is known keeps its state,
// so that one that failed is not tried again, unless again says so.
func Keep(dir string, content []byte, rootHash, clusterHash string, again bool) error {
	sum := sha256.Sum256(content)
	fresh := Record{SHA256: hex.EncodeToString(sum[:]), RootHash: rootHash, ClusterHash: clusterHash, State: Waiting}
	r, err := Read(dir)
	if err != nil {
		return err
	}
	fresh.Offered, fresh.Placed = r.Offered, r.Placed
	if r.SHA256 == fresh.SHA256 && !again {
		fresh.State, fresh.BootID, fresh.Problem = r.State, r.BootID, r.Problem
		if fresh == r {
			return nil
		}
		return fresh.write(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the boot loader: %w", err)
	}
	// The record names what is there: with the content alone nothing is tried, as its hash is another one.
	if err := atomicfile.WriteDurable(filepath.Join(dir, contentName), content, 0o600); err != nil {
		return fmt.Errorf("keep the boot loader: %w", err)
	}
	return fresh.write(dir)
}

// content is the program that the record is of.
func (r Record) content(dir string) ([]byte, error) {
	data, err := atomicfile.ReadLimited(filepath.Join(dir, contentName), MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read the new boot loader: %w", err)
	}
	if !r.of(data) {
		return nil, errors.New("the new boot loader was damaged on the state partition")
	}
	return data, nil
}

// of tells whether it is of a program.
func (r Record) of(program []byte) bool {
	want, err := hex.DecodeString(r.SHA256)
	sum := sha256.Sum256(program)
	return err == nil && bytes.Equal(want, sum[:])
}

// Text says for people what is to be known of a new boot loader; empty for nothing.
func (r Record) Text() string {
	switch r.State {
	case Waiting:
		text := fmt.Sprintf("the boot loader %.16s… is tried at the restart after its system has shown that it stays",
			r.SHA256)
		if r.Problem != "" {
			text += "; so far it was not: " + r.Problem
		}
		return text
	case Tried:
		return fmt.Sprintf("the boot loader %.16s… is tried at the next start", r.SHA256)
	case Proved:
		return fmt.Sprintf("the boot loader %.16s… has started this machine, and is put in the place of the one before",
			r.SHA256)
	case Failed:
		return "the boot loader stays the one before: " + r.Problem
	}
	return ""
}
