package ceph

import (
	"fmt"

	"spore/services/dataversion"
)

// release is the second number of Ceph's releases; 0 and 1 are those of development and of candidates.
const release = 2

// data is what Ceph keeps. Its daemons have one version.
var data = []dataversion.Row{{
	Name: "ceph", Roles: []string{roleMon, roleOSD}, Package: "ceph-base",
	Keeps: "`/var/lib/ceph` and the disks of OSDs: monitors' maps, BlueStore",
	Rule: "an older point release of the same major version reads it. An older major version does not: monitors and " +
		"OSDs change their formats, and `require_osd_release` only moves forward",
	Source: "Ceph, src/pybind/mgr/cephadm/upgrade.py, _check_target_version; Ceph documentation, “Upgrading Ceph” " +
		"and “Minimum OSD Release”",
	Judge: judge,
}}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	switch {
	case newer.Major != older.Major:
		return dataversion.Unsafe, fmt.Sprintf("Ceph does not go back to an older major version: %d does not read "+
			"what %d wrote",
			older.Major, newer.Major)
	case older.Minor != release || newer.Minor != release:
		return dataversion.Unsafe, "one of the versions is a release for tests, which Ceph does not go back to"
	}
	return dataversion.Safe, "point releases of Ceph read each other's data"
}
