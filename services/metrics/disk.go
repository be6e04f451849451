package metrics

import (
	"path"
	"slices"

	"spore/cluster/spec"
)

// Use is the use of a disk that a store has its data on, as node files write it.
const Use = "metrics"

// Disks is where a node mounts the disk of its store, below its number, which is 1.
const Disks = "/var/lib/metrics-disks"

// onState is where the data are without a disk.
const onState = "/var/lib/" + Program

// share is what the data may fill of a disk of their own where the settings have no size: the store puts files
// together in the rest, and alerts take a disk for full that has less.
const share = "80%"

// hasDisk tells whether a node's file gives the store a disk.
func hasDisk(disks []spec.Disk) bool {
	return slices.ContainsFunc(disks, func(d spec.Disk) bool { return d.Use == Use })
}

// DataOf is where the store of a node has its data: on the disk that the node's file gives it, also while the disk is
// away, so that they never go to the state in its place; on the state without one.
func DataOf(disks []spec.Disk) string {
	if hasDisk(disks) {
		return path.Join(Disks, "1", Program)
	}
	return onState
}
