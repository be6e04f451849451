package kubeapi

import (
	"spore/cluster/facts"
	"spore/services"
	"spore/services/ceph"
)

const (
	// volumeDriver and sharedDriver are the names of the drivers in payloads/spore-rbd.
	volumeDriver = "rbd.csi.spore"
	sharedDriver = "cephfs.csi.spore"
	// defaultClass says, at a StorageClass, that it is for claims that name none.
	defaultClass = "storageclass.kubernetes.io/is-default-class"
	// provisionersGroup is that of the provisioners of all masters (package pki).
	provisionersGroup = "spore:rbd-provisioners"
)

// provisions tells whether the cluster's own Ceph gives pods their volumes.
func provisions(c *facts.Cluster) bool {
	return services.Enabled(c, "ceph") && len(ceph.Of(c.Services).KubernetesPools()) > 0
}

// shares tells whether the cluster's own Ceph gives pods shared volumes.
func shares(c *facts.Cluster) bool { return services.Enabled(c, ceph.PartCephFSVolumes) }

// volumeObjects are what claims for volumes on Ceph need: the drivers as kubelets see them, a class for each pool and file
// system, and the roles of the provisioners.
func volumeObjects(c *facts.Cluster) []applied {
	var out []applied
	if provisions(c) {
		out = append(out, applied{object: csiDriver(volumeDriver)})
	}
	if shares(c) {
		out = append(out, applied{object: csiDriver(sharedDriver)})
	}
	out = append(out,
		applied{object: role("spore:rbd-provisioner", provisionerRules())},
		applied{object: binding("spore:rbd-provisioner", "spore:rbd-provisioner", "Group", provisionersGroup)},
		applied{object: Object{
			"apiVersion": rbac + "/v1", "kind": "Role", "metadata": map[string]any{"name": "spore:rbd-provisioner", "namespace": "kube-system"},
			"rules": provisionerLeaseRules(),
		}},
		applied{object: Object{
			"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "spore:rbd-provisioner", "namespace": "kube-system"},
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "Role", "name": "spore:rbd-provisioner"},
			"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "Group", "name": provisionersGroup}},
		}},
	)
	for i, pool := range ceph.Of(c.Services).KubernetesPools() {
		out = append(out, applied{object: volumeClass(pool, i == 0), theirs: true})
	}
	for i, name := range ceph.Of(c.Services).KubernetesFilesystems() {
		out = append(out, applied{object: sharedClass(name, i == 0), theirs: true})
	}
	return out
}

// csiDriver tells kubelet that a volume needs no attachment object: the exclusive lock of an image is what keeps a second node
// from it, and a file system of Ceph is for many. The group of a pod is set on what it mounts.
func csiDriver(name string) Object {
	return Object{
		"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"attachRequired": false, "podInfoOnMount": false, "fsGroupPolicy": "File", "volumeLifecycleModes": []string{"Persistent"},
			"storageCapacity": false, "seLinuxMount": false, "requiresRepublish": false,
		},
	}
}

// volumeClass makes volumes in a pool. The first pool's is ceph-rbd and the default, others have the pool's name behind it.
// Volumes are made when a pod wants them, and go with their claims.
func volumeClass(pool string, first bool) Object {
	metadata := map[string]any{"name": "ceph-rbd-" + pool}
	if first {
		metadata = map[string]any{"name": "ceph-rbd", "annotations": map[string]any{defaultClass: "true"}}
	}
	return Object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata,
		"provisioner": volumeDriver, "parameters": map[string]any{"pool": pool}, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
	}
}

// sharedClass makes volumes in a file system, which any number of nodes mount. The first one's is cephfs, others have the file
// system's name behind it; none is the default.
func sharedClass(filesystem string, first bool) Object {
	name := "cephfs"
	if !first {
		name += "-" + filesystem
	}
	return Object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": name},
		"provisioner": sharedDriver, "parameters": map[string]any{"filesystem": filesystem}, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
	}
}

// provisionerRules are upstream's (external-provisioner v5.3, deploy/kubernetes/rbac.yaml) for a driver without snapshots,
// topology and attachments.
func provisionerRules() []any {
	return []any{
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "patch", "delete"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "update"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch"),
		// The node that the scheduler has chosen for a pod, without which the claim is not served.
		rule("", []string{"nodes"}, "get"),
		rule("", []string{"events"}, "list", "watch", "create", "update", "patch"),
	}
}

// provisionerLeaseRules are for the lease by which one of the provisioners works.
func provisionerLeaseRules() []any {
	return []any{rule("coordination.k8s.io", []string{"leases"}, "get", "watch", "list", "update", "create")}
}
