//go:build e2e

package nspawn

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/ntp"
	"spore/builder/vm"
	"spore/test/client"
)

const edgePassword = "operator #1"

// haltLine is the last that systemd says in a container.
var haltLine = regexp.MustCompile(`Halting system`)

// settled accepts the status of a node that has done all that it does by itself, whether it is well or not.
func settled(s vm.Status) bool { return s.System == "running" || s.System == "degraded" }

// TestThreeNodesServeAndOneLosesPower runs three nodes of one image, each with a broker and a DNS server.
func TestThreeNodesServeAndOneLosesPower(t *testing.T) {
	l := New(t, Options{Source: "../..", Configs: "testdata/edges", Secrets: map[string]string{"mqtt-password-operator": edgePassword}})
	for _, n := range l.Nodes() {
		n.Start()
	}
	ids := map[string]string{}
	for _, n := range l.Nodes() {
		s := n.Running()
		require.Equal(t, "mac", s.Matched.By)
		require.Equal(t, n.Facts.MACs[0], s.Matched.Value)
		require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles)
		require.Equal(t, n.Facts.IPs, s.Addresses)
		require.Equal(t, "firmware", s.Bundle.From)
		require.Equal(t, "host", s.Bundle.Sealed)
		require.Empty(t, s.Bundle.Problem)
		ids[s.MachineID] = n.Facts.Name
	}
	require.Len(t, ids, 3, "each node has a machine id of its own")

	l.Step("each listens where its rows say, and nowhere else", l.listenWhereTheirRowsSay)
	l.Step("each finds its own configuration under /etc/cluster-config", func(t *testing.T) { edgesKnowTheirFiles(t, l) })
	l.Step("each answers for all", func(t *testing.T) {
		for _, server := range l.Nodes() {
			for _, asked := range l.Nodes() {
				a, err := client.Ask("udp", net.JoinHostPort(server.IP(), "53"), asked.Facts.FQDN, "A")
				require.NoError(t, err)
				require.Equal(t, client.Answer{Code: "NOERROR", Authoritative: true, Records: []string{"A " + asked.IP()}}, a)
			}
		}
	})
	l.Step("each delivers messages over TLS, under its own name alone", func(t *testing.T) {
		for _, n := range l.Nodes() {
			c, err := dial(l, n, n.Facts.FQDN)
			require.NoError(t, err)
			t.Cleanup(c.Close)
			require.NoError(t, c.Subscribe("kept/#"))
			require.NoError(t, c.Publish("kept/of", n.Facts.Name, true))
			m, err := c.Await("kept/of", time.Minute)
			require.NoError(t, err)
			require.Equal(t, n.Facts.Name, m.Payload)
		}
		_, err := dial(l, l.Node("edge-1"), "edge-2.edges.example")
		require.ErrorContains(t, err, "not edge-2.edges.example")
	})

	l.Step("each answers the operator, and nobody else", func(t *testing.T) { edgesAnswerTheOperator(t, l) })

	l.Step("one tells a reader its metrics", func(t *testing.T) { edgeTellsMetrics(t, l, l.Node("edge-1")) })

	l.Step("each knows who may what, and who did it", func(t *testing.T) { edgesKnowWhoMay(t, l) })

	l.Step("glass is broken on one, by a grant", func(t *testing.T) { edgesOpenAShell(t, l) })

	l.Step("without a time server, the nodes ask each other", func(t *testing.T) { timeOfEdges(t, l) })

	lost := l.Node("edge-2")
	id := lost.MustExec("cat", "/etc/machine-id")
	// Mosquitto writes what it keeps when it ends, and every 30 minutes, or when told so.
	lost.MustExec("systemctl", "kill", "--signal=SIGUSR1", "mosquitto.service")
	l.Step("a loss of power is one", func(t *testing.T) {
		require.Eventually(t, func() bool { return lost.MustExec("ls", "/var/lib/mosquitto") == "mosquitto.db" }, time.Minute, 100*time.Millisecond)
		lost.MustExec("journalctl", "--sync") // journald does so every five minutes
		lost.MustExec("sh", "-ec", "cd /var/lib; echo x >synced; sync synced; echo x >unsynced")
		lost.PowerLoss()
		require.False(t, lost.Up())
		require.FileExists(t, filepath.Join(lost.Var(), "lib", "synced"))
		data, _ := os.ReadFile(filepath.Join(lost.Var(), "lib", "unsynced")) // its name may be there
		require.Empty(t, data, "what was not synced is lost")
		_, err := net.DialTimeout("tcp", net.JoinHostPort(lost.IP(), "8883"), time.Second)
		require.Error(t, err)
		require.NotErrorIs(t, err, syscall.ECONNREFUSED, "a kernel that refuses is there")
		_, err = lost.Exec("true")
		require.ErrorContains(t, err, "has no power")
		a, err := client.Ask("udp", net.JoinHostPort(l.Node("edge-1").IP(), "53"), lost.Facts.FQDN, "A")
		require.NoError(t, err)
		require.Equal(t, "NOERROR", a.Code, "the others go on")
		out, errs, ok := l.spore(t.Context(), "health", "--timeout", "5s")
		require.False(t, ok)
		require.Regexp(t, `(?m)^edge-2 +answers +failing +no answer`, out)
		require.Contains(t, out, "2 of 3 nodes answer; not edge-2")
		require.Equal(t, "spore health: the cluster is not healthy\n", errs)
	})
	l.Step("it returns with what it had, and needs no bundle from outside", func(t *testing.T) {
		lost.Bundle = nil
		lost.Start()
		s := lost.Running()
		require.Equal(t, "state", s.Bundle.From)
		require.Equal(t, id, s.MachineID)
		require.Equal(t, "edge-2", kept(t, l, lost).Payload)
		require.Contains(t, lost.MustExec("journalctl", "--list-boots", "--no-pager"), "-1 ", "the journal has the boot before")
	})
	l.Step("a node that was stopped in order returns as well", func(t *testing.T) {
		n := l.Node("edge-3")
		n.Stop()
		_, ok := n.Console.Find(0, haltLine)
		require.True(t, ok, n.Console.Tail())
		n.Start()
		n.Running()
		require.Equal(t, "edge-3", kept(t, l, n).Payload)
	})
	l.Step("a node whose state was wiped waits for a bundle, and takes a fresh one", func(t *testing.T) {
		lost.PowerLoss()
		lost.WipeState()
		lost.Start()
		s := lost.Await("a broker that is held", settled)
		require.Len(t, s.Held, 1)
		require.Equal(t, "mqtt-broker", s.Held[0].Role)
		require.Equal(t, []string{"dns-server"}, s.Roles)

		lost.PowerLoss()
		lost.NewBundle()
		lost.Start()
		s = lost.Running()
		require.Equal(t, "firmware", s.Bundle.From)
		require.Equal(t, id, s.MachineID)
		edgesRemember(t, l)
		c, err := dial(l, lost, lost.Facts.FQDN)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Subscribe("kept/#"))
		_, err = c.Await("kept/of", time.Second)
		require.EqualError(t, err, "no message of kept/of within 1s", "what was wiped is gone")
	})
}

