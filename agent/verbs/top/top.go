// Package top has the verb top: what the machine does now, by /proc and control groups (proc(5), cgroups(7)):
// processors, memory, pressure, disks, network, and the units and processes that use most.
//
// The parsers are our own. github.com/prometheus/procfs reads much more of each file than is shown, and the arguments
// of processes stay here in any case: they can hold secrets.
package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/wire/machine"
)

// What stands for arguments that were left out.
const (
	defaultSeconds = "1"
	defaultCount   = "1"
	defaultRows    = "40"
)

// Bounds of what is read and answered.
const (
	maxFile      = 1 << 20
	maxSmallFile = 4 << 10
	maxDevices   = 4096
	maxUsers     = 4096
	maxProcesses = 1 << 16
	maxGroups    = 4096
	maxDepth     = 10
	// shownDevices is how many disks and how many interfaces are in an answer.
	shownDevices = 64
)

// Show answers with a machine.Load for each interval.
func Show(ctx context.Context, r *verbs.Run) (string, error) {
	var numbers [3]int
	for i, a := range [][2]string{{"seconds", defaultSeconds}, {"count", defaultCount}, {"rows", defaultRows}} {
		n, err := strconv.Atoi(r.Argument(a[0], a[1]))
		if err != nil {
			return "", fmt.Errorf("internal error: %w", err)
		}
		numbers[i] = n
	}
	seconds, count, rows := numbers[0], numbers[1], numbers[2]
	w := watcher{root: r.Machine.Root, rows: rows, summary: r.Argument("summary", "no") == "yes", now: time.Now}
	w.users = parseUsers(w.read("/etc/passwd", maxFile))
	old, err := w.sample()
	if err != nil {
		return "", err
	}
	each := time.NewTicker(time.Duration(seconds) * time.Second)
	defer each.Stop()
	for range count {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-each.C:
		}
		now, err := w.sample()
		if err != nil {
			return "", err
		}
		if err := r.Result(w.load(now, old)); err != nil {
			return "", err
		}
		old = now
	}
	return fmt.Sprintf("looked %d times at %d seconds", count, seconds), nil
}

// watcher reads counters below a root.
type watcher struct {
	root    paths.Root
	rows    int
	summary bool
	users   map[uint32]string
	now     func() time.Time
}

// sample is all counters at a time.
type sample struct {
	at        time.Time
	cpu       cpuTimes
	disks     map[string]diskCounts
	links     map[string]linkCounts
	units     map[string]unitCounts
	processes map[int]processTimes
	tasks     int
}

type unitCounts struct {
	used   uint64 // Microseconds.
	memory int64
}

// read reads a file that is bounded; one that cannot be read is empty.
func (w watcher) read(name string, most int64) string {
	f, err := os.Open(w.root.At(name))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(data)
}

func (w watcher) sample() (s sample, err error) {
	s.at = w.now()
	var ok bool
	if s.cpu, ok = parseStat(w.read("/proc/stat", maxFile)); !ok {
		return s, fmt.Errorf("the kernel does not say what the processors did: /proc/stat cannot be read")
	}
	s.disks, s.links = parseDisks(w.read("/proc/diskstats", maxFile)), parseLinks(w.read("/proc/net/dev", maxFile))
	dir, err := os.Open(w.root.At("/proc"))
	if err != nil {
		return s, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return s, fmt.Errorf("list processes: %w", err)
	}
	s.processes = map[int]processTimes{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid < 1 {
			continue
		}
		if s.tasks++; w.summary || len(s.processes) == maxProcesses {
			continue
		}
		if p, ok := parseProcess(w.read("/proc/"+name+"/stat", maxSmallFile)); ok {
			s.processes[pid] = p
		}
	}
	if !w.summary {
		s.units = w.groups()
	}
	return s, nil
}

// groups reads the control groups of units.
func (w watcher) groups() map[string]unitCounts {
	const top = "/sys/fs/cgroup"
	out := map[string]unitCounts{}
	seen := 0
	base := w.root.At(top)
	_ = filepath.WalkDir(base, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || !e.IsDir():
			return nil // It has gone meanwhile, or is a file of the group.
		case seen == maxGroups:
			return fs.SkipAll
		}
		seen++
		inner, _ := filepath.Rel(base, name)
		if isUnit(e.Name()) {
			at := filepath.Join(top, inner)
			memory := int64(min(number(strings.TrimSpace(w.read(at+"/memory.current", maxSmallFile))), 1<<60))
			out[e.Name()] = unitCounts{parseUsage(w.read(at+"/cpu.stat", maxSmallFile)), memory}
			return fs.SkipDir
		}
		if strings.Count(inner, "/") >= maxDepth {
			return fs.SkipDir
		}
		return nil
	})
	return out
}

