//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

// looksAtItsMachine has edge-01 tell of its disks, its load and its network, by the node's API alone. ask runs a
// command of the program.
func looksAtItsMachine(t *testing.T, ask func(command string, args ...string) (out, errs string, ok bool)) {
	done := func(t *testing.T, command string, args ...string) (out, errs string) {
		t.Helper()
		out, errs, ok := ask(command, args...)
		require.True(t, ok, errs)
		return out, errs
	}
	t.Run("its disks, and what selects them", func(t *testing.T) {
		out, errs := done(t, "disks", "--node", "edge-01")
		require.Regexp(t, `(?m)^edge-01: vda, .*virtio`, out)
		require.Contains(t, out, "  boot: the machine was booted from it, and its state (/var) is on it\n")
		require.Contains(t, out, `{serial: "DISK0001"}`)
		require.Regexp(t, `(?m)^  \d+ .* spore-state .* /var .*\d+%, .* free`, out)
		require.Contains(t, errs, "edge-01: 1 disks")
	})
	t.Run("what it does now", func(t *testing.T) {
		out, _ := done(t, "top", "--node", "edge-01", "--once", "--rows", "1000", "--json")
		var all []struct{ Results []machine.Load }
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Len(t, all[0].Results, 1)
		l := all[0].Results[0]
		require.Positive(t, l.Memory.Available)
		require.NotEmpty(t, l.Disks)
		require.NotEmpty(t, l.Network)
		i := slices.IndexFunc(l.Processes, func(p machine.Process) bool { return p.Name == "mosquitto" })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, "mosquitto.service", l.Processes[i].Unit)
		require.Equal(t, "mosquitto", l.Processes[i].User)
		i = slices.IndexFunc(l.Units, func(u machine.UnitLoad) bool { return u.Name == "mosquitto.service" })
		require.GreaterOrEqual(t, i, 0)
		require.Positive(t, l.Units[i].Memory)
	})
	t.Run("how it is connected", func(t *testing.T) {
		out, _ := done(t, "net", "edge-01")
		require.Regexp(t, `(?m)^\S+ +card +52:54:00:\S+ +up .* `+edgeIP+`/\d+`, out)
		require.Contains(t, out, "LLDP: no switch or router was heard\n", "systemd-networkd was asked")
	})
	t.Run("what it reaches", func(t *testing.T) {
		done(t, "net", "edge-01", "ping", edgeIP, "--count", "1")
		out, _ := done(t, "net", "edge-01", "tcp", apiPort, "--count", "1")
		require.Contains(t, out, "connected from ")
		out, _ = done(t, "net", "edge-01", "dns", "edge-01.plant.example", "--server", edgeIP, "--count", "1")
		require.Contains(t, out, edgeIP+":53 A")
		require.Regexp(t, ` ms: `+edgeIP+`\n`, out)
	})
	t.Run("packets are captured", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "a.pcap")
		type said struct {
			errs string
			ok   bool
		}
		ended := make(chan said, 1)
		go func() {
			_, errs, ok := ask("capture", "edge-01", "--interface", "lo", "--filter", "icmp and host 127.0.0.1", "--packets", "4", "--for", "2m", "-o", file)
			ended <- said{errs, ok}
		}()
		for {
			select {
			case end := <-ended:
				require.True(t, end.ok, end.errs)
				require.Contains(t, end.errs, "the kernel dropped 0; it ended because 4 packets were asked for")
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				r, err := pcapgo.NewReader(bytes.NewReader(data))
				require.NoError(t, err)
				for range 4 {
					_, _, err := r.ReadPacketData()
					require.NoError(t, err)
				}
				_, _, err = r.ReadPacketData()
				require.True(t, errors.Is(err, io.EOF))
				return
			default: // Until the capture has begun, nobody sees it.
				done(t, "net", "edge-01", "ping", "127.0.0.1", "--count", "2")
			}
		}
	})
}