// edgesKnowTheirFiles looks at the files by which programs and people find out which node they are on. One node has a
// file in nodes/ and the others have none.
func edgesKnowTheirFiles(t *testing.T, l *Lab) {
	leads := map[string]string{
		"edge-1": "/run/spore/cluster/nodes/edge-1.yaml", "edge-2": "/run/spore/node.yaml", "edge-3": "/run/spore/node.yaml",
	}
	for _, n := range l.Nodes() {
		name := n.Facts.Name
		require.Equal(t, name+"\n.", n.MustExec("sh", "-c", "cat /etc/cluster-config/node-identity; echo ."), "the name, and nothing else")
		require.Equal(t, leads[name], n.MustExec("readlink", "-e", "/etc/cluster-config/current-node.yaml"))
		require.Contains(t, n.MustExec("cat", "/etc/cluster-config/current-node.yaml"), "\nnode: "+name)
	}
	written, err := os.ReadFile("testdata/edges/nodes/edge-1.yaml")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(written)), l.Node("edge-1").MustExec("cat", "/etc/cluster-config/current-node.yaml"))
	// A program of a service may read them, too.
	l.Node("edge-2").MustExec("setpriv", "--reuid=mosquitto", "--clear-groups", "cat", "/etc/cluster-config/current-node.yaml")
}

