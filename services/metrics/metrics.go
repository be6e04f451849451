// Package metrics is the service metrics: a store of the nodes' metrics, VictoriaMetrics, which scrapes every node's
// API and answers PromQL.
package metrics

import (
	"slices"
	"strconv"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
	"spore/services/storedisk"
)

// Name is the service in cluster.yaml.
const Name = "metrics"

// Use is the use of a disk that a store has its data on, as node files write it.
const Use = "metrics"

// Role is what a node with a store is. Each store scrapes every node, so that each has everything.
const Role = "metrics-store"

// Program is what the role runs, and Unit its unit.
const (
	Program = "victoria-metrics"
	Unit    = Program + ".service"
)

// Port is where the store answers, on the node itself: the free server checks no client certificates. People reach it
// through the node's API.
const Port = 8428

// User is the name that the store wants of who asks it, with the password of the entry PasswordEntry.
const User = "spore"

// PasswordEntry is the bundle entry of the password: of the programs of a node, only those that are given it may ask
// the store, or write into it.
const PasswordEntry = "metrics-store-password"

// ScraperCertificate and ScraperKey are the bundle entries by which a store asks nodes.
const (
	ScraperCertificate = "metrics-scraper-certificate"
	ScraperKey         = "metrics-scraper-key"
)

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Nodes:    checkAlertsNodes,
		Choices: map[string][]string{
			"Job.scheme": schemes, "Receiver.severities": Severities, "Syslog.transport": transports,
		},
		Roles: []service.Role{
			{Name: Role, Target: "metrics.target", Programs: []string{storedisk.Program(Use), Program}},
			{Name: AlertsRole, Target: "alerts.target", Programs: []string{Evaluator, Manager, Bridge}},
		},
		Disks: map[string]string{Use: Role},
		// The first is a part of spore-agent.
		Programs: append([]service.Program{{Name: storedisk.Program(Use), Unit: storedisk.Unit(Use), User: "root"}, {
			Name: Program, Unit: Unit, Payloads: []string{Program}, User: Program,
			Secrets: []string{PasswordEntry, ScraperCertificate, ScraperKey},
			Ports:   []service.Port{service.TCP(Port, "metrics: PromQL, for this node's API").On(service.Loopback)},
		}}, alertsPrograms...),
		Authorities: []service.AuthorityRow{
			{Name: PeersAuthority, Kind: service.CA, Title: "Spore alerts CA", Users: []string{AlertsRole}, Usage: service.Server | service.Client},
		},
		Leaves: []service.LeafRow{
			// It may ask nodes for their metrics, and for nothing else.
			{Name: "metrics-scraper", Authority: "agent", Roles: []string{Role}, CommonName: "metrics of {node}",
				Organization: []string{"spore:scraper"}, Usage: service.Client, Certificate: ScraperCertificate, Key: ScraperKey},
			{Name: "alerts-peer", Authority: PeersAuthority, Roles: []string{AlertsRole}, CommonName: "{node}",
				SANs: service.HostNames, Usage: service.Server | service.Client, Certificate: PeersCertificate, Key: PeersKey},
		},
		Secrets: append([]service.SecretRow{
			{Name: PasswordEntry, Roles: []string{Role, AlertsRole}, Each: service.OneNode, Form: service.FormPassword},
		}, alertsSecretRows...),
		UserSecrets: alertsSecrets,
		Debian:      debian,
		// It reads its client certificate again for a connection, and the authority of the nodes when it starts.
		Renewal: []service.Renewal{{
			Program: Program, Leaves: service.Reads, Trust: map[string]service.Way{"agent.crt": service.Restarts},
		}},
		Data: data,
		Live: []service.Live{
			{Path: "services." + Name + ".alerts", Units: []string{EvaluatorUnit, ManagerUnit, BridgeUnit}},
			{Path: "services." + Name + ".", Units: []string{Unit}},
			// Which nodes there are.
			{Path: "hosts", Units: []string{Unit, ManagerUnit}},
			{Path: "members.", Units: []string{Unit, ManagerUnit}},
		},
		Memory:      map[string]service.Memory{Role: memory, AlertsRole: service.MiB(192)},
		Environment: map[string]service.Variables{Program: variables, Evaluator: alertsVariables},
	}
}

// memory is what the store takes: 85 MiB with nothing in it, and some 4 MiB a node of 1,000 series.
func memory(c *facts.Cluster, _ *facts.Node) int { return 256 + 4*c.Nodes }

func variables(c *facts.Cluster, n *facts.Node, _ uint64) map[string]string {
	s := Of(c.Services)
	size := strconv.FormatUint(s.Bytes(), 10)
	if s.Bytes() == 0 && storedisk.Named(n.Disks, Use) {
		size = storedisk.Share
	}
	return map[string]string{
		"VICTORIA_METRICS_RETENTION": s.Kept(), "VICTORIA_METRICS_SIZE": size, "VICTORIA_METRICS_DATA": storedisk.Data(n.Disks, Use, Program),
	}
}

// Stores tells whether a node is to have a store.
func Stores(c *facts.Cluster, node string) bool {
	return Of(c.Services) != nil && slices.Contains(c.Members[Role], node)
}
