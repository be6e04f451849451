package ceph

import (
	"spore/cluster/facts"
	"spore/services/service"
)

// MonQuorum is the monitors.
func MonQuorum() service.Quorum {
	return service.Quorum{Name: "ceph-mon", Unit: "ceph-mon.service", Data: "/var/lib/ceph/mon/ceph-NODE",
		Initial: func(c *facts.Cluster) []string { return c.Members[roleMon] }}
}
