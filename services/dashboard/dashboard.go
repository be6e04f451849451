// Package dashboard is the service dashboard: pages about the whole cluster, which a node serves to people with a
// certificate.
package dashboard

import (
	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "dashboard"

// Role is what a node is that serves the pages.
const Role = "dashboard"

// Program is what the role runs, and Unit its unit.
const (
	Program = "spore-dashboard"
	Unit    = Program + ".service"
)

// The bundle entries of what a browser sees of the node, and of what the node asks others with: it may look, and change
// nothing.
const (
	ServerCertificate = "dashboard-server-certificate"
	ServerKey         = "dashboard-server-key"
	ReaderCertificate = "dashboard-reader-certificate"
	ReaderKey         = "dashboard-reader-key"
)

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Port:     func(s spec.Services, _ string) int { return Of(s).ListenPort() },
		Roles:    []service.Role{{Name: Role, Target: "dashboard.target", Programs: []string{Program}}},
		Programs: []service.Program{{
			Name: Program, Unit: Unit, Own: []string{Program}, User: Program, NeedsSecrets: true,
			Secrets: []string{ServerCertificate, ServerKey, ReaderCertificate, ReaderKey},
			Ports:   []service.Port{service.TCP(DefaultPort, "dashboard: pages, by certificate").Set(Name + ".port")},
		}},
		Leaves: []service.LeafRow{
			// It is no node's: whoever has it cannot answer as the API of a node.
			{Name: "dashboard-server", Authority: "agent", With: Name, Roles: []string{Role}, CommonName: "dashboard of {node}",
				SANs: service.HostNames, Usage: service.Server, Certificate: ServerCertificate, Key: ServerKey},
			{Name: "dashboard-reader", Authority: "agent", With: Name, Roles: []string{Role}, CommonName: "dashboard of {node}",
				Organization: []string{"spore:reader"}, Usage: service.Client, Certificate: ReaderCertificate, Key: ReaderKey},
		},
		// It reads its certificates, and the authority of the nodes, for each connection.
		Renewal: []service.Renewal{{
			Program: Program, Leaves: service.Reads, Trust: map[string]service.Way{"agent.crt": service.Reads},
		}},
		Data: data,
		Live: []service.Live{
			{Path: "services." + Name + ".", Units: []string{Unit}},
			// Which nodes there are, and what they are.
			{Path: "hosts", Units: []string{Unit}},
			{Path: "members.", Units: []string{Unit}},
		},
		Memory: map[string]service.Memory{Role: memory},
	}
}

// memory is what the program takes, and room for questions: it keeps what each node has said last.
func memory(c *facts.Cluster, _ *facts.Node) int { return 96 + c.Nodes/4 }

// checkSettings checks dashboard.yaml.
func checkSettings(k *check.Checker, file check.File) {
	if s := Of(k.Services); s.Port != 0 {
		k.Between(check.In(file, "port"), "the port", s.Port, 1024, 65535)
	}
}
