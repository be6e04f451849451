package kubernetes

import (
	"spore/cluster/facts"
	"spore/services/service"
)

// EtcdQuorum is the database of the masters.
func EtcdQuorum() service.Quorum {
	return service.Quorum{Name: "etcd", Unit: "etcd.service", Data: "/var/lib/etcd/member",
		Initial: func(c *facts.Cluster) []string { return c.Members[master] }}
}
