//go:build e2e

package e2e

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/client"
)

// Scenario 2: the same image, machines that only the network knows.

func TestMQTTNodeIsFoundByItsDHCPAddressAndServesWithItsOwnSecrets(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := stranger("mqtt", "2", mqttIP, "", bootDisk(overlay(t)))
	c.SMBIOS = b.bundle(t, "mqtt-01")
	g := boot(t, c)
	s := g.running()
	require.Equal(t, "mqtt-01", s.Node)
	require.Equal(t, "ip", s.Matched.By)
	require.Equal(t, mqttIP, s.Matched.Value)
	require.Equal(t, 2, s.Matched.Phase)
	require.Equal(t, []string{"mqtt-broker"}, s.Roles, "its own role and no other")
	require.NotContains(t, s.Services, "coredns.service")
	require.Contains(t, s.Addresses, mqttIP)

	op := b.mustDial(t, g, mqttIP, "mqtt-01", "operator")
	require.NoError(t, op.Subscribe("commands/#"))
	require.NoError(t, op.Publish("commands/a", "1", false))
	m, err := op.Await("commands/a", time.Minute)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "1"}, m)
	requireNoDNS(t, g, mqttIP)
}

// Its medium has a flipped byte in a program that it never reads.
func TestDNSNodeIsFoundByItsDHCPHostname(t *testing.T) {
	t.Parallel()
	c := stranger("dns", "4", dnsIP, "dns-01", damagedBroker(t))
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, forwards(dnsOwnIP)...)
	g := boot(t, c)
	s := g.running()
	require.Equal(t, "dns-01", s.Node)
	require.Equal(t, "hostname", s.Matched.By)
	require.Equal(t, "dns-01", s.Matched.Value)
	require.Equal(t, 2, s.Matched.Phase)
	require.Equal(t, []string{"dns-server"}, s.Roles, "its own role and no other")
	require.NotContains(t, s.Services, "mosquitto.service")
	require.Empty(t, s.Held, "a DNS server needs no secret")
	require.Subset(t, s.Addresses, []string{dnsIP, dnsOwnIP}, "the lease's address, and its own of cluster.yaml")
	checkDNS(t, g, dnsIP)
	checkDNS(t, g, dnsOwnIP)
	t.Run("a flipped byte of a program that it never reads shows nothing", func(t *testing.T) {
		_, seen := g.Console.Find(0, regexp.MustCompile(corrupted))
		require.False(t, seen)
	})
}

// requireNoDNS makes sure that nothing answers at the DNS port of a guest.
func requireNoDNS(t *testing.T, g *guest, ip string) {
	t.Helper()
	addr, err := g.Address("tcp", ip+":53")
	require.NoError(t, err)
	_, err = client.Ask("tcp", addr, "edge-01."+suite.cluster.Domain, "A")
	requireNobodyListens(t, err)
}

// requireNobodyListens makes sure that the kernel of a guest refused a connection: QEMU had accepted it, and cuts it off then. A
// guest that is silent, and a server that answers something else, are errors of another kind.
func requireNobodyListens(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.Regexp(t, `(EOF|connection reset by peer|broken pipe)$`, err.Error())
}
