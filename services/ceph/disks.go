package ceph

import "spore/cluster/spec"

// UseOSD is the use of a disk that an OSD is made on, as node files write it.
const UseOSD = "osd"

// OSDs are the disks of a node that OSDs are made on, in order.
func OSDs(disks []spec.Disk) []spec.Disk {
	var out []spec.Disk
	for _, d := range disks {
		if d.Use == UseOSD {
			out = append(out, d)
		}
	}
	return out
}
