package ceph

import (
	"spore/services/service"
)

// volumes are the programs that nodes of Kubernetes run for volumes on Ceph; its roles name them.
var volumes = []service.Program{
	// Volumes of pods. The controller makes images of Ceph when Kubernetes' provisioner asks for them; the node mounts them.
	{Name: "rbd-controller", Unit: "rbd-controller.service", With: Name, Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "spore-rbd",
		Secrets: []string{"ceph-fsid", "ceph-kubernetes-rbd-key"}},
	{Name: "rbd-provisioner", Unit: "rbd-provisioner.service", With: Name, Payloads: []string{"csi-provisioner"}, User: "spore-rbd",
		Secrets: service.Pairs("rbd-provisioner")},
	{Name: "rbd-node", Unit: "rbd-node.service", With: Name, Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "root",
		Secrets: []string{"ceph-fsid", "ceph-kubernetes-rbd-key"}},

	// Shared volumes of pods: the controller makes and removes subvolumes of CephFS, the node mounts them.
	{Name: "cephfs-controller", Unit: "cephfs-controller.service", With: PartCephFSVolumes, Packages: []string{"ceph-common"}, Payloads: []string{"spore-rbd"}, User: "spore-rbd",
		Secrets: []string{"ceph-fsid", "ceph-kubernetes-cephfs-node-key"}},
	{Name: "cephfs-provisioner", Unit: "cephfs-provisioner.service", With: PartCephFSVolumes, Payloads: []string{"csi-provisioner"}, User: "spore-rbd",
		Secrets: service.Pairs("rbd-provisioner")},
	{Name: "cephfs-node", Unit: "cephfs-node.service", With: PartCephFSVolumes, Payloads: []string{"spore-rbd"}, User: "root",
		Secrets: []string{"ceph-fsid", "ceph-kubernetes-cephfs-node-key"}},
}

// renewal is how they take what is new. The provisioners' client trusts what it read at its start: client-go reads it again
// since 0.36 alone, and not all programs have that one.
var renewal = []service.Renewal{
	{Program: "rbd-provisioner", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Restarts}},
	{Program: "cephfs-provisioner", Leaves: service.Reads, Trust: map[string]service.Way{"kubernetes-server.crt": service.Restarts}},
}
