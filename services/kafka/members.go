package kafka

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"spore/cluster/facts"
	"spore/services/service"
)

// ID is a node's node.id in Kafka, 1 to 2^31-1. It comes from the node's name alone, so that it stays what it is whoever
// joins or leaves.
func ID(node string) int32 {
	sum := sha256.Sum256([]byte("spore kafka node " + node))
	return int32(1 + binary.BigEndian.Uint32(sum[:4])%(1<<31-1))
}

// Brokers returns the names of the brokers, sorted.
func Brokers(c *facts.Cluster) []string { return c.Members[Broker] }

// Controllers returns the names of the controllers, sorted: the nodes with that role, else every broker.
func Controllers(c *facts.Cluster) []string {
	if named := c.Members[Controller]; len(named) > 0 {
		return named
	}
	return Brokers(c)
}

// Nodes returns the names of all nodes that Kafka runs on, sorted.
func Nodes(c *facts.Cluster) []string {
	all := slices.Concat(Brokers(c), Controllers(c))
	slices.Sort(all)
	return slices.Compact(all)
}

// Quorum is the controllers.
func Quorum() service.Quorum {
	return service.Quorum{Name: Name, Unit: "kafka.service", Data: Metadata, Initial: Controllers}
}
