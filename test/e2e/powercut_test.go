//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/chance"
	"spore/test/client"
	"spore/test/powercut"
)

// Scenario 5: the power goes during the first boot.

const (
	// settleTime is given to the first boot after its roles run, so that the log holds the last of its writes: ext4
	// commits every 5 seconds, and the kernel writes back what is older than 30.
	settleTime = 35 * time.Second
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s is %q; it is a number", name, text)
	return n
}

// The fault matrix has such cuts, too, and make test draws some of them.
func TestAfterAPowerCutInTheFirstBootTheNextBootIsWhole(t *testing.T) {
	inTurn(t)
	cuts, seed := int(setting(t, "SPORE_SOAK", 0)), chance.Seed(t)
	if cuts == 0 {
		t.Skip("elsewhere: make soak; the fault matrix has rows of it")
	}
	b := newBroker(t)
	dir := t.TempDir()
	log, machineID := recordFirstBoot(t, b, dir, diskSize)
	t.Logf("%d writes in the first boot", log.Writes())

	rng := rand.New(rand.NewPCG(seed, 0))
	table := &cutTable{seed: seed, writes: log.Writes()}
	t.Cleanup(func() {
		fmt.Print(table.String())
		writeResult("powercuts.md", table.String())
	})
	t.Run("cut", func(t *testing.T) {
		for i := range cuts {
			// One cut in each equal part of the log, so that few of them reach from its first write to its last.
			low, high := log.Writes()*i/cuts, log.Writes()*(i+1)/cuts
			cut, err := log.Cut(1+low+rng.IntN(max(1, high-low)), rng.Uint64())
			require.NoError(t, err)
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				inTurn(t)
				t.Log(cut)
				row := cutRow{number: i + 1, cut: cut, result: "NOT WHOLE"}
				defer func() { table.add(row) }()
				s, wall := bootAfter(t, b, log, cut)
				require.Equal(t, machineID, s.MachineID)
				row.result, row.wall = "whole", wall
			})
		}
	})
}

// firstBootVars is the file with the firmware's variables after the first boot.
const firstBootVars = "first-boot.vars.fd"

// recordFirstBoot boots edge-01 for the first time and returns the log of its disk of a size in bytes, which is
// first-boot.img in the folder.
func recordFirstBoot(t *testing.T, b broker, dir string, size int64) (*powercut.Log, string) {
	t.Helper()
	path := filepath.Join(dir, "writes.log")
	image := filepath.Join(dir, "first-boot.img")
	require.NoError(t, vm.Copy(suite.image, image, size))
	disk := bootDisk(image)
	disk.WriteLog = path
	c := edge("first-boot", disk)
	c.SMBIOS = b.bundle(t, "edge-01")
	g := boot(t, c)
	s := g.running()
	require.Equal(t, "partition", s.State.Kind)
	op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
	require.NoError(t, op.Publish("sensors/first", "1", true))
	time.Sleep(settleTime)
	g.off()
	require.NoError(t, vm.Copy(g.Config.VarsPath(), filepath.Join(dir, firstBootVars), 0))

	log := readLog(t, path)
	return log, s.MachineID
}

// bootAfter boots a disk that went through the cut. Whole means: the node runs all its roles on its state partition,
// and keeps what it is given.
func bootAfter(t *testing.T, b broker, log *powercut.Log, cut powercut.Cut) (vm.Status, time.Duration) {
	t.Helper()
	path := rawCopy(t)
	replay(t, log, cut, path)

	c := edge(fmt.Sprintf("cut-%d", cut.Write), bootDisk(path))
	c.SMBIOS = b.bundle(t, "edge-01")
	g := boot(t, c)
	started := time.Now()
	s := g.running()
	wall := time.Since(started)
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, "partition", s.State.Kind, s.Raw)
	require.Empty(t, s.State.Warning)
	require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles)

	op := b.mustDial(t, g, edgeIP, "edge-01", "operator")
	require.NoError(t, op.Publish("sensors/again", "2", true))
	require.NoError(t, op.Subscribe("sensors/#"))
	m, err := op.Await("sensors/again", time.Minute)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "2", Retained: true}, m)
	g.off()
	return s, wall
}

// cutTable is what docs/ keeps of a soak.
type cutTable struct {
	mu     sync.Mutex
	seed   uint64
	writes int
	rows   []cutRow
}

type cutRow struct {
	number int
	cut    powercut.Cut
	result string
	wall   time.Duration
}

func (c *cutTable) add(r cutRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, r)
}

func (c *cutTable) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sort.Slice(c.rows, func(i, j int) bool { return c.rows[i].number < c.rows[j].number })
	var b strings.Builder
	fmt.Fprintf(&b, "\nPower cuts in the first boot of edge-01: %d writes, seed %d\n\n", c.writes, c.seed)
	b.WriteString("| cut | after write | flushed | later pieces kept | lost | next boot | seconds |\n|---|---|---|---|---|---|---|\n")
	for _, r := range c.rows {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d | %s | %.0f |\n", r.number, r.cut.Write, r.cut.Flushed, r.cut.Kept, r.cut.Dropped, r.result, r.wall.Seconds())
	}
	return b.String()
}
