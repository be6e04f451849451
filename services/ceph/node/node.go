// Package node is what nodes link of the service ceph: how the configuration of its programs is rendered, and that of the
// programs of Kubernetes that make and mount volumes on it; and what the users of a storage cluster may do.
package node

import "spore/services/rendering"

// Renderings are the service's own, by program.
var Renderings = map[string]rendering.Func{
	"ceph-bootstrap":     cephBootstrap,
	"ceph-mds":           cephMDS,
	"ceph-mgr":           cephMgr,
	"ceph-mon":           cephMon,
	"ceph-osd":           cephOSD,
	"cephfs-controller":  cephfsController,
	"cephfs-node":        cephfsNode,
	"cephfs-provisioner": cephfsProvisioner,
	"rbd-controller":     rbdController,
	"rbd-node":           rbdNode,
	"rbd-provisioner":    rbdProvisioner,
}
