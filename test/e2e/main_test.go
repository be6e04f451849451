//go:build e2e

// Package e2e boots the built image in QEMU, under UEFI firmware, and asks it what its users would ask. One image, that
// of examples/edge with keys of the suite's own, serves nearly every test; each test's name says what is true.
//
// SPORE_SOAK is the number of power cuts (default 3), SPORE_SEED repeats what another run chose by chance.
// SPORE_RESULTS is a folder for the tables that are also printed. At most two machines run at a time, and those tests
// begin first that take longest; this needs a -parallel as large as the number of tests.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"spore/builder/vm"
)

const (
	// sourceTree is the project, seen from here.
	sourceTree = "../.."
	// bootLimit is how long a machine may take until its roles run; emulation beside other machines is slow.
	bootLimit = 6 * time.Minute
	// diskSize is that of the machines' disks, in bytes: larger than the image, so that there is room for state.
	diskSize = 12 << 30
)

// suite is what all tests share; TestMain sets it before the first.
var suite struct {
	*plant
	accel vm.Accel
	// vars is a file with the variables of firmware that was started once.
	vars     string
	machines *machines
	turns    *turns
	mu       sync.Mutex
	boots    []bootTimes
	costs    map[string]cost // by test
	// hostTime is held by whoever has this host serve the time on its loopback, which every machine reaches, or needs that
	// nobody does. Take it before a slot.
	hostTime sync.Mutex
}

// passwords are those of the brokers' users.
var passwords = map[string]string{"sensor": "sensor-pässword", "operator": "operator #1"}

// given are the secrets that the operator brings.
func given() map[string]string {
	out := map[string]string{}
	for user, password := range passwords {
		out["mqtt-password-"+user] = password
	}
	return out
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "spore-e2e-*")
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the end-to-end tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	printBootTable()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func prepare(dir string) error {
	suite.machines, suite.turns = &machines{processors: runtime.NumCPU(), proc: "/proc"}, &turns{free: places}
	go suite.machines.watch()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if suite.accel, err = vm.DetectAccel(ctx); err != nil {
		return err
	}
	if suite.vars, err = startedFirmware(context.Background(), suite.accel, dir); err != nil {
		return err
	}
	suite.plant, err = buildPlant("examples/edge", dir, given(), "disk", "iso", "netboot", "uki")
	return err
}

// bootTimes is one row of the table: when each phase of a boot began, on the host's clock and in QEMU's CPU time.
type bootTimes struct {
	name   string
	phases map[string]vm.Line
	status vm.Status
}

// phases are the marks of a boot on the console, in order.
var phases = []struct{ name, pattern string }{
	{"kernel", `Linux version`},
	{"stage1", `spore stage1:`},
	{"systemd", `systemd\[1\]: systemd \d+|Welcome to`},
	{"running", ``}, // the status line that says so
}

func recordBoot(b bootTimes) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	suite.boots = append(suite.boots, b)
}

// printBootTable prints when each phase began, wall / CPU seconds since QEMU was started, and the agent's own CPU.
func printBootTable() {
	if len(suite.boots) == 0 {
		return
	}
	sort.Slice(suite.boots, func(i, j int) bool { return suite.boots[i].name < suite.boots[j].name })
	var b strings.Builder
	fmt.Fprintf(&b, "\nBoots (%s, -cpu %s), wall / CPU seconds from power-on; the agent's CPU in milliseconds in the guest\n\n| machine |", suite.accel.Name, suite.accel.CPU)
	for _, p := range phases {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString(" agent |\n|---|" + strings.Repeat("---|", len(phases)+1) + "\n")
	for _, boot := range suite.boots {
		fmt.Fprintf(&b, "| %s |", boot.name)
		for _, p := range phases {
			if l, ok := boot.phases[p.name]; ok {
				fmt.Fprintf(&b, " %.1f / %.1f |", l.Wall.Seconds(), l.CPU.Seconds())
			} else {
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(&b, " %.0f |\n", boot.status.CPU)
	}
	printGuestTimes(&b)
	printCosts(&b)
	fmt.Print(b.String())
	writeResult("boots.md", b.String())
}

// guestSteps are those of the status line's times.
var guestSteps = []string{"kernel", "stage1", "detect", "network", "state", "mount", "activated", "running"}

// printGuestTimes adds what the machines themselves say.
func printGuestTimes(b *strings.Builder) {
	b.WriteString("\nThe same boots by their own clock: seconds since the kernel started\n\n| machine |")
	for _, step := range guestSteps {
		fmt.Fprintf(b, " %s |", step)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(guestSteps)) + "\n")
	for _, boot := range suite.boots {
		fmt.Fprintf(b, "| %s |", boot.name)
		for _, step := range guestSteps {
			if v, ok := boot.status.Times[step]; ok {
				fmt.Fprintf(b, " %.1f |", v)
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteByte('\n')
	}
}

// cost is what the machines of a test took; those that a command of spore started are not among them.
type cost struct {
	machines, starts int
	cpu              time.Duration
}

// recordCost counts a machine that has ended.
func recordCost(test string, m *vm.Machine) {
	starts := 0
	for _, l := range m.Console.Lines(0) {
		if strings.Contains(l.Text, "] Linux version ") {
			starts++
		}
	}
	suite.mu.Lock()
	defer suite.mu.Unlock()
	if suite.costs == nil {
		suite.costs = map[string]cost{}
	}
	test, _, _ = strings.Cut(test, "/")
	c := suite.costs[test]
	suite.costs[test] = cost{c.machines + 1, c.starts + starts, c.cpu + m.CPU()}
}

// printCosts adds what each test took, the most expensive first.
func printCosts(b *strings.Builder) {
	b.WriteString("\nThe same machines by test: how many, how often their kernels started, and CPU seconds of QEMU\n\n| test | machines | starts | CPU s |\n|---|--:|--:|--:|\n")
	var sum cost
	for _, test := range slices.SortedFunc(maps.Keys(suite.costs), func(a, b string) int { return cmp.Compare(suite.costs[b].cpu, suite.costs[a].cpu) }) {
		c := suite.costs[test]
		sum = cost{sum.machines + c.machines, sum.starts + c.starts, sum.cpu + c.cpu}
		fmt.Fprintf(b, "| %s | %d | %d | %.0f |\n", test, c.machines, c.starts, c.cpu.Seconds())
	}
	fmt.Fprintf(b, "| all | %d | %d | %.0f |\n", sum.machines, sum.starts, sum.cpu.Seconds())
}

// writeResult keeps a table in the folder SPORE_RESULTS, if that is set.
func writeResult(name, text string) {
	dir := os.Getenv("SPORE_RESULTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "keep results:", err)
	}
}
