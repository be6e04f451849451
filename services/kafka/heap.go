package kafka

import (
	"fmt"
	"strings"

	"spore/cluster/facts"
)

// Bounds of a heap that comes from the machine's memory, in MiB. Kafka works best when most of the memory is the page cache.
const (
	leastGivenHeap = 256
	mostGivenHeap  = 6 << 10
)

// Heap is the size of the heap in MiB: as kafka.yaml says, else a quarter of the machine's memory, which is in bytes. It is
// 0 where neither is known.
func Heap(c *facts.Cluster, memory uint64) int {
	if k := Of(c.Services); k != nil && k.Heap != 0 {
		return k.Heap
	}
	if memory == 0 {
		return 0
	}
	return min(max(int(memory>>20)/4, leastGivenHeap), mostGivenHeap)
}

// variables are called as upstream's scripts have them.
func variables(c *facts.Cluster, _ *facts.Node, memory uint64) map[string]string {
	heap := Heap(c, memory)
	if heap == 0 {
		return nil
	}
	return map[string]string{
		"KAFKA_HEAP_OPTS":            fmt.Sprintf("-Xmx%dm", heap),
		"KAFKA_JVM_PERFORMANCE_OPTS": strings.Join(collector(heap), " "),
	}
}

// parallelHeap is the heap, in MiB, from which several threads collect it and both compilers work; below, they cost more
// memory and start than they save.
const parallelHeap = 1 << 10

// collector are the options of the JVM that go with a heap.
func collector(heap int) []string {
	if heap >= parallelHeap { // as Kafka's own scripts have it
		return []string{"-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"}
	}
	// The first compiler alone starts in half the time; the second one is for brokers with much to do.
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}
