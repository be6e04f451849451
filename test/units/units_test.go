// Package units holds the systemd units of the image against systemd's own opinion of them.
package units

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/coldplug"
)

// mostExposure is what `systemd-analyze security` may say of a unit.
const mostExposure = 4.0

// exceptions are units that need more; each says why in a comment of its own.
var exceptions = map[string]float64{
	"spore-console.service": 9.9, // the login on the console that was asked for
	"spore-shell@.service":  9.8, // a shell of root that may do everything, in images that ask for it
	"containerd.service":    9.7, // containers inherit what is taken from it
	"kubelet.service":       8.4, // mounts for pods
	"spore-state.service":   5.0, // formats disks, and what it mounts on /var is for everybody to see
	"spore-act@.service":    4.8, // deletes disks, restarts the machine, and gives up data of services
	"rbd-node.service":      4.2, // mounts for pods, and mount(8) calls fchown
	"cephfs-node.service":   4.2, // likewise
}

func TestServicesAreHardened(t *testing.T) {
	files, err := filepath.Glob("../../units/*.service")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		path, err := filepath.Abs(f)
		require.NoError(t, err)
		name := filepath.Base(f)
		t.Run(name, func(t *testing.T) {
			most := mostExposure
			if e, ok := exceptions[name]; ok {
				most = e
			}
			got := exposure(t, path)
			require.LessOrEqual(t, got, most, "see systemd-analyze security --offline=yes %s", path)
		})
	}
}

// What spore-agent becomes would be logged as spore-agent, by the name that systemd started.
func TestWhatTheAgentBecomesIsLoggedByItsOwnName(t *testing.T) {
	files, err := filepath.Glob("../../units/*.service")
	require.NoError(t, err)
	becomes := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/spore-agent render .* -- /\S+/(\S+)`)
	seen := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if m := becomes.FindSubmatch(text); m != nil {
			seen++
			require.Contains(t, string(text), "\nSyslogIdentifier="+string(m[1])+"\n", f)
		}
	}
	require.Positive(t, seen)
}

// What coldplug leaves out before the roles is what it takes up after them: a device in neither half would have no
// driver.
func TestTheHalvesOfColdplugFitTogether(t *testing.T) {
	conditions := func(path, kind string) map[string]bool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		out := map[string]bool{}
		for _, m := range regexp.MustCompile(`--(subsystem|attr)-`+kind+`=(\S+)`).FindAllStringSubmatch(string(text), -1) {
			require.False(t, out[m[1]+" "+m[2]], "%s has it twice: %s", path, m[0])
			out[m[1]+" "+m[2]] = true
		}
		return out
	}
	first := conditions("../../overlay/usr/lib/systemd/system/systemd-udev-trigger.service.d/50-spore.conf", "nomatch")
	second := conditions("../../units/spore-coldplug.service", "match")
	require.NotEmpty(t, second)
	require.True(t, second["attr class="+coldplug.StorageClass], "what spore-agent looks for before, where it wants a disk")
	for c := range second {
		require.True(t, first[c], "%s is triggered twice", c)
		delete(first, c)
	}
	// What has neither driver nor rule, of all devices.
	never := []string{"attr dev=4:6[0-3]", "attr dev=4:[02-9]", "attr dev=4:[1-5][0-9]"}
	for _, s := range []string{"ata_device", "ata_link", "ata_port", "bdi", "clockevents", "clocksource", "container", "event_source",
		"machinecheck", "mem", "memory", "node", "nvmem", "pci_bus", "regulator", "scsi_host", "serial-base", "vc", "vtconsole", "wakeup", "workqueue"} {
		never = append(never, "subsystem "+s)
	}
	require.Equal(t, never, slices.Sorted(maps.Keys(first)))
}

// exposure is the overall level, from 0 to 10.
func exposure(t *testing.T, path string) float64 {
	t.Helper()
	text, err := exec.Command("systemd-analyze", "security", "--offline=yes", path).Output()
	require.NoError(t, err, "run make deps")
	_, level, ok := strings.Cut(string(text), strings.Replace(filepath.Base(path), "@.", "@i.", 1)+": ") // It looks at an instance of a template.
	require.True(t, ok, "%s", text)
	var v float64
	require.NoError(t, json.Unmarshal([]byte(strings.Fields(level)[0]), &v))
	return v
}