// load is what happened between two samples.
func (w watcher) load(now, old sample) machine.Load {
	seconds := max(now.at.Sub(old.at).Seconds(), 1e-3)
	out := machine.Load{
		At: now.at.UnixMilli(), Seconds: seconds, CPU: now.cpu.since(old.cpu), Memory: parseMemory(w.read("/proc/meminfo", maxFile)),
		Average: parseAverage(w.read("/proc/loadavg", maxSmallFile)), Tasks: now.tasks, Running: now.cpu.running, Blocked: now.cpu.blocked,
	}
	out.Uptime = parseAverage(w.read("/proc/uptime", maxSmallFile))[0]
	for _, kind := range []string{"cpu", "io", "memory"} {
		if p, ok := parsePressure(w.read("/proc/pressure/"+kind, maxSmallFile)); ok {
			if out.Pressure == nil {
				out.Pressure = map[string]machine.Pressure{}
			}
			out.Pressure[kind] = p
		}
	}
	out.Disks, out.Network = w.disks(now, old, seconds), network(now, old, seconds)
	if !w.summary {
		out.Units, out.Processes = units(now, old, seconds, w.rows), w.processes(now, old, seconds)
		for _, p := range now.processes {
			if p.state == "Z" {
				out.Zombies++
			}
		}
	}
	return out
}

// disks are those that have hardware behind them; the kernel lists partitions and volumes as well.
func (w watcher) disks(now, old sample, seconds float64) (out []machine.DiskRate) {
	for _, name := range slices.Sorted(maps.Keys(now.disks)) {
		if _, err := os.Stat(w.root.At("/sys/block/" + filepath.Base(name) + "/device")); err == nil && len(out) < shownDevices {
			out = append(out, now.disks[name].since(name, old.disks[name], seconds))
		}
	}
	return out
}

// network is the interfaces through which most went, but the loopback.
func network(now, old sample, seconds float64) (out []machine.LinkRate) {
	for _, name := range slices.Sorted(maps.Keys(now.links)) {
		before, known := old.links[name]
		if name != "lo" && known {
			out = append(out, now.links[name].since(name, before, seconds))
		}
	}
	slices.SortStableFunc(out, func(a, b machine.LinkRate) int { return cmp.Compare(b.Received+b.Sent, a.Received+a.Sent) })
	return out[:min(len(out), shownDevices)]
}

func units(now, old sample, seconds float64, rows int) (out []machine.UnitLoad) {
	for _, name := range slices.Sorted(maps.Keys(now.units)) {
		u, before := now.units[name], now.units[name]
		if b, known := old.units[name]; known {
			before = b
		}
		out = append(out, machine.UnitLoad{Name: name, CPU: grown(u.used, before.used) / 1e4 / seconds, Memory: u.memory})
	}
	slices.SortStableFunc(out, func(a, b machine.UnitLoad) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
	})
	return out[:min(len(out), rows)]
}

// processes are those that used most. Only of them the user and the unit are asked.
func (w watcher) processes(now, old sample, seconds float64) (out []machine.Process) {
	for _, pid := range slices.Sorted(maps.Keys(now.processes)) {
		p := now.processes[pid]
		before, known := old.processes[pid]
		if !known || before.started != p.started {
			before = processTimes{} // It began meanwhile: all that it used is of the interval.
		}
		out = append(out, machine.Process{
			PID: pid, CPU: grown(p.used, before.used) * 100 / ticks / seconds, Memory: p.pages * int64(os.Getpagesize()),
			State: p.state, Threads: p.threads, Name: p.name,
		})
	}
	slices.SortStableFunc(out, func(a, b machine.Process) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory))
	})
	out = out[:min(len(out), w.rows)]
	for i := range out {
		dir := "/proc/" + strconv.Itoa(out[i].PID)
		out[i].Unit, out[i].User = unitOf(w.read(dir+"/cgroup", maxSmallFile)), w.owner(dir)
	}
	return out
}

// owner is the user that a process acts as: that of its directory (proc(5)).
func (w watcher) owner(dir string) string {
	info, err := os.Stat(w.root.At(dir))
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	if name := w.users[stat.Uid]; name != "" {
		return name
	}
	return strconv.FormatUint(uint64(stat.Uid), 10)
}
