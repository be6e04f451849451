package kafka

import "spore/cluster/facts"

// maxReplication is the number of copies that is the default where there are as many brokers.
const maxReplication = 3

// Replication returns the number of copies of a topic, and how many of them an acknowledged record has, unless the topic
// says otherwise.
func Replication(c *facts.Cluster) (factor, inSync int) {
	if k := Of(c.Services); k != nil {
		factor, inSync = k.ReplicationFactor, k.MinInsyncReplicas
	}
	if factor == 0 {
		factor = copies(c)
	}
	if inSync == 0 {
		inSync = max(1, factor-1)
	}
	return factor, inSync
}

// OwnReplication is Replication for the topics that Kafka makes for itself: offsets of groups, transactions.
func OwnReplication(c *facts.Cluster) (factor, inSync int) {
	factor = copies(c)
	return factor, max(1, factor-1)
}

// copies is as many copies as make sense on these brokers.
func copies(c *facts.Cluster) int { return max(1, min(maxReplication, len(Brokers(c)))) }