// dial connects to a node's broker. Whoever asked for a machine while it had no power is told for some seconds more
// that there is no way to it (EHOSTUNREACH of ARP), so that is asked again.
func dial(l *Lab, n *Node, name string) (*client.MQTT, error) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		c, err := client.DialMQTT(client.MQTTOptions{
			Address: net.JoinHostPort(n.IP(), "8883"), ServerName: name, Roots: l.Authority("mqtt"), ID: "test", User: "operator", Password: edgePassword,
		})
		if err == nil || !strings.Contains(err.Error(), syscall.EHOSTUNREACH.Error()) || time.Now().After(end) {
			return c, err
		}
	}
}

// kept is the retained message of a node's broker.
func kept(t *testing.T, l *Lab, n *Node) client.Message {
	t.Helper()
	c, err := dial(l, n, n.Facts.FQDN)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Subscribe("kept/#"))
	m, err := c.Await("kept/of", time.Minute)
	require.NoError(t, err)
	require.True(t, m.Retained)
	return m
}

// timeOfEdges looks at the clocks of the nodes, which are cut off from every time server. A container has its host's
// clock and may not set it, so that timesyncd is made to start here, hears what it is told, and fails to set what is
// right already.
func timeOfEdges(t *testing.T, l *Lab) {
	first, second := l.Node("edge-1"), l.Node("edge-2")
	for name, want := range map[string]string{
		"edge-1": "# cluster.yaml names no time servers, and there is no node to ask.", "edge-2": "[Time]\nNTP=" + first.IP(), "edge-3": "[Time]\nNTP=" + first.IP() + " " + second.IP(),
	} {
		require.Equal(t, want, l.Node(name).MustExec("cat", "/etc/systemd/timesyncd.conf.d/10-spore.conf"), "each asks only those before it")
	}
	ask := func() (ntp.Heard, error) {
		return ntp.Ask(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(first.IP()), ntp.Port), time.Now)
	}
	var heard ntp.Heard
	require.Eventually(t, func() (answers bool) {
		var err error
		heard, err = ask()
		return err == nil
	}, time.Minute, time.Second, "edge-1 tells the time")
	require.Equal(t, "LOCL", string(heard.State.Reference[:]), "nobody keeps its clock")
	require.Equal(t, uint8(10), heard.State.Stratum)
	require.Less(t, heard.Offset.Abs(), time.Second)

	second.MustExec("mkdir", "-p", "/run/systemd/system/systemd-timesyncd.service.d")
	second.MustExec("sh", "-c", `printf '%s\n' '[Unit]' ConditionVirtualization= ConditionCapability= '[Service]' AmbientCapabilities= CapabilityBoundingSet= Environment=SYSTEMD_LOG_LEVEL=debug >/run/systemd/system/systemd-timesyncd.service.d/here.conf`)
	second.MustExec("systemctl", "daemon-reload")
	second.MustExec("systemctl", "restart", "systemd-timesyncd.service")
	second.Await("a status line that says whom timesyncd hears", func(s vm.Status) bool { return s.Clock.From == first.IP() })

	// The agent of edge-1 is stopped, so that it does not write the truth again.
	first.MustExec("systemctl", "kill", "--signal=SIGSTOP", "spore-agent.service")
	first.MustExec("sh", "-c", `printf '{"synchronized":false,"wrong":true}\n' >/run/spore/time/state.json`)
	require.Eventually(t, func() bool { _, err := ask(); return err != nil }, time.Minute, time.Second, "a clock that is known to be wrong is told to nobody")
	_, err := ask()
	require.ErrorContains(t, err, "it does not know the time itself")
	second.MustExec("systemctl", "restart", "systemd-timesyncd.service")
	require.Eventually(t, func() bool {
		return strings.Contains(second.MustExec("journalctl", "--no-pager", "-b", "-u", "systemd-timesyncd.service"), "Server is not synchronized")
	}, time.Minute, time.Second, "timesyncd takes it for what it is")
	first.MustExec("systemctl", "kill", "--signal=SIGCONT", "spore-agent.service")
	second.MustExec("systemctl", "stop", "systemd-timesyncd.service")
}
