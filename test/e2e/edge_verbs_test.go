//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/reach"
	"spore/wire/nodeapi"
)

// verbsBound is what one command may take, of which the longest waits for a start of the machine.
const verbsBound = bootLimit + time.Minute

// worksForItsOperator has edge-01 do what an operator may want of a machine, by the node's API alone, and restarts it
// once. The machine runs when it returns.
func worksForItsOperator(t *testing.T, g *guest) {
	at, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	ask := asker(t, at, verbsBound)
	// done runs a command that has to work, and refused one that has not.
	done := func(t *testing.T, command string, args ...string) (out, errs string) {
		t.Helper()
		out, errs, ok := ask(command, args...)
		require.True(t, ok, errs)
		return out, errs
	}
	refused := func(t *testing.T, why, command string, args ...string) {
		t.Helper()
		_, errs, ok := ask(command, args...)
		require.False(t, ok)
		require.Contains(t, errs, why)
	}

	t.Run("the kernel's log is shown", func(t *testing.T) {
		out, _ := done(t, "dmesg", "edge-01", "--lines", "10000")
		require.Contains(t, out, "Linux version")
	})
	t.Run("a unit is restarted", func(t *testing.T) {
		before := strings.Count(first(done(t, "logs", "edge-01", "mosquitto")), "mosquitto version")
		_, errs := done(t, "restart", "edge-01", "mosquitto", "--dry-run")
		require.Contains(t, errs, "edge-01: would restart mosquitto.service; nothing was done")
		_, errs = done(t, "restart", "edge-01", "mosquitto")
		require.Contains(t, errs, "edge-01: restarted mosquitto.service")
		_, errs = done(t, "restart", "edge-01", "mqtt-broker")
		require.Contains(t, errs, "edge-01: restarted mosquitto.service")
		out, _ := done(t, "logs", "edge-01", "mosquitto", "--lines", "1000")
		require.GreaterOrEqual(t, strings.Count(out, "mosquitto version"), before+2)
		refused(t, "var.mount is not a unit that can be restarted on edge-01", "restart", "edge-01", "var.mount")
		refused(t, "dbus.service is not a unit", "restart", "edge-01", "dbus")
	})
	t.Run("the API restarts when it has answered", func(t *testing.T) {
		_, errs := done(t, "restart", "edge-01", "spore-api")
		require.Contains(t, errs, "restarts spore-api.service now")
		// What was asked last may still be answered by the one before.
		require.Eventually(t, func() bool {
			out, _, ok := ask("logs", "edge-01", "spore-api", "--lines", "1000")
			return ok && strings.Count(out, "Started spore-api.service") == 2
		}, bootLimit, 2*time.Second)
	})
	t.Run("a reader restarts nothing", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "access")
		require.NoError(t, spore("access", "examples/edge", "--pki", suite.dir, "--role", "reader", "-o", file))
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		access, err := reach.ParseAccess(data)
		require.NoError(t, err)
		client := nodeapi.Client{
			Identity: func() (nodeapi.Identity, error) {
				return nodeapi.Identity{Certificate: []byte(access.Certificate), Key: []byte(access.Key), Authorities: []byte(access.Authorities)}, nil
			},
			Addresses: func(string) ([]string, error) { return []string{at}, nil },
		}
		for _, verb := range nodeapi.Verbs() {
			if nodeapi.Least(verb.Who) == nodeapi.Reader {
				continue
			}
			body, err := json.Marshal(nodeapi.Order{DryRun: true})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + verb.Name, Body: strings.NewReader(string(body))}
			_, err = client.Read(ctx, "edge-01", q, 1<<20)
			var r nodeapi.Refusal
			require.ErrorAs(t, err, &r, verb.Name)
			require.Equal(t, http.StatusForbidden, r.Status, verb.Name)
		}
	})
	t.Run("what would be lost is said, and nothing else is taken", func(t *testing.T) {
		out, errs := done(t, "reset", "edge-01", "--dry-run", "--json")
		require.Contains(t, out+errs, "would delete all state on the boot disk /dev/vda (serial DISK0001)")
		refused(t, "--confirm is", "reset", "edge-01", "--confirm", "DISK0002")
		refused(t, `no disk has the serial`, "reset", "edge-01", "--disk", "DISK0002", "--confirm", "DISK0002")
		_, errs = done(t, "adopt", "edge-01", "--dry-run")
		require.Contains(t, errs, "0 partitions have state that is not this node's")
	})
	t.Run("it shows where it is", func(t *testing.T) {
		out, errs := done(t, "locate", "edge-01", "--for", "2s")
		require.Contains(t, errs, "network cards whose driver has no lamp to blink: ")
		require.Contains(t, out, "/dev/tty1")
		require.Contains(t, errs, "edge-01: used ")
		require.NotContains(t, errs, "not all did")
		g.awaitLine(`HERE IS "edge-01" of cluster "plant"`)
	})
	t.Run("it restarts, and is waited for", func(t *testing.T) {
		_, errs := done(t, "reboot", "--node", "edge-01")
		require.Contains(t, errs, "edge-01: waits for ")
		require.Contains(t, errs, "edge-01: restarted, and up")
		g.awaitLine(`reboot: Restarting system`)
		require.Equal(t, "edge-01", g.running().Node)
	})
}

// first is the first of two.
func first(a, _ string) string { return a }
