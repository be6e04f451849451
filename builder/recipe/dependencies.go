package recipe

// unneeded is a package that another one depends on and that no program of an image uses through it.
type unneeded struct{ pkg, dependency, why string }

// unneededDependencies are not followed. What is needed by another package, or named in image.yaml, is in the image all the
// same.
var unneededDependencies = []unneeded{
	{"ceph-base", "binutils", "for people who debug"},
	{"ceph-base", "gdisk", "spore-agent partitions the disks of OSDs"},
	{"ceph-base", "hdparm", "for scripts that prepared disks once"},
	{"ceph-base", "logrotate", "the journal is the log"},
	{"ceph-base", "nvme-cli", "only for reports on the health of disks, by sudo"},
	{"ceph-base", "parted", "spore-agent partitions the disks of OSDs"},
	{"ceph-base", "psmisc", "for scripts of SysV init"},
	{"ceph-base", "smartmontools", "only for reports on the health of disks, by sudo"},
	{"ceph-base", "uuid-runtime", "for scripts that prepared disks once"},
	{"ceph-base", "xfsprogs", "no OSD keeps its data on a file system"},
	{"ceph-common", "adduser", "accounts are fixed at build"},
	{"ceph-common", "libbabeltrace1", "only for programs that are left out"},
	{"ceph-common", "libboost-context1.83.0", "only for programs that are left out"},
	{"ceph-common", "libboost-filesystem1.83.0", "only for programs that are left out"},
	{"ceph-common", "libcap-ng0", "only for programs that are left out"},
	{"ceph-common", "libcurl3t64-gnutls", "only for programs that are left out"},
	{"ceph-common", "libicu76", "only for programs that are left out"},
	{"ceph-common", "libldap2", "only for programs that are left out"},
	{"ceph-common", "liblua5.3-0", "only for programs that are left out"},
	{"ceph-common", "liboath0t64", "only for programs that are left out"},
	{"ceph-common", "librabbitmq4", "only for programs that are left out"},
	{"ceph-common", "python3-requests", "the command ceph does not use it; the manager asks for it by itself"},
	{"ceph-mgr", "python3-bcrypt", "see its row of made files"},
	{"ceph-mgr", "python3-cherrypy3", "only for modules that are left out"},
	{"ceph-mgr", "python3-jwt", "only for modules that are left out"},
	{"ceph-mgr", "python3-openssl", "only for modules that are left out"},
	{"ceph-mgr", "python3-pecan", "only for modules that are left out"},
	{"ceph-mgr", "python3-werkzeug", "only for modules that are left out"},
	{"ceph-mgr-modules-core", "python3-cherrypy3", "only for modules that are left out"},
	{"ceph-mgr-modules-core", "python3-openssl", "only for modules that are left out"},
	{"ceph-mgr-modules-core", "python3-packaging", "only for modules that are left out"},
	{"ceph-mgr-modules-core", "python3-pecan", "only for modules that are left out"},
	{"ceph-mgr-modules-core", "python3-werkzeug", "only for modules that are left out"},
	{"ceph-osd", "ceph-volume", "spore-agent prepares the disks of OSDs"},
	{"ceph-osd", "lvm2", "OSDs have partitions of their own"},
	{"ceph-osd", "sudo", "only for reports on the health of disks"},
}

// UnneededDependencies returns, by package, the dependencies that are not followed when the packages of an image are chosen.
func UnneededDependencies() map[string][]string {
	out := map[string][]string{}
	for _, u := range unneededDependencies {
		out[u.pkg] = append(out[u.pkg], u.dependency)
	}
	return out
}
