//go:build e2e

package nspawn

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki"
	"spore/pki/bundle"
	"spore/wire/nodeapi"
)

// spore runs the program with the operator's keys, and returns what it printed and whether it was content.
func (l *Lab) spore(ctx context.Context, command string, args ...string) (out, errs string, ok bool) {
	l.t.Helper()
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(l.t, err)
	cmd := exec.CommandContext(ctx, l.program, append([]string{command, configs, "--pki", filepath.Join(l.dir, "keys")}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	l.t.Logf("$ spore %s configs %s\n%s%s", command, strings.Join(args, " "), &stdout, &stderr)
	return stdout.String(), stderr.String(), err == nil
}

// edgesAnswerTheOperator asks the nodes, all of which run, as an operator does.
func edgesAnswerTheOperator(t *testing.T, l *Lab) {
	ctx := context.Background()
	out, errs, ok := l.spore(ctx, "status")
	require.True(t, ok, errs)
	for _, n := range l.Nodes() {
		// A container is started from no image.
		require.Regexp(t, `(?m)^`+n.Facts.Name+` +running +- +dns-server, mqtt-broker +`+n.IP(), out)
	}
	// A container may not set the clock, and systemd says so; nothing else is wrong.
	out, errs, ok = l.spore(ctx, "health", "--all")
	require.True(t, ok, errs)
	require.NotContains(t, out, "failing")
	require.Contains(t, out, "3 of 3 nodes answer")

	edge := l.Node("edge-1")
	out, errs, ok = l.spore(ctx, "logs", "edge-1", "mosquitto", "--lines", "20")
	require.True(t, ok, errs)
	require.Contains(t, out, "mosquitto[")
	said := edge.MustExec("journalctl", "--quiet", "--output=cat", "--unit=spore-api.service")
	require.Regexp(t, `"[^"]+" \(spore:(admin|reader)\) at \S+ asks GET "/v1/logs\?lines=20&unit=mosquitto`, said, "who reads a journal is a line")
	out, errs, ok = l.spore(ctx, "logs", "edge-1", "spore-agent", "--lines", "3", "--json")
	require.True(t, ok, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	var entry map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &entry))
	require.Equal(t, "spore-agent.service", entry["_SYSTEMD_UNIT"])

	// Whoever follows sees what is written from then on, and leaves nothing behind.
	following, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan string, 1)
	go func() {
		out, _, _ := l.spore(following, "logs", "edge-1", "mosquitto", "--lines", "0", "--follow")
		done <- out
	}()
	processes := func() int {
		return len(strings.Fields(edge.MustExec("cat", "/sys/fs/cgroup/system.slice/spore-api.service/cgroup.procs")))
	}
	require.Eventually(t, func() bool { return processes() == 2 }, time.Minute, 100*time.Millisecond, "the server, and journalctl")
	_, err := dial(l, edge, edge.Facts.FQDN)
	require.NoError(t, err) // Mosquitto tells of each connection.
	time.Sleep(2 * time.Second)
	stop()
	require.Contains(t, <-done, "mosquitto[")
	require.Eventually(t, func() bool { return processes() == 1 }, time.Minute, 100*time.Millisecond, "journalctl ends with its reader")

	require.Equal(t, "spore-api", edge.MustExec("systemctl", "show", "--property=User", "--value", "spore-api.service"))
	strangers(t, l, edge)
}

// strangers holds a node to answering nobody who may not ask.
func strangers(t *testing.T, l *Lab, n *Node) {
	address := net.JoinHostPort(n.IP(), "8643")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: l.Authority("agent"), ServerName: n.Facts.Name}}}
	_, err := client.Get("https://" + address + nodeapi.StatusPath)
	require.ErrorContains(t, err, "certificate required")
	other := l.Node("edge-2")
	keys, err := l.Keys.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(other.Bundle), bundle.Whose{Cluster: l.Cluster.ID, Node: other.Facts.Name, Keys: keys})
	require.NoError(t, err)
	c := nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: []byte(b.Secrets["agent-certificate"]), Key: []byte(b.Secrets["agent-key"]), Authorities: l.Keys.Public().Files()[pki.PublicDir+"/agent.crt"]}, nil
		},
		Addresses: func(string) ([]string, error) { return n.Facts.IPs, nil },
	}
	_, err = c.Read(context.Background(), n.Facts.Name, nodeapi.Request{Path: nodeapi.StatusPath}, nodeapi.MaxStatus)
	require.ErrorContains(t, err, "is for certificates of spore:admin or spore:reader", "a node that was broken into reads no other node's journal")
	_, err = c.Read(context.Background(), n.Facts.Name, nodeapi.Request{Path: nodeapi.FormationPath + "kafka"}, 1000)
	require.ErrorContains(t, err, "is not a member of such a service")
}
