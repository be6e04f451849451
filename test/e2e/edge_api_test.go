//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// apiPort is that of the node's API on edge-01.
const apiPort = edgeIP + ":8643"

// asker runs commands that ask edge-01 at an address, with the keys of the suite.
func asker(t *testing.T, at string, bound time.Duration) func(command string, args ...string) (out, errs string, ok bool) {
	return askerOf(t, "edge-01", at, bound)
}

// askerOf is asker for another node.
func askerOf(t *testing.T, node, at string, bound time.Duration) func(command string, args ...string) (out, errs string, ok bool) {
	return askerIn(t, "examples/edge", suite.plant, node, at, bound)
}

// askerIn is asker for a node of another plant, whose configuration is at a path of the source tree. Words of the
// command have spaces between them.
func askerIn(
	t *testing.T, configs string, p *plant, node, at string, bound time.Duration,
) func(command string, args ...string) (out, errs string, ok bool) {
	return func(command string, args ...string) (out, errs string, ok bool) {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		all := append(strings.Fields(command), filepath.Join(sourceTree, configs), "--pki", p.dir, "--address", node+"="+at, "--timeout", "30s")
		cmd := exec.CommandContext(ctx, flashTool(t), append(all, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		t.Logf("$ spore %s %s\n%s%s", command, strings.Join(args, " "), &stdout, &stderr)
		return stdout.String(), stderr.String(), err == nil
	}
}

// answersItsOperator asks edge-01 through a forwarded port, with the program and the keys that an operator has.
func answersItsOperator(t *testing.T, g *guest) {
	at, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	ask := asker(t, at, 2*time.Minute)

	text, errs, ok := ask("status", "--node", "edge-01")
	require.True(t, ok, errs)
	require.Regexp(t, `edge-01 +running +[0-9a-f]{12} of [0-9 :-]{16} +dns-server, mqtt-broker +`+edgeIP, text)
	text, errs, ok = ask("health", "--node", "edge-01", "--json")
	require.True(t, ok, errs)
	var found struct {
		Healthy bool
		Nodes   []struct{ Health nodeapi.Health }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	require.True(t, found.Healthy)
	for _, c := range found.Nodes[0].Health.Conditions {
		switch {
		// The host has a time server where TestMetal runs at the same time.
		case c.Name == "clock" && c.State == nodeapi.OK:
			require.Equal(t, "kept by the time server "+hostIP, c.Reason)
		case c.Name == "clock":
			require.Equal(t, nodeapi.Warning, c.State)
			require.Contains(t, c.Reason, "no time server")
		default:
			require.Equal(t, nodeapi.OK, c.State, "%s: %s", c.Name, c.Reason)
		}
	}
	text, errs, ok = ask("logs", "edge-01", "mosquitto")
	require.True(t, ok, errs)
	require.Regexp(t, `mosquitto\[\d+\]: .*mosquitto version`, text)
	t.Run("metrics", func(t *testing.T) { tellsMetrics(t, at) })
	looksAtItsMachine(t, ask)

	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: suite.authority(t, "agent"), ServerName: "edge-01"}}}
	_, err = client.Get("https://" + at + nodeapi.StatusPath)
	require.ErrorContains(t, err, "certificate required")
}
