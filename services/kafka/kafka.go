// Package kafka is the service kafka: Apache Kafka with KRaft.
package kafka

import (
	"fmt"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "kafka"

// Roles whose program listens at different ports.
const (
	broker     = "kafka-broker"
	controller = "kafka-controller"
)

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(spec.Kafka) },
		Members:  checkMembers,
		NodeFile: checkRack,
		Roles: []service.Role{
			{Name: broker, Target: "kafka.target", Programs: []string{"kafka-disks", "kafka", "kafka-bootstrap"}},
			{Name: controller, StandIn: broker, Target: "kafka.target", Programs: []string{"kafka"}},
		},
		Programs: []service.Program{
			// Broker, controller or both, as the node's roles are: clients, brokers, controllers.
			// Part of spore-agent.
			{Name: "kafka-disks", Unit: "kafka-disks.service", User: "root"},
			{Name: "kafka", Unit: "kafka.service", Packages: []string{"openjdk-21-jre-headless"}, Payloads: []string{"kafka"}, User: "kafka",
				Ports: []service.Port{
					service.TCP(service.PortKafkaClient, "clients of Kafka").Only(broker),
					service.TCP(service.PortKafkaBroker, "brokers of Kafka").On(service.Node).Only(broker),
					service.TCP(service.PortKafkaController, "controllers of Kafka").On(service.Node).Only(controller),
				},
				Secrets: append(service.Pairs("kafka-broker"), "kafka-cluster-id")},
			// Part of spore-agent.
			{Name: "kafka-bootstrap", Unit: "kafka-bootstrap.service", User: "spore-kafka", NeedsSecrets: true,
				Secrets: append(service.Pairs("kafka-broker"), "kafka-scram-admin")},
		},
		UserSecrets: userSecrets,
		Environment: map[string]service.Variables{"kafka": variables},
	}
}

// variables are called as upstream's scripts have them.
func variables(c *facts.Cluster, _ *facts.Node, memory uint64) map[string]string {
	heap := c.KafkaHeap(memory)
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

func userSecrets(s spec.Services) []string {
	var out []string
	if k := s.Kafka(); k != nil {
		for _, u := range k.Users {
			out = append(out, u.Password.SecretRef)
		}
	}
	return out
}
