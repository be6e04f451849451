package kubernetes

import "spore/cluster/facts"

const (
	// volumeDriver is the name of the driver in payloads/spore-rbd.
	volumeDriver = "rbd.csi.spore"
	// defaultClass says, at a StorageClass, that it is for claims that name none.
	defaultClass = "storageclass.kubernetes.io/is-default-class"
	// provisionersGroup is that of the provisioners of all masters (package pki).
	provisionersGroup = "spore:rbd-provisioners"
)

// provisions tells whether the cluster's own Ceph gives pods their volumes.
func provisions(c *facts.Cluster) bool {
	return c.Enabled("ceph") && len(c.Services.Ceph.KubernetesPools()) > 0
}

// volumeObjects are what claims for volumes on Ceph need: the driver as kubelets see it, a class for each pool, and the roles
// of the provisioner.
func volumeObjects(c *facts.Cluster) []applied {
	out := []applied{
		{object: csiDriver()},
		{object: role("spore:rbd-provisioner", provisionerRules())},
		{object: binding("spore:rbd-provisioner", "spore:rbd-provisioner", "Group", provisionersGroup)},
		{object: Object{
			"apiVersion": rbac + "/v1", "kind": "Role", "metadata": map[string]any{"name": "spore:rbd-provisioner", "namespace": "kube-system"},
			"rules": provisionerLeaseRules(),
		}},
		{object: Object{
			"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "spore:rbd-provisioner", "namespace": "kube-system"},
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "Role", "name": "spore:rbd-provisioner"},
			"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "Group", "name": provisionersGroup}},
		}},
	}
	for i, pool := range c.Services.Ceph.KubernetesPools() {
		out = append(out, applied{object: volumeClass(pool, i == 0), theirs: true})
	}
	return out
}

// csiDriver tells kubelet that a volume needs no attachment object: the exclusive lock of the image is what keeps a second
// node from it. The group of a pod is set on what it mounts.
func csiDriver() Object {
	return Object{
		"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": map[string]any{"name": volumeDriver},
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
