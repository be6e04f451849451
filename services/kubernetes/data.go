package kubernetes

import (
	"fmt"

	"spore/services/dataversion"
)

// data is what Kubernetes and its store keep.
var data = []dataversion.Row{
	{
		Name: "etcd", Roles: []string{master}, Payload: "etcd",
		Keeps: "`/var/lib/etcd`: all objects of Kubernetes",
		Rule: "an older patch release reads it. An older minor release does not start on the data of a cluster that " +
			"was of a newer one, unless all members were told before (`etcdctl downgrade enable`)",
		Source: "etcd documentation v3.6, “Downgrade etcd from v3.6 to v3.5”; Kubernetes documentation, “Upgrading " +
			"and Rolling Back etcd”; etcd, server/etcdserver/version/downgrade.go, MustDetectDowngrade",
		Judge: judgeEtcd,
	},
	{
		Name: "kubernetes", Roles: []string{master}, Payload: "kubernetes",
		Keeps: "the stored versions of objects, in etcd",
		Rule: "an older patch release reads it, and the minor release before, except for what only the newer one " +
			"has. Others do not: a stored version may have changed",
		Source: "Kubernetes documentation, “Kubernetes Deprecation Policy”, rule #4b; “Version Skew Policy”",
		Judge:  judgeObjects,
	},
	{
		Name: "kubelet", Roles: []string{master, worker}, Payload: "kubernetes",
		Keeps: "`/var/lib/kubelet`: checkpoints of its managers of CPUs, memory and devices",
		Rule: "an older patch release reads it. Of an older minor release nothing is promised: where the form of a " +
			"checkpoint changed, kubelet says that it is corrupted and ends",
		Source: "kubernetes/kubernetes#86689, #139069; Kubernetes, pkg/kubelet/cm/cpumanager/state/checkpoint.go",
		Judge:  judgeKubelet,
	},
	{
		Name: "containerd", Roles: []string{master, worker}, Payload: "containerd",
		Keeps: "`/var/lib/containerd`: images and containers",
		Rule: "an older release of the same major version reads it: within one schema only additions are made. Of " +
			"an older major version nothing is promised",
		Source: "containerd, core/metadata/db.go, schemaVersion and dbVersion",
		Judge:  judgeContainerd,
	},
}

func judgeEtcd(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of etcd read each other's data"
	}
	return dataversion.Unsafe, fmt.Sprintf("etcd %s does not start on the data of a cluster of version %s, unless "+
		"all its members were told so before (etcdctl downgrade enable %s)",
		older.Series(), newer.Series(), older.Series())
}

func judgeObjects(newer, older dataversion.Version) (dataversion.Verdict, string) {
	switch {
	case newer.SameSeries(older):
		return dataversion.Safe, "patch releases of Kubernetes store objects in the same versions"
	case newer.Major == older.Major && newer.Minor == older.Minor+1:
		return dataversion.Safe, fmt.Sprintf("Kubernetes stores nothing in a version that the release before cannot "+
			"read, except for what only %s has", newer.Series())
	}
	return dataversion.Unsafe, fmt.Sprintf("Kubernetes %s may have stored objects in a version that %s cannot read: "+
		"only the release before is meant to", newer.Series(), older.Series())
}

func judgeKubelet(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of kubelet read each other's checkpoints"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that kubelet %s reads the checkpoints of %s",
		older.Series(), newer.Series())
}

func judgeContainerd(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.Major == older.Major {
		return dataversion.Safe, "within one schema containerd only adds to its data"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that containerd %d reads the data of containerd %d",
		older.Major, newer.Major)
}
