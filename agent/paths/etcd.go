package paths

// Directories of etcd and what is kept of it, on masters.
const (
	// Etcd is the data of this master's member.
	Etcd = "/var/lib/etcd"
	// Snapshots holds the encrypted snapshots of etcd (package etcd/snapshot).
	Snapshots = "/var/lib/etcd-snapshots"
	// EtcdRestore is where a restore of etcd is prepared, and known until it is done (package etcd/restore).
	EtcdRestore = "/var/lib/spore/etcd-restore"
)
