//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/wire/machine"
)

const (
	// storeDisk is the serial number of the disk of the store of metrics, and storeDiskSize its size in bytes.
	storeDisk     = "EDGE-01-METRICS"
	storeDiskSize = 5 << 30
	// storeMount is where it is mounted.
	storeMount = "/var/lib/metrics-disks/1"
)

// givesTheStoreADisk has the store of metrics wait for a disk of its own.
func (p *ownPlant) givesTheStoreADisk() {
	p.t.Helper()
	p.Write(p.t, "nodes/edge-01.yaml", fmt.Sprintf("node: edge-01\ndisks:\n  - {use: metrics, selector: {serial: %s}}\n", storeDisk))
}

// emptyStoreDisk is a disk for the store that was never used.
func emptyStoreDisk(t *testing.T) vm.Disk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.img")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(storeDiskSize))
	require.NoError(t, f.Close())
	return vm.Disk{Path: path, Serial: storeDisk}
}

// stored waits until the store has the answer to a query, as an operator asks it, and returns it.
func (p *ownPlant) stored(what, query string, more ...string) (out []machine.Series) {
	p.t.Helper()
	p.g.within(what, func() error {
		text, err := p.spore(append([]string{"metrics", p.Dir, query, "--json"}, more...)...)
		if err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		var answers []struct {
			Results [][]machine.Series `json:"results"`
		}
		if err := json.Unmarshal([]byte(text), &answers); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		out = nil
		for _, a := range answers {
			out = append(out, slices.Concat(a.Results...)...)
		}
		if len(out) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return out
}

// storesOnItsDisk requires that the store has its data on the disk, and tells of the disk as of others. It returns when
// the store had something, by the node's clock.
func (p *ownPlant) storesOnItsDisk() time.Time {
	p.t.Helper()
	p.says("the disk is in use", `(?m)^.* disks +ok +1 in use$`, "health", "--all")
	p.says("whose it is", `it is metrics disk 1 of this node\n +selectors: {serial: "`+storeDisk+`"}`, "disks")
	size := p.stored("the disk's file system is told of", `node_filesystem_size_bytes{mountpoint="`+storeMount+`",fstype="ext4"}`)
	require.Len(p.t, size, 1)
	require.Equal(p.t, "edge-01", size[0].Labels["instance"])
	up := p.stored("the node is asked", `up{job="node"} == 1`)
	require.Len(p.t, up, 1)
	return time.Unix(int64(up[0].Samples[0].At), 0)
}

// had requires that the store still has what it had at a time, and has it nowhere but on its disk. The last sample of that
// time may be another one by now: it has the time at which the question to the node began, and comes when that has an
// answer, or fails.
func (p *ownPlant) had(at time.Time) {
	p.t.Helper()
	old := p.stored("what was stored before", `max_over_time(up{job="node"}[5m])`, "--until", at.UTC().Format(time.RFC3339))
	require.Equal(p.t, "1", old[0].Samples[0].Value)
	require.Equal(p.t, []string{"ext4"}, p.g.shell("findmnt -no FSTYPE "+storeMount))
	require.Equal(p.t, []string{"root 755", "victoria-metrics 750"}, p.g.shell("stat -c '%U %a' "+storeMount+" "+storeMount+"/victoria-metrics"))
	require.Equal(p.t, []string{"none"}, p.g.shell("ls -A /var/lib/victoria-metrics | grep . || echo none"), "nothing is on the state")
}

// takesTheDisk takes the disk from the machine while the store is off, and starts the store, which begins to wait.
func (p *ownPlant) takesTheDisk() {
	p.t.Helper()
	p.g.shell("systemctl stop victoria-metrics.service metrics-disks.service && umount " + storeMount)
	p.g.shell(`d=$(grep -l ` + storeDisk + ` /sys/block/*/serial) && echo 1 >$(readlink -f ${d%/serial})/../../../remove`)
	require.Equal(p.t, []string{"none"}, p.g.shell("grep -l "+storeDisk+" /sys/block/*/serial || echo none"))
	p.g.shell("systemctl start --no-block metrics-disks.service victoria-metrics.service")
}

// waitsForItsDisk requires that the store does not start without its disk, says so, and starts with what it had when the
// disk is back.
func (p *ownPlant) waitsForItsDisk(at time.Time) {
	p.t.Helper()
	missing := regexp.MustCompile(`(?m)^.* disks +failing +metrics disk serial ` + storeDisk + `: metrics disk 1: no disk has the serial "` + storeDisk + `"`)
	p.g.within("health says that the disk is missing", func() error {
		out, err := p.spore("health", p.Dir, "--node", "edge-01")
		if missing.MatchString(out) {
			return nil
		}
		return errors.Join(err, errors.New(out))
	})
	p.logs("victoria-metrics", `gives it a disk \(use: metrics\), and it keeps nothing elsewhere. It waits for the disk, and starts when metrics-disks.service has it; .*`)
	require.Equal(p.t, []string{"none"}, p.g.shell("grep -slx victoria-metric /proc/[0-9]*/comm || echo none"), "its name is cut")
	require.Equal(p.t, []string{"none"}, p.g.shell("ls -A /var/lib/victoria-metrics "+storeMount+" | grep -v : | grep . || echo none"), "nothing is on the state")
	p.g.shell("echo 1 >/sys/bus/pci/rescan")
	p.says("the disk is in use again", `(?m)^.* disks +ok +1 in use$`, "health", "--all")
	p.had(at)
}
