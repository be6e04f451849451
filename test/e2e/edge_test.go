//go:build e2e

package e2e

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
)

// dial connects to the broker of a guest as its users do.
func (b broker) dial(t *testing.T, g *guest, ip, node, user string, change func(*client.MQTTOptions)) (*client.MQTT, error) {
	t.Helper()
	addr, err := g.Address("tcp", ip+":8883")
	require.NoError(t, err)
	o := client.MQTTOptions{
		Address: addr, ServerName: node + "." + suite.cluster.Domain, Roots: b.roots,
		ID: "e2e-" + user, User: user, Password: b.passwords[user],
	}
	if change != nil {
		change(&o)
	}
	return client.DialMQTT(o)
}

func (b broker) mustDial(t *testing.T, g *guest, ip, node, user string) *client.MQTT {
	t.Helper()
	c, err := b.dial(t, g, ip, node, user, nil)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// servesItsUsers runs the tests of a broker on edge-01, whether it is the service mqtt or a role of the plant's own.
func (b broker) servesItsUsers(t *testing.T, g *guest) {
	t.Helper()
	t.Run("users publish and subscribe over TLS", func(t *testing.T) {
		op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
		require.NoError(t, op.Subscribe("sensors/#"))
		s := b.mustDial(t, g, edgeIP, "edge-01", "sensor")
		require.NoError(t, s.Publish("sensors/boiler/temperature", "71.5", false))
		m, err := op.Await("sensors/boiler/temperature", time.Minute)
		require.NoError(t, err)
		require.Equal(t, client.Message{Payload: "71.5"}, m)
	})
	t.Run("a wrong password is refused", func(t *testing.T) {
		_, err := b.dial(t, g, edgeIP, "edge-01", "sensor", func(o *client.MQTTOptions) { o.Password = "wrong" })
		require.ErrorContains(t, err, "not Authorized")
	})
	t.Run("a stranger is refused", func(t *testing.T) {
		_, err := b.dial(t, g, edgeIP, "edge-01", "", nil)
		require.ErrorContains(t, err, "not Authorized")
	})
	t.Run("a foreign topic is not delivered", func(t *testing.T) {
		op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
		require.NoError(t, op.Subscribe("commands/#"))
		s := b.mustDial(t, g, edgeIP, "edge-01", "sensor")
		require.NoError(t, s.Publish("commands/valve", "open", false))
		require.NoError(t, op.Publish("commands/after", "1", false))
		_, err := op.Await("commands/after", time.Minute)
		require.NoError(t, err)
		require.Empty(t, op.Messages("commands/valve"))
	})
	t.Run("another authority of the cluster vouches for no broker", func(t *testing.T) {
		_, err := b.dial(t, g, edgeIP, "edge-01", "sensor", func(o *client.MQTTOptions) { o.Roots = b.foreign })
		require.ErrorContains(t, err, "unknown authority")
		_, err = b.dial(t, g, edgeIP, "edge-01", "sensor", func(o *client.MQTTOptions) { o.ServerName = "mqtt-01.plant.example" })
		require.ErrorContains(t, err, "edge-01.plant.example, edge-01")
		require.ErrorContains(t, err, ", not mqtt-01.plant.example")
	})
}

// hasKept tells that the retained message 42 is there.
func (b broker) hasKept(t *testing.T, g *guest) {
	t.Helper()
	op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
	require.NoError(t, op.Subscribe("sensors/#"))
	m, err := op.Await("sensors/kept", time.Minute)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "42", Retained: true}, m)
}

