package facts

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Roles of Kafka.
const (
	KafkaBroker     = "kafka-broker"
	KafkaController = "kafka-controller"
)

// maxKafkaReplication is the number of copies that is the default where there are as many brokers.
const maxKafkaReplication = 3

// Bounds of a heap that comes from the machine's memory, in MiB. Kafka works best when most of the memory is the page cache.
const (
	kafkaLeastHeap = 256
	kafkaMostHeap  = 6 << 10
)

// KafkaID is a node's node.id in Kafka, 1 to 2^31-1. It comes from the node's name alone, so that it stays what it is whoever
// joins or leaves.
func KafkaID(node string) int32 {
	sum := sha256.Sum256([]byte("spore kafka node " + node))
	return int32(1 + binary.BigEndian.Uint32(sum[:4])%(1<<31-1))
}

// KafkaBrokers returns the names of the brokers, sorted.
func (c *Cluster) KafkaBrokers() []string { return c.Members[KafkaBroker] }

// KafkaControllers returns the names of the controllers, sorted: the nodes with that role, else every broker.
func (c *Cluster) KafkaControllers() []string {
	if named := c.Members[KafkaController]; len(named) > 0 {
		return named
	}
	return c.KafkaBrokers()
}

// KafkaNodes returns the names of all nodes that Kafka runs on, sorted.
func (c *Cluster) KafkaNodes() []string {
	all := slices.Concat(c.KafkaBrokers(), c.KafkaControllers())
	slices.Sort(all)
	return slices.Compact(all)
}

// KafkaReplication returns the number of copies of a topic, and how many of them an acknowledged record has, unless the topic
// says otherwise.
func (c *Cluster) KafkaReplication() (factor, inSync int) {
	if k := c.Services.Kafka(); k != nil {
		factor, inSync = k.ReplicationFactor, k.MinInsyncReplicas
	}
	if factor == 0 {
		factor = c.kafkaCopies()
	}
	if inSync == 0 {
		inSync = max(1, factor-1)
	}
	return factor, inSync
}

// KafkaOwnReplication is KafkaReplication for the topics that Kafka makes for itself: offsets of groups, transactions.
func (c *Cluster) KafkaOwnReplication() (factor, inSync int) {
	factor = c.kafkaCopies()
	return factor, max(1, factor-1)
}

// kafkaCopies is as many copies as make sense on these brokers.
func (c *Cluster) kafkaCopies() int { return max(1, min(maxKafkaReplication, len(c.KafkaBrokers()))) }

// KafkaHeap is the size of the heap in MiB: as kafka.yaml says, else a quarter of the machine's memory, which is in bytes. It is
// 0 where neither is known.
func (c *Cluster) KafkaHeap(memory uint64) int {
	if k := c.Services.Kafka(); k != nil && k.Heap != 0 {
		return k.Heap
	}
	if memory == 0 {
		return 0
	}
	return min(max(int(memory>>20)/4, kafkaLeastHeap), kafkaMostHeap)
}
