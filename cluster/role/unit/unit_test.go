package unit

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/role"
)

var update = flag.Bool("update", false, "write testdata/ anew")

// roles are what testdata/ has the texts of, one file each.
func roles(t *testing.T) map[string]*role.Definition {
	c, report := cluster.LoadDir("../../../examples/own-valkey")
	require.Len(t, c.Roles, 2, report.String())
	return map[string]*role.Definition{
		"valkey": c.Roles[1],
		"gateway": {
			Name: "gateway", Description: "100 % of a PLC", Programs: []string{"gateway"}, Units: []string{"gateway.service", "backup@daily.timer"},
			User:        &role.User{Name: "gateway", Groups: []string{"dialout"}},
			Directories: []role.Directory{{Path: "/var/lib/gateway"}, {Path: "/run/gateway", Owner: "root", Group: "gateway", Mode: "0770"}},
			Health:      &role.Health{Command: []string{"gateway", "--check"}},
			Tests:       []role.Test{{Command: []string{"gateway", "--read", "0"}, Expect: "pressure"}},
			Secrets:     map[string]role.Secret{"tls": {Certificate: &role.Certificate{}}},
			Needs: &role.Needs{
				Network: true, Capabilities: []string{"CAP_NET_RAW", "CAP_SYS_TIME"}, Sockets: []string{"AF_CAN"}, Devices: []string{"/dev/ttyS0", "char-ttyUSB"},
				Write: []string{"/var/log/gateway"}, Compiles: true, Namespaces: true, Realtime: true, SystemCalls: []string{"@mount", "mlock"},
			},
		},
		"store": {
			Name: "store", Description: "a store on disks of its own", Units: []string{"store.service"}, User: &role.User{Name: "store"},
			Disks: &role.Disks{Use: "store", At: "/var/lib/store-disks"},
		},
		"becomes": {
			Name: "becomes", Description: "a program that becomes another user", Units: []string{"becomes.service"}, Needs: &role.Needs{Root: true},
			Files: []role.File{{Path: "/run/becomes/x", Template: "x.tmpl"}},
		},
		"held": {
			Name: "held", Description: "a program with a quota", Units: []string{"held.service"}, User: &role.User{Name: "held"},
			Directories: []role.Directory{{Path: "/var/lib/held", Quota: "2GiB"}},
		},
		"small": {Name: "small", Description: "the least that a role says", Units: []string{"small.service"}},
	}
}

// all is everything that this package says of a role, for a person to review.
func all(d *role.Definition) string {
	var b strings.Builder
	part := func(name, text string) { b.WriteString("==> " + name + " <==\n" + text + "\n") }
	part(d.Target(), Target(d))
	drops := DropIns(d)
	for _, name := range slices.Sorted(maps.Keys(drops)) {
		part(name, drops[name])
	}
	health := healthUnits(d)
	for _, name := range slices.Sorted(maps.Keys(health)) {
		part(name, health[name])
	}
	tests := testUnits(d)
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		part(name, tests[name])
	}
	if d.Disks != nil {
		part(d.DisksName()+".service", disksUnit(d))
	}
	part("sysusers.d", Sysusers(d))
	part("tmpfiles.d", Tmpfiles(d))
	part("preset", Preset(d))
	return b.String()
}

func TestWhatSystemdIsToldOfARole(t *testing.T) {
	for name, d := range roles(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(all(d)), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), all(d), "run go test ./cluster/role/unit -update, and read what it changed")
		})
	}
}

// A role without needs has what units of ours have in common.
func TestARoleIsHardenedAsOurUnitsAre(t *testing.T) {
	data, err := os.ReadFile("../../../units/mosquitto.service")
	require.NoError(t, err)
	_, ours, _ := strings.Cut(string(data), "CapabilityBoundingSet=")
	d := roles(t)["valkey"]
	text := DropIns(d)["valkey-server.service.d/"+DropIn]
	for _, line := range strings.Split("CapabilityBoundingSet="+ours, "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			require.Contains(t, strings.Split(text, "\n"), line)
		}
	}
}

// The disks of a role are prepared as Kafka's are.
func TestDisksArePreparedAsThoseOfKafka(t *testing.T) {
	data, err := os.ReadFile("../../../units/kafka-disks.service")
	require.NoError(t, err)
	_, ours, _ := strings.Cut(string(data), "CapabilityBoundingSet=")
	text := disksUnit(roles(t)["store"])
	require.True(t, strings.HasSuffix(text, "\nCapabilityBoundingSet="+ours), "the sandbox of kafka-disks.service")
}

func TestWhatAnImageHasOfARole(t *testing.T) {
	all := roles(t)
	require.Equal(t, []string{
		"/etc/systemd/system/valkey-server.service.d/90-role.conf", "/etc/systemd/system/valkey.target", "/usr/lib/spore/role-valkey.conf",
		"/usr/lib/systemd/system-preset/40-role-valkey.preset", "/usr/lib/sysusers.d/role-valkey.conf",
	}, slices.Sorted(maps.Keys(Files(all["valkey"]))))
	require.Equal(t, []string{
		"/etc/systemd/system/small.service.d/90-role.conf", "/etc/systemd/system/small.target", "/usr/lib/systemd/system-preset/40-role-small.preset",
	}, slices.Sorted(maps.Keys(Files(all["small"]))))
}
