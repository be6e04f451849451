package slot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"spore/agent/nvcounter"
	"spore/storage/atomicfile"
)

// States of a pushed configuration.
const (
	// Staging is while it is being written: after a cut it may be on the disk or not.
	Staging = "staging"
	// Staged is a configuration that the next start takes.
	Staged = "staged"
	// OnTrial is one that was started and has not shown yet that the node's roles come up with it.
	OnTrial = "trial"
	// Kept is one whose roles came up.
	Kept = "kept"
	// Failed is one whose roles did not come up; the node went back to the one before.
	Failed = "failed"
)

// Record is what a node remembers of the last configuration that was pushed to it (/var/lib/spore/update.json).
type Record struct {
	// Serial is the highest that was taken: an older configuration is refused.
	Serial uint64 `json:"serial"`
	// Issued is when the last one was signed: one that is taken by force has to be of a later time.
	Issued time.Time `json:"issued,omitzero"`
	// Counted binds Serial to the counter of the node's TPM; nil without one.
	Counted *nvcounter.Bound `json:"counted,omitempty"`
	// ClusterHash and RootHash are what the update starts, Previous and PreviousRoot what ran when it came.
	// PreviousRoot is empty in records of programs that knew no other root than RootHash.
	ClusterHash  string `json:"clusterHash"`
	RootHash     string `json:"rootHash"`
	Previous     string `json:"previous"`
	PreviousRoot string `json:"previousRoot,omitempty"`
	// PreviousVersions are those of the services that keep data, in the root before.
	PreviousVersions map[string]string `json:"previousVersions,omitempty"`
	// NewKernel says that the update has another kernel, initramfs or microcode than what ran.
	NewKernel bool `json:"newKernel,omitempty"`
	// Entry is the stem of its entry on the ESP.
	Entry string `json:"entry"`
	State string `json:"state"`
	// Starts counts those of the trial that got as far as the state partition.
	Starts int `json:"starts,omitempty"`
	// BootID is that of the kernel that wrote it.
	BootID string `json:"bootID"`
	// Down lists units of the node's roles that were not up when the update came: the trial does not ask for them.
	Down []string `json:"down,omitempty"`
	// Live says that the node that was running took it at once.
	Live bool `json:"live,omitempty"`
	// Problem says why it failed.
	Problem string `json:"problem,omitempty"`
}

// Is tells whether it is of a root and a cluster part.
func (r Record) Is(rootHash, clusterHash string) bool {
	return r.ClusterHash != "" && sameHash(r.ClusterHash, clusterHash) && sameHash(r.RootHash, rootHash)
}

// Follows tells whether a root and a cluster part are what ran before.
func (r Record) Follows(rootHash, clusterHash string) bool {
	return r.Previous != "" && sameHash(r.Previous, clusterHash) && sameHash(r.rootBefore(), rootHash)
}

// rootBefore is the root that ran before.
func (r Record) rootBefore() string { return cmp.Or(r.PreviousRoot, r.RootHash) }

// NewSystem tells whether the update has another root or kernel than what ran before.
func (r Record) NewSystem() bool { return r.NewKernel || !sameHash(r.rootBefore(), r.RootHash) }

// maxRecord bounds the file.
const maxRecord = 1 << 20

// DamagedRecord is the error of a record that is there and cannot be read: what this node took last is not known.
type DamagedRecord struct{ Err error }

func (d DamagedRecord) Error() string {
	return "this node's record of what was pushed to it last is damaged: " + d.Err.Error()
}

func (d DamagedRecord) Unwrap() error { return d.Err }

// ReadRecord reads the record; a node that was never pushed to has an empty one. Its errors are DamagedRecord.
func ReadRecord(path string) (Record, error) {
	var r Record
	data, err := atomicfile.ReadLimited(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return Record{}, DamagedRecord{err}
	}
	return r, nil
}

// Write writes the record so that it survives a power cut.
func (r Record) Write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("internal error: record of an update: %w", err)
	}
	return atomicfile.WriteDurable(path, append(data, '\n'), 0o644)
}

// Info is what the status line says of the configuration that runs.
type Info struct {
	// RootHash and ClusterHash are those of what runs.
	RootHash    string `json:"rootHash"`
	ClusterHash string `json:"clusterHash"`
	// Serial is that of the pushed configuration that runs; 0 when the image brought it.
	Serial uint64 `json:"serial,omitempty"`
	// Trial says that it has yet to show that the node's roles come up with it.
	Trial bool `json:"trial,omitempty"`
	// Staged is the cluster part that the next start takes, StagedRoot its root where it has another one.
	Staged     string `json:"staged,omitempty"`
	StagedRoot string `json:"stagedRoot,omitempty"`
	// Other is the cluster part of the entry beside the one that runs: what the loader starts next, or what there is
	// to go back to. OtherRoot is its root where it has another one.
	Other     string `json:"other,omitempty"`
	OtherRoot string `json:"otherRoot,omitempty"`
	// Live says that the running node took it already.
	Live bool `json:"live,omitempty"`
	// Loader says what is to be known of a new boot loader.
	Loader string `json:"loader,omitempty"`
	// Problem says that the node went back to an earlier configuration, and why.
	Problem string `json:"problem,omitempty"`
}

// InfoOf is what there is to say, from the record and what was started by this kernel.
// counted says that the loader counts starts of it.
func InfoOf(r Record, rootHash, clusterHash, bootID string, counted bool) *Info {
	if clusterHash == "" {
		return nil
	}
	i := &Info{RootHash: rootHash, ClusterHash: clusterHash}
	switch {
	case r.ClusterHash == "":
		// The record is on the state partition, which comes later than the first status: a push that asks then shall
		// not take the start that is on trial for one that was kept.
		i.Trial = counted
	case r.Is(rootHash, clusterHash):
		i.Serial = r.Serial
		i.other(r.rootBefore(), r.Previous)
		i.Trial = counted && r.State != Kept
	case r.Follows(rootHash, clusterHash):
		i.other(r.RootHash, r.ClusterHash)
		i.notRunning(r, bootID)
	} // Else another image was written to the disk since.
	return i
}

// other says what is beside what runs.
func (i *Info) other(rootHash, clusterHash string) {
	i.Other = clusterHash
	if clusterHash != "" && !sameHash(rootHash, i.RootHash) {
		i.OtherRoot = rootHash
	}
}

// notRunning says what became of the configuration that was pushed last.
func (i *Info) notRunning(r Record, bootID string) {
	switch {
	case r.State == Failed && r.BootID == bootID:
		i.Other, i.OtherRoot = "", "" // Its entry was taken off.
		i.Problem = "the pushed configuration was taken back: " + r.Problem
	case r.State == Failed:
		i.Problem = "went back to this configuration: " + r.Problem
	case r.BootID == bootID && r.State == Staged:
		i.Staged, i.StagedRoot, i.Live = r.ClusterHash, i.OtherRoot, r.Live
	case r.BootID == bootID:
	case r.State == Staging:
		i.Problem = "the pushed configuration was not written to its end; push it again"
	case r.State == OnTrial:
		i.Problem = fmt.Sprintf("went back to this configuration: the pushed one was started %d times and neither "+
			"came up nor said why", r.Starts)
	case r.State == Staged:
		i.Problem = "went back to this configuration: the pushed one was not started, or got not as far as the " +
			"node's state"
	case r.State == Kept:
		i.Problem = "this is the configuration before the one that was pushed last: the machine was not started " +
			"with the newer one"
	}
}
