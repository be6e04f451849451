package services

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kafka"
	"spore/services/mqtt"
	"spore/services/service"
)

// portsOf are the ports of a program of a node, as text; none when it does not run.
func portsOf(c *facts.Cluster, n *facts.Node, program string) []string {
	var out []string
	for _, p := range Listening(c, n) {
		if p.Name != program {
			continue
		}
		for _, port := range p.Ports {
			out = append(out, port.String())
		}
	}
	return out
}

func TestAPortOfASettingHasItsNumber(t *testing.T) {
	c, n := example()
	require.Equal(t, []string{"8883/tcp"}, portsOf(c, n, "mosquitto"))
	mqtt.Of(c.Services).Port = 1884
	require.Equal(t, []string{"1884/tcp"}, portsOf(c, n, "mosquitto"))
	row, _ := Ours().LookupProgram("mosquitto")
	require.Equal(t, mqtt.DefaultPort, row.Ports[0].First, "the table stays what it is")
}

func TestKafkaListensForTheRolesOfItsNodeAlone(t *testing.T) {
	c := &facts.Cluster{Services: spec.Services{&kafka.Settings{}}, Members: map[string][]string{kafka.Broker: {"a"}, kafka.Controller: {"b"}}}
	a, b := &facts.Node{Name: "a", Roles: []string{kafka.Broker}}, &facts.Node{Name: "b", Roles: []string{kafka.Controller}}
	require.Equal(t, []string{"9092/tcp", "9093/tcp"}, portsOf(c, a, "kafka"))
	require.Equal(t, []string{"9094/tcp"}, portsOf(c, b, "kafka"))
	delete(c.Members, kafka.Controller)
	require.Equal(t, []string{"9092/tcp", "9093/tcp", "9094/tcp"}, portsOf(c, a, "kafka"), "brokers are the controllers where nobody else is")
}

func TestEveryNodeListensForTheAPIAndAFewForTheTime(t *testing.T) {
	c, n := example()
	n.Roles = nil
	require.Equal(t, []string{"8643/tcp"}, portsOf(c, n, "api"))
	require.Equal(t, []string{"68/udp"}, portsOf(c, n, "networkd"))
	require.Empty(t, portsOf(c, n, TimeServer))
	require.Empty(t, portsOf(c, n, "mosquitto"))
	c.TimeNodes = []facts.TimeNode{{Name: n.Name, IP: "10.77.0.11"}}
	require.Equal(t, []string{"123/udp"}, portsOf(c, n, TimeServer))
	require.False(t, slices.ContainsFunc(Listening(c, n), func(p service.Program) bool { return len(p.Ports) == 0 }))
}
