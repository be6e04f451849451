// Package ceph is the service ceph: Ceph: monitors, managers, OSDs, and metadata servers of CephFS.
package ceph

import (
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "ceph"

// The range of Ceph is its own default (ms_bind_port_min, ms_bind_port_max).
const firstPort, lastPort = 6800, 7568

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(spec.Ceph) },
		Roles: []service.Role{
			{Name: "ceph-mon", Target: "ceph-mon.target", Programs: []string{"ceph-mon", "ceph-bootstrap", "ceph-mgr", "ceph-mds"}},
			{Name: "ceph-osd", Target: "ceph-osd.target", Programs: []string{"ceph-disks", "ceph-osd"}},
		},
		Programs: []service.Program{
			{Name: "ceph-mon", Unit: "ceph-mon.service", Packages: []string{"ceph-mon", "ceph-base"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{service.TCP(service.PortCephMon, "monitors of Ceph").On(service.Node)},
				Secrets: []string{"ceph-fsid", "ceph-mon-key", "ceph-admin-key", "ceph-mgr-key"}},
			// Part of spore-agent.
			{Name: "ceph-bootstrap", Unit: "ceph-bootstrap.service", Packages: []string{"ceph-common"}, User: "ceph", NeedsSecrets: true,
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
			{Name: "ceph-mds", Unit: "ceph-mds.service", With: spec.PartCephFS, Packages: []string{"ceph-mds"}, User: "ceph", NeedsSecrets: true,
				Ports:   []service.Port{ports("metadata servers of Ceph")},
				Secrets: []string{"ceph-fsid", "ceph-mds-key"}},
		},
		Parts: []service.Part{
			{Name: spec.PartCephFS, On: func(c *facts.Cluster) bool {
				return c.Services.Ceph() != nil && len(c.Services.Ceph().Filesystems) > 0
			}},
			{Name: spec.PartCephFSVolumes, On: func(c *facts.Cluster) bool {
				return kubernetes.Of(c.Services) != nil && len(c.Services.Ceph().KubernetesFilesystems()) > 0
			}},
		},
	}
}

// ports are those of everything in Ceph but monitors.
func ports(what string) service.Port {
	return service.TCP(firstPort, what).To(lastPort).On(service.Node)
}
