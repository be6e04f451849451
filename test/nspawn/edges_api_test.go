//go:build e2e

package nspawn

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/pki"
	"spore/pki/bundle"
	"spore/wire/nodeapi"
)

// spore runs a command of the program, of one word or two, with the operator's keys, and returns what it printed and
// whether it was content.
func (l *Lab) spore(ctx context.Context, command string, args ...string) (out, errs string, ok bool) {
	l.t.Helper()
	out, errs, ok = l.quiet(ctx, command, args...)
	l.t.Logf("$ spore %s configs %s\n%s%s", command, strings.Join(args, " "), out, errs)
	return out, errs, ok
}

// quiet is spore whose output is too much for that of the test.
func (l *Lab) quiet(ctx context.Context, command string, args ...string) (out, errs string, ok bool) {
	l.t.Helper()
	configs, err := filepath.Abs(l.options.Configs)
	require.NoError(l.t, err)
	cmd := exec.CommandContext(ctx, l.program, append(append(strings.Fields(command), configs, "--pki", filepath.Join(l.dir, "keys")), args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
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

	// Three journals in one list, by journalctl's own bounds and by an expression.
	out, errs, ok = l.spore(ctx, "logs", "--role", "mqtt-broker", "--since", "1h", "--grep", `mosquitto version \d+`)
	require.True(t, ok, errs)
	for _, name := range []string{"edge-1", "edge-2", "edge-3"} {
		require.Regexp(t, `(?m)^`+name+`  .* mosquitto\[\d+\]: .*mosquitto version \d`, out)
	}
	require.True(t, slices.IsSortedFunc(strings.Split(strings.TrimSpace(out), "\n"), func(a, b string) int {
		from, to := len("edge-1  "), len("edge-1  2026-11-22 01:52:25.678") // Lines of the same time are in any order.
		return strings.Compare(a[from:to], b[from:to])
	}), out)
	out, errs, ok = l.spore(ctx, "logs", "--node", "edge-1", "--unit", "mosquitto", "--until", "2d", "--priority", "debug")
	require.True(t, ok, errs)
	require.Empty(t, out, "nothing ran two days ago")
	out, errs, ok = l.spore(ctx, "logs", "--node", "edge-2", "--boot", "0", "--lines", "1000", "--json")
	require.True(t, ok, errs)
	require.Contains(t, out, `"_SYSTEMD_UNIT":"init.scope"`, "the journal of all units")
	require.NotContains(t, out, `"_TRANSPORT":"audit"`, "is without the kernel's audit records for a reader")

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

	supportHasNoSecret(t, l, edge)
	require.Equal(t, "spore-api", edge.MustExec("systemctl", "show", "--property=User", "--value", "spore-api.service"))
	strangers(t, l, edge)
}

// supportHasNoSecret collects from all nodes what somebody else needs, after each secret of one was written into its
// journal, and looks for the secrets of all nodes in it.
func supportHasNoSecret(t *testing.T, l *Lab, edge *Node) {
	signing, err := l.Keys.Public().SigningKeys()
	require.NoError(t, err)
	marks := map[string]string{} // what must not be there, and where it is from
	for _, n := range l.Nodes() {
		b, err := bundle.Open(bytes.NewReader(n.Bundle), bundle.Whose{Cluster: l.Cluster.ID, Node: n.Facts.Name, Keys: signing})
		require.NoError(t, err)
		for name, value := range b.Secrets {
			if strings.Contains(value, "BEGIN CERTIFICATE") {
				continue
			}
			for line := range strings.Lines(value) {
				if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
					marks[line] = n.Facts.Name + "/" + name
				}
			}
		}
	}
	require.Greater(t, len(marks), 10)
	for _, mark := range slices.Sorted(maps.Keys(marks)) {
		if strings.HasPrefix(marks[mark], edge.Facts.Name+"/") {
			edge.MustExec("systemd-cat", "--identifier=talkative", "echo", "a program says "+mark)
		}
	}
	edge.MustExec("systemd-cat", "--identifier=talkative", "echo", "the last word")
	file := filepath.Join(t.TempDir(), "support.tar.zst")
	require.Eventually(t, func() bool {
		out, _ := edge.Exec("journalctl", "--quiet", "--output=cat", "--identifier=talkative", "--lines=1")
		return strings.Contains(out, "the last word")
	}, time.Minute, 100*time.Millisecond)
	out, errs, ok := l.spore(context.Background(), "support", "--output", file)
	require.True(t, ok, errs)
	require.Contains(t, out, "3 nodes")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		files[h.Name] = string(data)
	}
	top := "support-" + l.Cluster.Name + "/"
	said := files[top+edge.Facts.Name+"/journal/this-start.txt"]
	require.Contains(t, said, "a program says (secret ", "that it was said is shown")
	require.Contains(t, said, "the last word")
	for _, n := range l.Nodes() {
		require.Contains(t, files[top+n.Facts.Name+"/units/all.txt"], "mosquitto.service")
		require.Contains(t, files[top+n.Facts.Name+"/status.json"], n.Facts.Name)
		require.Contains(t, files, top+n.Facts.Name+"/configuration/cluster.yaml")
		require.Contains(t, files[top+"index.html"], `href="`+n.Facts.Name+`/journal/this-start.txt"`)
	}
	for name, text := range files {
		for mark, from := range marks {
			require.False(t, strings.Contains(text, mark), "%s has %s", name, from)
		}
	}
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
	require.ErrorContains(t, err, "is for certificates of spore:admin or spore:operator or spore:reader", "a node that was broken into reads no other node's journal")
	_, err = c.Read(context.Background(), n.Facts.Name, nodeapi.Request{Path: nodeapi.FormationPath + "kafka"}, 1000)
	require.ErrorContains(t, err, "is not a member of such a service")
}