// servesItsClients is what edge-01 does for its users and its operator after its first start, of which the status is.
func servesItsClients(t *testing.T, b broker, g *guest, first vm.Status) {
	t.Run("it says who it is and why", func(t *testing.T) {
		require.Equal(t, "edge-01", first.Node)
		require.Equal(t, "mac", first.Matched.By)
		require.Equal(t, edgeMAC, first.Matched.Value)
		require.Equal(t, 1, first.Matched.Phase)
		require.Equal(t, []string{"dns-server", "mqtt-broker"}, first.Roles)
		require.Empty(t, first.Held)
		require.Equal(t, "partition", first.State.Kind)
		require.Empty(t, first.State.Warning)
		require.Contains(t, first.Addresses, edgeIP, "a router may have advertised another one besides")
		require.Equal(t, "active", first.Services["coredns.service"])
		require.Equal(t, "active", first.Services["mosquitto.service"])
	})
	b.servesItsUsers(t, g)
	t.Run("mosquitto's own client publishes as the README says", func(t *testing.T) {
		op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
		require.NoError(t, op.Subscribe("sensors/#"))
		dir := t.TempDir()
		require.NoError(t, spore("pki", "export", "examples/edge", "--dir", suite.dir, "--name", "root", "-o", dir))
		addr, err := g.Address("tcp", edgeIP+":8883")
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		run(t, "mosquitto_pub", "-h", "127.0.0.1", "-p", port, "--cafile", filepath.Join(dir, "root.crt"), "--insecure",
			"-u", "sensor", "-P", b.passwords["sensor"], "-t", "sensors/openssl", "-m", "1", "-q", "1")
		m, err := op.Await("sensors/openssl", time.Minute)
		require.NoError(t, err)
		require.Equal(t, "1", m.Payload)
	})
	t.Run("names and addresses of all nodes are answered", func(t *testing.T) { checkDNS(t, g, edgeIP) })
	t.Run("hostile strings of its firmware change nothing", func(t *testing.T) { requireHarmless(t, g) })
	t.Run("its operator is told how it is, and nobody else", func(t *testing.T) { answersItsOperator(t, g) })

	s := b.mustDial(t, g, edgeIP, "edge-01", "sensor")
	require.NoError(t, s.Publish("sensors/kept", "42", true))
}

// isTheSame holds that edge-01 is after a restart what it was before, and has what it acknowledged.
func isTheSame(t *testing.T, b broker, g *guest, first, second vm.Status) {
	t.Run("after a restart it is the same", func(t *testing.T) {
		require.Equal(t, first.MachineID, second.MachineID)
		require.Len(t, second.MachineID, 32)
		// An address that a router advertises comes when the advertisement does: before the first status, or after.
		require.Contains(t, first.Addresses, edgeIP)
		require.Contains(t, second.Addresses, edgeIP)
		require.Equal(t, first.Node, second.Node)
		require.Equal(t, first.State, second.State)
		require.Equal(t, first.Roles, second.Roles)
	})
	t.Run("a retained message outlives the restart", func(t *testing.T) { b.hasKept(t, g) })
}

// asked is the answer of a guest's DNS server. Without one, the test says what the other protocol has, and what the
// machine did meanwhile.
func asked(t *testing.T, g *guest, proto, ip, name, kind string) client.Answer {
	t.Helper()
	addr, err := g.Address(proto, ip+":53")
	require.NoError(t, err)
	before := g.CPU()
	a, err := client.Ask(proto, addr, name, kind)
	if err != nil {
		other := map[string]string{"udp": "tcp", "tcp": "udp"}[proto]
		addr, _ := g.Address(other, ip+":53") // both are forwarded
		b, otherwise := client.Ask(other, addr, name, kind)
		t.Logf("%s %s: %v %v; meanwhile the machine took %.1f CPU-s", ip, other, b, otherwise, (g.CPU() - before).Seconds())
	}
	require.NoError(t, err, ip)
	return a
}

// checkDNS asks the server of a guest for every node, over UDP and TCP.
func checkDNS(t *testing.T, g *guest, ip string) {
	t.Helper()
	for _, proto := range []string{"udp", "tcp"} {
		for name, want := range nodeAddresses() {
			require.Equal(t, client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A " + want}}, asked(t, g, proto, ip, name, "A"), name)
			reverse, err := client.ReverseName(want)
			require.NoError(t, err)
			require.Equal(t, client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"PTR " + name + "."}}, asked(t, g, proto, ip, reverse, "PTR"), want)
		}
		require.Contains(t, asked(t, g, proto, ip, "mqtt."+suite.cluster.Domain, "A").Records, "A "+edgeIP)
		require.Equal(t, "NXDOMAIN", asked(t, g, proto, ip, "nobody."+suite.cluster.Domain, "A").Code)
	}
}
