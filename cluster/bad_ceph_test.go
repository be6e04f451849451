package cluster

// badCeph holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badCeph = []badInput{
	{
		"more copies than OSD hosts",
		[]edit{{"services/ceph.yaml", "poolSize: 2", "poolSize: 3"}},
		[]string{
			`services/ceph.yaml:2:11: error: poolSize 3 with failureDomain host needs 3 nodes with OSDs, but there are 2, so pools would never be clean; lower poolSize or add disks`,
		},
	},
	{
		"the default of three copies on two hosts",
		[]edit{{"services/ceph.yaml", "poolSize: 2\n", ""}},
		[]string{
			`services/ceph.yaml:2:1: error: poolSize 3 with failureDomain host needs 3 nodes with OSDs, but there are 2, so pools would never be clean; lower poolSize or add disks`,
		},
	},
	{
		"one copy",
		[]edit{{"services/ceph.yaml", "poolSize: 2", "poolSize: 1"}},
		[]string{
			`services/ceph.yaml:2:11: warning: with poolSize 1 every disk that fails loses data; write 2, or better 3`,
		},
	},
	{
		"a failure domain that does not exist",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: rack"}},
		[]string{
			`services/ceph.yaml:3:16: error: the failure domain "rack" is unknown; write host or osd`,
		},
	},
	{
		"a monitor without an address",
		[]edit{{"cluster.yaml", "    ips: [10.77.0.15]\n", ""}},
		[]string{
			`cluster.yaml:36:12: error: node storage-01 has the role ceph-mon but no address, which the other monitors and all clients need; add one under ips`,
		},
	},
	{
		"an OSD with less memory than it takes",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nosdMemory: 512"}},
		[]string{
			`services/ceph.yaml:4:12: error: osdMemory 512 is out of bounds; write 896 to 1048576`,
		},
	},
	{
		"a pool with a name of Ceph's own",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: .mgr}]"}},
		[]string{
			`services/ceph.yaml:4:16: error: the pool name ".mgr" is not valid; write 1 to 64 letters, digits, -, _ and dots inside, the first a letter or digit`,
		},
	},
	{
		"a pool twice",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a}, {name: a}]"}},
		[]string{
			`services/ceph.yaml:4:27: error: the pool "a" exists already, at services/ceph.yaml:4; each pool has one entry`,
		},
	},
	{
		"a pool for something unknown",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a, application: cephfs}]"}},
		[]string{
			`services/ceph.yaml:4:32: error: the application of a pool "cephfs" is unknown; write rbd or rados`,
		},
	},
	{
		"a pool for Kubernetes that has no block devices",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a, application: rados, kubernetes: true}]"}},
		[]string{
			`services/ceph.yaml:4:51: error: Kubernetes makes block devices, and the pool a is for rados; write application: rbd, or remove kubernetes`,
		},
	},
	{
		"a pool with more copies than hosts",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a, size: 3}]"}},
		[]string{
			`services/ceph.yaml:4:25: error: size 3 with failureDomain host needs 3 nodes with OSDs, but there are 2, so pools would never be clean; lower size or add disks`,
		},
	},
	{
		"a pool with one copy",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a, size: 1}]"}},
		[]string{
			`services/ceph.yaml:4:25: warning: with size 1 every disk that fails loses data; write 2, or better 3`,
		},
	},
	{
		"a pool that is written with more copies than it has",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: a, minSize: 3}]"}},
		[]string{
			`services/ceph.yaml:4:28: error: minSize 3 is not between 1 and the pool's 2 copies, so nothing could be written; correct it, or leave it out`,
		},
	},
	{
		"a file system with a name that cannot be a StorageClass's",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: My_files}]"}},
		[]string{
			`services/ceph.yaml:4:22: error: the name "My_files" of a file system is not valid; write 1 to 50 lower-case letters and digits, and - inside`,
		},
	},
	{
		"a file system twice, and more of them than metadata servers",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a}, {name: a}]"}},
		[]string{
			`services/ceph.yaml:4:26: error: there are more file systems, 2, than metadata servers, 1, one beside each monitor; each file system needs one: remove file systems or add monitors`,
			`services/ceph.yaml:4:33: error: the file system "a" exists already, at services/ceph.yaml:4; each file system has one entry`,
		},
	},
	{
		"a file system with more copies than hosts",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a, size: 3}]"}},
		[]string{
			`services/ceph.yaml:4:31: error: size 3 with failureDomain host needs 3 nodes with OSDs, but there are 2, so pools would never be clean; lower size or add disks`,
		},
	},
	{
		"a file system with one copy",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a, size: 1}]"}},
		[]string{
			`services/ceph.yaml:4:31: warning: with size 1 every disk that fails loses data; write 2, or better 3`,
		},
	},
	{
		"a file system that is written with more copies than it has",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a, minSize: 3}]"}},
		[]string{
			`services/ceph.yaml:4:34: error: minSize 3 is not between 1 and the pool's 2 copies, so nothing could be written; correct it, or leave it out`,
		},
	},
	{
		"a pool that is called as one of a file system",
		[]edit{{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\npools: [{name: cephfs.a.data}]\nfilesystems: [{name: a}]"}},
		[]string{
			`services/ceph.yaml:5:22: error: the file system a makes a pool cephfs.a.data, and an entry of pools has the same name; rename that pool`,
		},
	},
	{
		"as many file systems as metadata servers",
		[]edit{
			{"cluster.yaml", "roles: [worker]", "roles: [worker, ceph-mon]"},
			{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, ceph-mon]"},
			{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a}, {name: b}, {name: c}]"},
		},
		[]string{
			`services/ceph.yaml:4:37: warning: there are as many file systems as metadata servers, so that none stands by: where one fails, its file system stands still; remove a file system`,
		},
	},
	{
		"a metadata server whose name Ceph refuses",
		[]edit{
			{"cluster.yaml", "name: kafka-01", "name: 1-kafka"},
			{"nodes/kafka-01.yaml", "node: kafka-01", "node: 1-kafka"},
			{"cluster.yaml", "roles: [kafka-broker]", "roles: [kafka-broker, ceph-mon]"},
			{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a}]"},
		},
		[]string{
			`cluster.yaml:15:24: warning: 2 Ceph monitors: their quorum is 2 and lost as soon as 1 fails, as with 1; use 1 or 3`,
			`cluster.yaml:29:11: error: beside the monitor of node 1-kafka runs a metadata server, whose name cannot begin with a digit; call the node otherwise, or remove filesystems from services/ceph.yaml`,
			`nodes/kafka-01.yaml:2:7: error: this file is about node 1-kafka; rename it to nodes/1-kafka.yaml, where the node looks for it`,
		},
	},
	{
		"a file system without any OSD",
		[]edit{
			{"cluster.yaml", "roles: [worker, ceph-osd]", "roles: [worker]"},
			{"cluster.yaml", "roles: [ceph-mon, ceph-osd]", "roles: [ceph-mon]"},
			{"services/ceph.yaml", "failureDomain: host", "failureDomain: host\nfilesystems: [{name: a}]"},
		},
		[]string{
			`nodes/storage-01.yaml:16:11: error: the disk is for osd, but node storage-01 has no role ceph-osd; add the role in cluster.yaml or remove the disk`,
			`nodes/worker-02.yaml:4:11: error: the disk is for osd, but node worker-02 has no role ceph-osd; add the role in cluster.yaml or remove the disk`,
			`services/ceph.yaml:4:14: error: no node has the role ceph-osd, so there is no disk for a file system; give nodes the role, or remove filesystems`,
		},
	},
	{
		"monitors that speak different protocols",
		[]edit{
			{"cluster.yaml", "nodeSubnets: [10.77.0.0/24]", "nodeSubnets: [10.77.0.0/24, \"fd77::/64\"]"},
			{"cluster.yaml", "ips: [10.77.0.14]\n    roles: [kafka-broker]", "ips: [\"fd77::14\"]\n    roles: [kafka-broker, ceph-mon]"},
			{"cluster.yaml", "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, ceph-mon]"},
		},
		[]string{
			`cluster.yaml:36:11: error: the monitor storage-01 has an address of IPv4 and the monitor kafka-01 one of IPv6; Ceph uses only one of them: put addresses of the same kind first`,
		},
	},
}
