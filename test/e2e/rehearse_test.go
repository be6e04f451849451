//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/ntp"
	"spore/builder/vm"
	"spore/test/client"
	"spore/test/rehearse"
)

// rehearsal is `spore boot` as a user has it, on an output folder of its own: examples/edge with the role of
// testdata/tested on mqtt-01.
type rehearsal struct {
	*plant
	t        *testing.T
	bin, out string
}

func TestARehearsalOfTwoNodes(t *testing.T) {
	inTurn(t)
	r := newRehearsal(t)
	withoutHostTime(t)
	release := takeSlots(t, 2)
	both := r.start("--node", "edge-01,mqtt-01", "--append", "spore.console", "--json", "--pki", r.dir)
	edge, mqtt := both.Running("edge-01"), both.Running("mqtt-01")
	for _, s := range []vm.Status{edge, mqtt} {
		require.Equal(t, "partition", s.State.Kind, s.Raw)
	}
	require.Equal(t, "mac", edge.Matched.By)
	require.Equal(t, "ip", mqtt.Matched.By, "each is known by what its DHCP server says")

	t.Run("a node that only the network knows serves with its own secrets", func(t *testing.T) {
		require.Equal(t, mqttIP, mqtt.Matched.Value)
		require.Equal(t, 2, mqtt.Matched.Phase)
		require.Equal(t, []string{"filler", "mqtt-broker"}, mqtt.Roles, "its own roles and no other")
		require.NotContains(t, mqtt.Services, "coredns.service")
		require.Contains(t, mqtt.Addresses, mqttIP)
		op, err := client.DialMQTT(client.MQTTOptions{
			Address: both.Address("mqtt-01", "8883/tcp"), ServerName: "mqtt-01.plant.example", Roots: r.authority(t, "mqtt"),
			ID: "rehearsal", User: "operator", Password: passwords["operator"],
		})
		require.NoError(t, err)
		defer op.Close()
		require.NoError(t, op.Subscribe("commands/#"))
		require.NoError(t, op.Publish("commands/a", "1", false))
		m, err := op.Await("commands/a", time.Minute)
		require.NoError(t, err)
		require.Equal(t, client.Message{Payload: "1"}, m)
		_, err = both.Proxy().Dial("tcp", mqttIP+":53")
		require.ErrorContains(t, err, "connection refused", "it is no DNS server")
	})
	t.Run("ports of this host lead to the nodes", func(t *testing.T) {
		a, err := client.Ask("udp", both.Address("edge-01", "53/udp"), "mqtt-01.plant.example", "A")
		require.NoError(t, err)
		require.Equal(t, []string{"A " + mqttIP}, a.Records)
		conn, err := net.DialTimeout("tcp", both.Address("mqtt-01", "8883/tcp"), time.Minute)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	})
	t.Run("one proxy leads to all nodes by their names", func(t *testing.T) {
		in := both.Proxy()
		roots := r.authority(t, "mqtt")
		for address, name := range map[string]string{
			"mqtt-01.plant.example:8883": "mqtt-01", "mqtt-01:8883": "mqtt-01", mqttIP + ":8883": "mqtt-01",
			"mqtt.plant.example:8883": "edge-01", // a record of dns.yaml, which is an alias
			edgeIP + ":8883":          "edge-01",
		} {
			conn, err := in.Dial("tcp", address)
			require.NoError(t, err, address)
			secured := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: name + ".plant.example"})
			require.NoError(t, secured.SetDeadline(time.Now().Add(time.Minute)))
			require.NoError(t, secured.Handshake(), "%s is %s", address, name)
			require.NoError(t, conn.Close())
		}
		for _, nobody := range []string{"example.org:80", "10.77.0.99:80"} {
			_, err := in.Dial("tcp", nobody)
			require.ErrorContains(t, err, "host unreachable", nobody)
		}
	})
	shell := r.attach("edge-01")
	t.Run("the nodes reach each other, and nobody answers for others", func(t *testing.T) {
		open := "timeout 60 bash -c 'exec 3<>/dev/tcp/%s/8883' && echo open"
		require.Equal(t, []string{"open"}, shell.Run(fmt.Sprintf(open, mqttIP)))
		neighbour := strings.Join(shell.Run("cat /proc/net/arp"), "\n")
		require.Regexp(t, `(?m)^10\.77\.0\.12\s+0x1\s+0x2\s+52:54:00:`, neighbour, "its own card, and not QEMU's 52:55")
		require.NotEqual(t, []string{"open"}, shell.Run(fmt.Sprintf(strings.Replace(open, "60", "5", 1), "10.77.0.99")))
	})
	t.Run("cut off from every server, a node has the time from the other, and nobody else's", func(t *testing.T) {
		var status vm.Status
		both.Await("mqtt-01 to say who keeps its clock", func(e rehearse.Event) bool {
			if e.Event != "status" || e.Node != "mqtt-01" {
				return false
			}
			var ok bool
			status, ok = vm.ParseStatus(string(e.Status))
			return ok && status.Clock.Synchronized && status.Clock.From != ""
		})
		require.Equal(t, edgeIP, status.Clock.From)
		// Both began with this host's time, so that only a time that nobody but edge-01 has tells whose it is.
		const ahead = 600
		other := r.attach("mqtt-01")
		offset := func(of *rehearse.Shell) int64 {
			text := of.Run("date +%s")
			require.Len(t, text, 1)
			seconds, err := strconv.ParseInt(text[0], 10, 64)
			require.NoError(t, err)
			return seconds - time.Now().Unix()
		}
		require.InDelta(t, 0, offset(other), 60)
		shell.Run(fmt.Sprintf("date -s @$(($(date +%%s) + %d))", ahead))
		require.InDelta(t, ahead, offset(shell), 60)
		for end := time.Now().Add(bootLimit); offset(other) < ahead/2; time.Sleep(2 * time.Second) {
			require.True(t, time.Now().Before(end), "mqtt-01 says that it has the time from edge-01, and has another one")
		}
		require.InDelta(t, ahead, offset(other), 60)
	})
	t.Run("nobody starts a node twice", func(t *testing.T) {
		text, err := r.run("--node", "mqtt-01")
		require.Error(t, err)
		require.Contains(t, text, "mqtt-01 runs already; end it with --kill mqtt-01")
	})
	t.Run("another process ends one node", func(t *testing.T) {
		text, err := r.run("--kill", "mqtt-01")
		require.NoError(t, err, text)
		require.Equal(t, "mqtt-01: ended\n", text)
		both.Await("the end of mqtt-01", func(e rehearse.Event) bool { return e.Event == "ended" && e.Node == "mqtt-01" })
		require.True(t, both.Lives())
		a, err := client.Ask("udp", both.Address("edge-01", "53/udp"), "edge-01.plant.example", "A")
		require.NoError(t, err)
		require.Equal(t, []string{"A " + edgeIP}, a.Records)
	})
	t.Run("and all of them", func(t *testing.T) {
		text, err := r.run("--kill", "--json")
		require.NoError(t, err, text)
		require.Contains(t, text, `{"event":"killed","node":"edge-01","text":"ended"}`)
		require.Contains(t, text, `{"event":"killed","node":"mqtt-01","text":"did not run"}`)
		require.NoError(t, both.Wait(), "that is no error of the command that started them")
	})
	release()

	defer takeSlots(t, 2)()
	t.Run("two commands wait until their nodes are ready, with what a node kept, and one has the tests of a role run", func(t *testing.T) {
		limit := bootLimit.String()
		kept := r.start("--node", "edge-01", "--until", "ready", "--timeout", limit, "--console", "edge-01")
		kept.AwaitText(`^edge-01: console in `)
		asked := r.start("--node", "mqtt-01", "--test", "--timeout", limit, "--json", "--pki", r.dir)
		require.Equal(t, kept.ProxyAddress(), asked.ProxyAddress(), "their network has one")
		require.NoError(t, kept.Wait())
		require.NoError(t, asked.Wait())
		text := strings.Join(kept.Lines(), "\n")
		require.Contains(t, text, "warning: without the cluster's keys no node is asked for its health")
		require.Regexp(t, `(?m)^edge-01: no bundle: no folder with the keys`, text)
		require.Regexp(t, `(?m)^edge-01: 127\.0\.0\.1:\d+ leads to 10\.77\.0\.11:8883/tcp$`, text)
		require.Regexp(t, `"bundle":\{"serial":\d+,"from":"state"`, text)
		require.Regexp(t, `(?m)^edge-01: \d+ s: ready$`, text)
		text = strings.Join(asked.Lines(), "\n")
		require.Contains(t, text, `{"event":"ready","node":"mqtt-01"}`)
		const passed = `(?m)^\{"event":"test","node":"mqtt-01","role":"filler","test":\{"command":\["%s",.*"passed":true\}$`
		for _, program := range []string{"find", "df"} {
			require.Regexp(t, fmt.Sprintf(passed, program), text, "a role was held to its quota, and its tests were run")
		}
		text, err := r.run("--console", "edge-01")
		require.Error(t, err)
		require.Contains(t, text, "edge-01 does not run", "their power was cut")
	})
	t.Run("what is not ready in time is said, with exit code 1", func(t *testing.T) {
		late := r.start("--node", "edge-01", "--until", "ready", "--timeout", "3s")
		require.Equal(t, 1, exitCode(late.Wait()))
		require.Contains(t, strings.Join(late.Lines(), "\n"), "edge-01: not ready: status: the node has not said anything yet")
		require.Contains(t, late.Stderr(), "not ready: edge-01: the time limit of 3s is over")
	})
	t.Run("nobody waits for a machine that has ended", func(t *testing.T) {
		gone := r.start("--node", "edge-01", "--until", "ready", "--json")
		gone.Await("its start", func(e rehearse.Event) bool { return e.Event == "started" })
		text, err := r.run("--kill", "edge-01")
		require.NoError(t, err, text)
		require.Equal(t, 1, exitCode(gone.Wait()))
		require.Contains(t, gone.Stderr(), "not ready: edge-01: the machine edge-01 has ended")
	})
	t.Run("Ctrl-C ends a machine", func(t *testing.T) {
		again := r.start("--node", "edge-01")
		again.AwaitText(`^edge-01: console in `)
		again.Interrupt()
		require.NoError(t, again.Wait())
		text, err := r.run("--console", "edge-01")
		require.Error(t, err)
		require.Contains(t, text, "edge-01 does not run")
	})
	t.Run("what --until does not know is wrong usage", func(t *testing.T) {
		_, err := r.run("--node", "edge-01", "--until", "up")
		require.Equal(t, 2, exitCode(err))
		_, err = r.run("--node", "edge-01", "--timeout", "1m")
		require.Equal(t, 2, exitCode(err))
	})
}

