// Package ceph is the service ceph: Ceph: monitors, managers, OSDs, and metadata servers of CephFS.
package ceph

import (
	"slices"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "ceph"

// What a node is for a storage cluster.
const (
	roleMon = "ceph-mon"
	roleOSD = "ceph-osd"
)

// PortMon is where monitors answer, by version 2 of the messenger (IANA: ceph).
const PortMon = 3300

// bootstrap gives the storage cluster its keys, those of each node of Kubernetes too.
const bootstrap = "ceph-bootstrap.service"

// The range of Ceph is its own default (ms_bind_port_min, ms_bind_port_max).
const firstPort, lastPort = 6800, 7568

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Members:  checkMembers,
		Nodes:    checkNodes,
		Disks:    map[string]string{"osd": roleOSD},
		Choices:  map[string][]string{"Pool.application": poolApplications, "Settings.failureDomain": failureDomains},
		Roles: []service.Role{
			{Name: roleMon, Target: "ceph-mon.target", Programs: []string{"ceph-mon", "ceph-bootstrap", "ceph-mgr", "ceph-mds"}},
			{Name: roleOSD, Target: "ceph-osd.target", Programs: []string{"ceph-disks", "ceph-osd"}},
		},
		Programs: slices.Concat([]service.Program{
			{Name: "ceph-mon", Unit: "ceph-mon.service", Packages: []string{"ceph-mon", "ceph-base"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{service.TCP(PortMon, "monitors of Ceph").On(service.Node)},
				Secrets: []string{"ceph-fsid", "ceph-mon-key", "ceph-admin-key", "ceph-mgr-key"}},
			// Part of spore-agent.
			{Name: "ceph-bootstrap", Unit: bootstrap, Packages: []string{"ceph-common"}, User: "ceph", NeedsSecrets: true,
				Secrets: []string{"ceph-fsid", "ceph-mon-key", "ceph-admin-key", "ceph-mgr-key", "ceph-osd-seed", "ceph-rbd-seed", "ceph-mds-key", "ceph-cephfs-seed", "ceph-kubernetes-cephfs-key"}},
			// Part of spore-agent; cryptsetup opens encrypted disks.
			{Name: "ceph-disks", Unit: "ceph-disks.service", Packages: []string{"cryptsetup-bin"}, User: "root", Secrets: []string{"ceph-osd-encryption-key"}},
			{Name: "ceph-osd", Unit: "ceph-osd-disk@.service", Packages: []string{"ceph-osd", "ceph-common"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{ports("OSDs of Ceph")},
				Secrets: []string{"ceph-fsid", "ceph-osd-key"}},
			{Name: "ceph-mgr", Unit: "ceph-mgr.service", Packages: []string{"ceph-mgr", "ceph-mgr-modules-core"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{ports("managers of Ceph")},
				Secrets: []string{"ceph-fsid", "ceph-mgr-key"}},
			// A metadata server of CephFS beside each monitor.
			{Name: "ceph-mds", Unit: "ceph-mds.service", With: PartCephFS, Packages: []string{"ceph-mds"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{ports("metadata servers of Ceph")},
				Secrets: []string{"ceph-fsid", "ceph-mds-key"}},
		}, volumes),
		Secrets: secrets,
		Quorums: []service.Quorum{MonQuorum()},
		Renewal: renewal,
		Data:    data,
		Live: []service.Live{
			{Path: "members." + roleMon, Why: "monitors form a quorum"},
			{Path: "members." + roleOSD, Why: "monitors form a quorum"},
			{Path: "services." + Name, Why: "monitors form a quorum"},
			// Monitors give each node of Kubernetes its key of Ceph.
			{Path: "members.control-plane", Units: []string{bootstrap}},
			{Path: "members.worker", Units: []string{bootstrap}},
		},
		Memory: map[string]service.Memory{roleOSD: osdMemory},
		Debian: debian,
		Parts: []service.Part{
			{Name: PartCephFS, On: func(c *facts.Cluster) bool {
				return Of(c.Services) != nil && len(Of(c.Services).Filesystems) > 0
			}},
			{Name: PartCephFSVolumes, On: func(c *facts.Cluster) bool {
				return kubernetes.Of(c.Services) != nil && len(Of(c.Services).KubernetesFilesystems()) > 0
			}},
		},
	}
}

// ports are those of everything in Ceph but monitors.
func ports(what string) service.Port {
	return service.TCP(firstPort, what).To(lastPort).On(service.Node)
}

// osdMemory is what the OSDs of a node are told to stay within, and room.
func osdMemory(c *facts.Cluster, n *facts.Node) int {
	osd := 1024
	if s := Of(c.Services); s != nil {
		osd = max(osd, s.OSDMemory+128)
	}
	return osd * max(1, len(OSDs(n.Disks)))
}
