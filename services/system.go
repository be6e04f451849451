package services

import (
	"spore/cluster/facts"
	"spore/services/service"
)

const (
	portNTP  = 123
	portDHCP = 68
	// The kernel gives these to who asks for any port (net.ipv4.ip_local_port_range).
	firstEphemeral, lastEphemeral = 32768, 60999
)

// everyNode are the programs of every node of every cluster.
func everyNode() []service.Program {
	return []service.Program{
		// Part of spore-agent. Its certificate is also what this node asks others with.
		// spore-metrics measures what it answers with metrics, and spore-screen shows a person before the machine what it
		// answers, each in units of its own.
		{Name: "api", Unit: "spore-api.service", User: "spore-api", Secrets: service.Pairs("agent"),
			Own:   []string{"spore-metrics", "spore-screen"},
			Ports: []service.Port{service.TCP(service.PortAPI, "the node's API")}},
	}
}

// EveryNode names the programs of every node of a cluster, whatever its roles are. They start when the node has their
// secrets.
func EveryNode(c *facts.Cluster) []string {
	return Of(c).EveryNodeWith(func(s service.Service) bool { return c != nil && on(c, s) })
}

// EveryNodeWith names the programs of every node where these services are enabled.
func (l *List) EveryNodeWith(enabled func(service.Service) bool) []string {
	var out []string
	for _, p := range everyNode() {
		out = append(out, p.Name)
	}
	for _, s := range l.all {
		if len(s.EveryNode) > 0 && enabled(s) {
			out = append(out, s.EveryNode...)
		}
	}
	return out
}

// Programs of System that not every node has sockets of.
const (
	// TimeServer is of the few nodes that are asked for the time.
	TimeServer = "time"
	// DHCPClient listens while it has a lease.
	DHCPClient = "networkd"
)

// System lists what every image runs besides, as far as it has ports. Its units are systemd's own, but for the time
// server.
func System() []service.Program {
	return []service.Program{
		{Name: TimeServer, Unit: "spore-time.service", User: "spore-time",
			Ports: []service.Port{service.UDP(portNTP, "the time, for other nodes").On(service.Node)}},
		{Name: "timesyncd", Unit: "systemd-timesyncd.service", User: "systemd-timesync",
			// It binds the socket by which it asks, and does not connect it.
			Ports: []service.Port{service.UDP(firstEphemeral, "answers of time servers").To(lastEphemeral)}},
		{Name: DHCPClient, Unit: "systemd-networkd.service", User: "systemd-network",
			Ports: []service.Port{service.UDP(portDHCP, "answers of DHCP servers").On(service.Node)}},
	}
}
