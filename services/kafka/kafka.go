// Package kafka is the service kafka: Apache Kafka with KRaft.
package kafka

import (
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "kafka"

// Roles whose program listens at different ports.
const (
	Broker     = "kafka-broker"
	Controller = "kafka-controller"
)

// Ports of the listeners: of clients (SCRAM over TLS), of brokers, and of controllers (both by certificates).
const (
	ClientPort     = 9092
	BrokerPort     = 9093
	ControllerPort = 9094
)

// Disks is where a node mounts the disks for Kafka, by their numbers.
const Disks = "/var/lib/kafka/disks"

// Metadata holds the metadata log, on the state partition whatever the data disks are.
const Metadata = "/var/lib/kafka/metadata"

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Choices:  map[string][]string{"ACL.operations": allOperations()},
		Members:  checkMembers,
		NodeFile: checkRack,
		Disks:    map[string]string{"kafka": Broker},
		Roles: []service.Role{
			{Name: Broker, Target: "kafka.target", Programs: []string{"kafka-disks", "kafka", "kafka-bootstrap"}},
			{Name: Controller, StandIn: Broker, Target: "kafka.target", Programs: []string{"kafka"}},
		},
		Programs: []service.Program{
			// Broker, controller or both, as the node's roles are: clients, brokers, controllers.
			// Part of spore-agent.
			{Name: "kafka-disks", Unit: "kafka-disks.service", User: "root"},
			{Name: "kafka", Unit: "kafka.service", Packages: []string{"openjdk-21-jre-headless"}, Payloads: []string{"kafka"}, User: "kafka",
				Ports: []service.Port{
					service.TCP(ClientPort, "clients of Kafka").Only(Broker),
					service.TCP(BrokerPort, "brokers of Kafka").On(service.Node).Only(Broker),
					service.TCP(ControllerPort, "controllers of Kafka").On(service.Node).Only(Controller),
				},
				Secrets: append(service.Pairs("kafka-broker"), "kafka-cluster-id")},
			// Part of spore-agent.
			{Name: "kafka-bootstrap", Unit: "kafka-bootstrap.service", User: "spore-kafka", NeedsSecrets: true,
				Secrets: append(service.Pairs("kafka-broker"), "kafka-scram-admin")},
		},
		Authorities: authorities,
		Leaves:      leaves,
		Secrets:     secrets,
		UserSecrets: userSecrets,
		Renewal: []service.Renewal{
			{Program: "kafka", Leaves: service.Restarts, Trust: map[string]service.Way{"kafka.crt": service.Restarts}, Turns: Controller}, // its own key store is made at its start
			{Program: "kafka-bootstrap", Leaves: service.Restarts, Trust: map[string]service.Way{"kafka.crt": service.Restarts}},
		},
		Quorums: []service.Quorum{Quorum()},
		Data:    data,
		Live: []service.Live{
			{Path: "members." + Broker, Why: "controllers form a quorum"},
			{Path: "members." + Controller, Why: "controllers form a quorum"},
			{Path: "services." + Name, Why: "brokers restart one after the other"},
		},
		Memory:      map[string]service.Memory{Broker: service.MiB(1024)},
		Environment: map[string]service.Variables{"kafka": variables},
	}
}
