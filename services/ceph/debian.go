package ceph

import "spore/services/service"

// debian has what Ceph's packages need besides their files. What is left out of them serves what is not here, or Ceph's
// developers.
var debian = []service.Debian{
	{
		Package: "ceph-base",
		Drop: []service.Drop{
			{Path: "/etc/sudoers.d/ceph-smartctl", Why: "no sudo"},
			{Path: "/usr/lib/x86_64-linux-gnu/rados-classes/libcls_lua.so*", Why: "no OSD loads it: clients' scripts do not run in OSDs"},
			{Path: "/usr/lib/x86_64-linux-gnu/rados-classes/libcls_rgw*", Why: "no object gateway"},
			{Path: "/var/lib/ceph/*", Why: "our units make the directories that they use"},
			{Path: "/usr/bin/ceph-crash", Why: "nothing is sent to its developers"},
			{Path: "/usr/bin/ceph-kvstore-tool", Why: "for its developers; ceph-monstore-tool and ceph-objectstore-tool stay"},
			{Path: "/usr/bin/ceph-run", Why: "systemd starts programs again"},
			{Path: "/usr/sbin/ceph-create-keys", Why: "spore-agent makes the keys"},
		},
	},
	{
		Package: "ceph-common",
		Drop: []service.Drop{
			{Path: "/etc/ceph/rbdmap", Why: "images are mapped by whoever uses them"},
			{Path: "/etc/default/ceph", Why: "our units run the programs"},
			{Path: "/usr/lib/tmpfiles.d/ceph*.conf", Why: "each program has a runtime directory of its own"},
			{Path: "/usr/share/ceph/id_rsa_drop.ceph.com*", Why: "nothing is sent to its developers"},
			{Path: "/usr/share/ceph/known_hosts_drop.ceph.com", Why: "nothing is sent to its developers"},
			{Path: "/usr/bin/ceph-dencoder", Why: "for its developers"},
			{Path: "/usr/bin/ceph-post-file", Why: "nothing is sent to its developers"},
			{Path: "/usr/bin/ceph-syn", Why: "a load generator for CephFS"},
			{Path: "/usr/bin/cephfs-*", Why: "a damaged file system is mended from elsewhere"},
			{Path: "/usr/bin/radosgw-admin", Why: "no object gateway"},
			{Path: "/usr/bin/rbd-replay*", Why: "for its developers"},
			{Path: "/usr/bin/rbdmap", Why: "images are mapped by whoever uses them"},
			{Path: "/usr/bin/rgw-*", Why: "no object gateway"},
			{Path: "/usr/sbin/mount.ceph", Why: "spore-rbd gives the kernel its options by itself"},
			{Path: "/usr/sbin/mount.fuse.ceph", Why: "the kernel mounts CephFS"},
		},
	},
	{
		Package: "ceph-mgr-modules-core",
		Drop: []service.Drop{
			{Path: "/usr/share/ceph/mgr/alerts", Why: "mails"},
			{Path: "/usr/share/ceph/mgr/influx", Why: "metrics for others"},
			{Path: "/usr/share/ceph/mgr/insights", Why: "reports of crashes, which are not collected"},
			{Path: "/usr/share/ceph/mgr/iostat", Why: "a display for terminals"},
			{Path: "/usr/share/ceph/mgr/localpool", Why: "a pool for each rack"},
			{Path: "/usr/share/ceph/mgr/mirroring", Why: "copies of file systems in other clusters"},
			{Path: "/usr/share/ceph/mgr/nfs", Why: "no NFS"},
			{Path: "/usr/share/ceph/mgr/osd_perf_query", Why: "statistics for people"},
			{Path: "/usr/share/ceph/mgr/osd_support", Why: "for other ways of deployment"},
			{Path: "/usr/share/ceph/mgr/prometheus", Why: "its web server is left out"},
			{Path: "/usr/share/ceph/mgr/restful", Why: "its web server is left out"},
			{Path: "/usr/share/ceph/mgr/selftest", Why: "for its developers"},
			{Path: "/usr/share/ceph/mgr/snap_schedule", Why: "nobody makes snapshots by the clock"},
			{Path: "/usr/share/ceph/mgr/stats", Why: "statistics for people"},
			{Path: "/usr/share/ceph/mgr/telegraf", Why: "metrics for others"},
			{Path: "/usr/share/ceph/mgr/test_orchestrator", Why: "for its developers"},
			{Path: "/usr/share/ceph/mgr/zabbix", Why: "metrics for others"},
		},
	},
	{
		Package: "ceph-osd",
		Drop: []service.Drop{
			{Path: "/usr/lib/ceph/ceph-osd-prestart.sh", Why: "spore-agent prepares the start of an OSD"},
			{Path: "/usr/lib/udev/rules.d/95-ceph-osd-lvm.rules", Why: "OSDs are on partitions"},
			{Path: "/usr/bin/ceph-clsinfo", Why: "for its developers"},
			{Path: "/usr/bin/ceph-erasure-code-tool", Why: "for its developers"},
			{Path: "/usr/bin/ceph-osdomap-tool", Why: "for its developers"},
		},
	},
}
