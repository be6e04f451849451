// Package storedisk says where a store of metrics or of logs has its data: on a disk of its own, where the file of its
// node names one, else on the state. Package datadisk, of the agent, prepares the disk.
package storedisk

import (
	"path"
	"slices"

	"spore/cluster/spec"
)

// Share is what data may fill of a disk of their own where the settings have no size: a store puts files together in
// the rest, and alerts take a disk for full that has less than a tenth free.
const Share = "80%"

// Mounts is where a node mounts the disk of a use, below its number, which is 1.
func Mounts(use string) string { return "/var/lib/" + use + "-disks" }

// Unit is the service that prepares it, and Program its name in the list of services.
func Unit(use string) string { return Program(use) + ".service" }

// Program is the name of the service that prepares the disk, in the list of services.
func Program(use string) string { return use + "-disks" }

// Named tells whether a node's file gives a disk to a use.
func Named(disks []spec.Disk, use string) bool {
	return slices.ContainsFunc(disks, func(d spec.Disk) bool { return d.Use == use })
}

// Data is the directory of a program's data: on the disk that the node's file gives to a use, also while the disk is
// away, so that they never go to the state in its place; on the state where the file gives none. It cannot be made by
// the program while the disk is away.
func Data(disks []spec.Disk, use, program string) string {
	if Named(disks, use) {
		return path.Join(Mounts(use), "1", program)
	}
	return path.Join("/var/lib", program)
}
