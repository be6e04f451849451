// Package logs is the service logs: every node sends what it logs to one or two stores, which keep it in VictoriaLogs,
// answer questions, and give it on to a plant's own servers.
package logs

import (
	"slices"
	"strconv"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
	"spore/services/storedisk"
)

// Name is the service in cluster.yaml.
const Name = "logs"

// Use is the use of a disk that a store has its data on, as node files write it: entries, and what is queued of them.
const Use = "logs"

// Role is what a node with a store is. Every node sends to each store, so that each has everything.
const Role = "logs-store"

// What the role runs: what keeps entries and answers, and what takes them from nodes.
const (
	Program, Unit    = "victoria-logs", "victoria-logs.service"
	Taker, TakerUnit = "spore-logs-store", "spore-logs-store.service"
	TakerFile        = "/run/spore-logs-store/store.json"
)

// TakerMetrics is where the program that takes logs tells its counts, in the text format of Prometheus.
const TakerMetrics = "/run/spore-logs-store/metrics.prom"

// ClockAhead is the metric of that program that says by how many seconds the clock of a node is ahead of its own.
const ClockAhead = "spore_logs_store_clock_ahead_seconds"

// TakerSocket is where the node's API hands over what nodes send.
const TakerSocket = "/run/spore-logs-store/socket"

// Port is where VictoriaLogs answers, on the node itself: the free server checks no client certificates. People reach
// it through the node's API.
const Port = 9428

// User is the name that VictoriaLogs wants of who asks it, with the password of the entry PasswordEntry.
const User = "spore"

// PasswordEntry is the bundle entry of the password: of the programs of a node, only those that are given it may ask
// VictoriaLogs, or write into it.
const PasswordEntry = "logs-store-password"

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Nodes:    checkNodes,
		Choices: map[string][]string{
			"Receiver.sources": Sources, "Receiver.priority": Priorities, "Syslog.transport": transports,
		},
		Roles: []service.Role{
			{Name: Role, Aliases: []string{"logs"}, Target: "logs.target", Programs: []string{storedisk.Program(Use), Program, Taker}},
		},
		Disks:     map[string]string{Use: Role},
		Programs:  append(programs, senderPrograms...),
		EveryNode: senders,
		Leaves:    senderLeaves,
		Renewal:   senderRenewal,
		Secrets: []service.SecretRow{
			{Name: PasswordEntry, Roles: []string{Role}, Each: service.OneNode, Form: service.FormPassword},
			{Name: "logs-secret", Roles: []string{Role}, Each: service.OneUser, Entry: "{user-secret}",
				Form: service.FormGiven, Given: true},
		},
		UserSecrets: secrets,
		Data:        data,
		Live: []service.Live{
			{Path: "services." + Name + ".give", Units: []string{TakerUnit}},
			{Path: "services." + Name + ".queue", Units: []string{TakerUnit}},
			{Path: "services." + Name + ".days", Units: []string{Unit, TakerUnit}},
			{Path: "services." + Name + ".", Units: []string{Unit}},
			// Whether a master has an audit log.
			{Path: "services.kubernetes.audit", Units: []string{SenderUnit}},
			// Which nodes there are, and what they are.
			{Path: "hosts", Units: []string{TakerUnit, SenderUnit}},
			{Path: "members.", Units: []string{TakerUnit, SenderUnit}},
		},
		Memory:      map[string]service.Memory{Role: memory},
		Environment: map[string]service.Variables{Program: variables},
	}
}

// programs are those of the role.
var programs = []service.Program{
	// Part of spore-agent.
	{Name: storedisk.Program(Use), Unit: storedisk.Unit(Use), User: "root"},
	{
		Name: Program, Unit: Unit, Payloads: []string{Program}, User: Program, Secrets: []string{PasswordEntry},
		Ports: []service.Port{service.TCP(Port, "logs: LogsQL, for this node").On(service.Loopback)},
	},
	{
		Name: Taker, Unit: TakerUnit, Own: []string{Taker}, User: Taker, NeedsSecrets: true,
		Secrets: []string{PasswordEntry},
	},
}

// memory is what the two programs take, and room for questions.
func memory(c *facts.Cluster, _ *facts.Node) int { return 384 + c.Nodes/2 }

func variables(c *facts.Cluster, n *facts.Node, _ uint64) map[string]string {
	s := Of(c.Services)
	size := strconv.FormatUint(s.Bytes(), 10)
	if s.Bytes() == 0 && storedisk.Named(n.Disks, Use) {
		size = storedisk.Share
	}
	return map[string]string{
		"VICTORIA_LOGS_DAYS": strconv.Itoa(s.KeptDays()), "VICTORIA_LOGS_SIZE": size,
		"VICTORIA_LOGS_DATA": storedisk.Data(n.Disks, Use, Program),
	}
}

// Stores tells whether a node is to have a store.
func Stores(c *facts.Cluster, node string) bool {
	return Of(c.Services) != nil && slices.Contains(c.Members[Role], node)
}

// Gives tells whether a node's store gives entries on: of two stores the one whose name sorts first, so that receivers
// get everything once.
func Gives(c *facts.Cluster, node string) bool {
	return Stores(c, node) && c.Members[Role][0] == node
}
