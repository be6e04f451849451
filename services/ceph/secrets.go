package ceph

import (
	"slices"

	"spore/services/ceph/cephx"
	"spore/services/service"
)

// kubernetesNodes are the roles of the nodes that make and mount volumes.
var kubernetesNodes = []string{"control-plane", "worker"}

// seeds is who has what the keys of many nodes are made of: monitors, and the operator, who makes the nodes' bundles.
var seeds = []string{service.OperatorOnly, roleMon}

var secrets = []service.SecretRow{
	{Name: "ceph-fsid", Roles: slices.Concat([]string{roleOSD, roleMon}, kubernetesNodes), Form: service.FormUUID},
	{Name: "ceph-mon-key", Roles: []string{roleMon}, Form: service.FormCephx},                        // mon.
	{Name: "ceph-admin-key", Roles: []string{roleMon}, Form: service.FormCephx},                      // client.admin
	{Name: "ceph-mgr-key", Roles: []string{roleMon}, Each: service.OneNode, Form: service.FormCephx}, // mgr.NAME
	{Name: "ceph-mds-key", Roles: []string{roleMon}, Each: service.OneNode, Form: service.FormCephx}, // mds.NAME
	// Monitors make of it the key of each node with OSDs, client.bootstrap-osd.NODE.
	{Name: "ceph-osd-seed", Roles: seeds, Form: service.FormCephx},
	{Name: "ceph-osd-key", Roles: []string{roleOSD}, Each: service.OneNode, Form: service.FormCephx, From: "ceph-osd-seed", Entity: cephx.OSD},
	// Opens encrypted disks. One for all nodes, so that a disk can go to another one.
	{Name: "ceph-osd-encryption-key", Roles: []string{roleOSD}, Form: service.FormKey},
	// And the key of each node of Kubernetes, client.kubernetes-rbd.NODE, as which pods' volumes are made and mapped.
	{Name: "ceph-rbd-seed", Roles: seeds, Form: service.FormCephx},
	{Name: "ceph-kubernetes-rbd-key", Roles: kubernetesNodes, Each: service.OneNode, Form: service.FormCephx, From: "ceph-rbd-seed", Entity: cephx.RBD},
	// The same for pods' shared volumes, client.kubernetes-cephfs.NODE. These and ceph-mds-key are there before a file
	// system is, so that one more in ceph.yaml holds no monitor back until new bundles have come.
	{Name: "ceph-cephfs-seed", Roles: seeds, Form: service.FormCephx},
	{Name: "ceph-kubernetes-cephfs-node-key", Roles: kubernetesNodes, Each: service.OneNode, Form: service.FormCephx, From: "ceph-cephfs-seed", Entity: cephx.CephFS},
	// client.kubernetes-cephfs, a Kubernetes elsewhere. Made of no seed, because that Kubernetes keeps the key it was given.
	{Name: "ceph-kubernetes-cephfs-key", Roles: []string{roleMon}, Form: service.FormCephx},
}