// exitCode is that of a command; 0 where it did not fail, -1 where it did not end by itself.
func exitCode(err error) int {
	var status *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.ExitCode()
	}
	return -1
}

// withoutHostTime makes sure that no time server of this host answers the machines: they reach its loopback by their
// gateway.
func withoutHostTime(t *testing.T) {
	t.Helper()
	suite.hostTime.Lock()
	t.Cleanup(suite.hostTime.Unlock)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := ntp.Ask(ctx, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), ntp.Port), time.Now)
	require.Error(t, err, "this host serves the time on its loopback; stop that for the test")
}

func newRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	configs := filepath.Join(t.TempDir(), "edge")
	for _, from := range []string{filepath.Join(sourceTree, "examples/edge"), "testdata/tested"} {
		require.NoError(t, os.CopyFS(configs, os.DirFS(from)))
	}
	cluster := filepath.Join(configs, "cluster.yaml")
	replaceIn(t, cluster, "services: [mqtt, dns]", "services: [mqtt, dns, filler]")
	replaceIn(t, cluster, "roles: [mqtt-broker]", "roles: [mqtt-broker, filler]")
	r := &rehearsal{t: t, bin: flashTool(t), out: t.TempDir()}
	var err error
	r.plant, err = buildPlant(configs, r.out, given(), "disk")
	require.NoError(t, err)
	return r
}

func replaceIn(t *testing.T, name, old, text string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(data), old)
	require.NoError(t, os.WriteFile(name, []byte(strings.ReplaceAll(string(data), old, text)), 0o644))
}

func (r *rehearsal) args(args []string) []string {
	return append([]string{"boot", r.out}, args...)
}

// run runs a command to its end.
func (r *rehearsal) run(args ...string) (string, error) {
	out, err := exec.Command(r.bin, r.args(args)...).CombinedOutput()
	return string(out), err
}

// start starts a command, which ends with the test at the latest.
func (r *rehearsal) start(args ...string) *rehearse.Command {
	r.t.Helper()
	c := rehearse.Start(r.t, exec.Command(r.bin, r.args(args)...), bootLimit)
	r.t.Cleanup(func() { writeResult(r.t.Name()+".boot", strings.Join(c.Lines(), "\n")) })
	return c
}

// attach opens the shell on a node's console.
func (r *rehearsal) attach(node string) *rehearse.Shell {
	r.t.Helper()
	return rehearse.Attach(r.t, r.out, node, bootLimit)
}
