// Package dns is the service dns: the DNS server of the cluster's domain, CoreDNS.
package dns

import (
	"strconv"
	"strings"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/service"
)

// Name is the service in cluster.yaml.
const Name = "dns"

// role is what a server of the service is.
const role = "dns-server"

// unit is what the role runs.
const unit = "coredns.service"

// Port is where the servers answer, and PortMetrics where each tells its metrics.
const (
	Port        = 53
	PortMetrics = 9153
)

// Service is the row of the list of services.
func Service() service.Service {
	return service.Service{
		Name:     Name,
		Settings: func() spec.Settings { return new(Settings) },
		Check:    checkSettings,
		Roles: []service.Role{
			{Name: role, Target: "dns.target", Programs: []string{"coredns"}},
		},
		Programs: []service.Program{
			{Name: "coredns", Unit: unit, Payloads: []string{"coredns"}, User: "coredns",
				Ports: []service.Port{
					service.UDP(Port, "DNS").On(service.Node), service.TCP(Port, "DNS").On(service.Node),
					service.TCP(PortMetrics, "metrics").On(service.Loopback),
				}},
		},
		Words: map[string]service.Word{"{aliases}": Aliases},
		Data:  data,
		Live: []service.Live{
			{Path: "services." + Name + ".", Units: []string{unit}},
			{Path: "hosts", Units: []string{unit}},
			{Path: "network.nameservers", Units: []string{unit}},
		},
		Memory:      map[string]service.Memory{role: service.MiB(128)},
		Environment: map[string]service.Variables{"coredns": variables},
	}
}

func variables(c *facts.Cluster, _ *facts.Node, _ uint64) map[string]string {
	return map[string]string{
		"DNS_DOMAIN":     c.Domain,
		"DNS_FORWARDERS": strings.Join(Forwarders(c), " "),
		"DNS_TTL":        strconv.Itoa(Of(c.Services).RecordTTL()),
	}
}
