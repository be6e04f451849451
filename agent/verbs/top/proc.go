package top

import (
	"math"
	"path"
	"strconv"
	"strings"

	"spore/wire/machine"
)

// ticks is what the kernel counts time in towards programs, a second (Linux, USER_HZ: 100 on all that Spore runs on).
const ticks = 100

// processTimes is what /proc/PID/stat says of a process (proc_pid_stat(5)).
type processTimes struct {
	name, state string
	// used is user and system time in ticks, started the time since the boot at which it began, by which a process is
	// told from another one with the same number.
	used, started uint64
	threads       int
	// pages is what it has in memory.
	pages int64
}

// parseProcess reads /proc/PID/stat. The name stands in parentheses and can have anything in it, parentheses too.
func parseProcess(text string) (p processTimes, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return p, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 22 {
		return p, false
	}
	p.name, p.state = text[open+1:end], f[0]
	p.used = saturated(number(f[11]), number(f[12]))
	p.threads = int(min(number(f[17]), math.MaxInt32))
	p.started = number(f[19])
	p.pages = int64(min(number(f[21]), 1<<50))
	return p, len(p.state) == 1
}

// unitOf is the unit of systemd that a control group belongs to, by /proc/PID/cgroup (cgroups(7)); empty for the
// kernel's threads.
func unitOf(text string) string {
	for line := range strings.Lines(text) {
		group, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		slice := ""
		for part := range strings.SplitSeq(group, "/") {
			switch {
			case isUnit(part):
				return part
			case strings.HasSuffix(part, ".slice"):
				slice = part
			}
		}
		return slice
	}
	return ""
}

// isUnit tells of a unit that has processes of its own.
func isUnit(name string) bool {
	switch path.Ext(name) {
	case ".service", ".scope", ".socket", ".mount", ".swap":
		return true
	}
	return false
}

// cpuTimes is the first line of /proc/stat (proc_stat(5)), in ticks.
type cpuTimes struct {
	user, system, idle, wait, steal uint64
	processors, running, blocked    int
}

func parseStat(text string) (c cpuTimes, ok bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 9 && f[0] == "cpu":
			c.user = saturated(number(f[1]), number(f[2]))                 // With nice.
			c.system = saturated(number(f[3]), number(f[6]), number(f[7])) // With interrupts.
			c.idle, c.wait, c.steal = number(f[4]), number(f[5]), number(f[8])
			ok = true
		case len(f) > 1 && strings.HasPrefix(f[0], "cpu"):
			c.processors++
		case len(f) == 2 && f[0] == "procs_running":
			c.running = int(min(number(f[1]), math.MaxInt32))
		case len(f) == 2 && f[0] == "procs_blocked":
			c.blocked = int(min(number(f[1]), math.MaxInt32))
		}
	}
	return c, ok
}

// since is shares of the time since an earlier reading, in percent.
func (c cpuTimes) since(old cpuTimes) machine.CPU {
	user, system, idle := grown(c.user, old.user), grown(c.system, old.system), grown(c.idle, old.idle)
	wait, steal := grown(c.wait, old.wait), grown(c.steal, old.steal)
	whole := max(user+system+idle+wait+steal, 1)
	return machine.CPU{
		Processors: c.processors, User: 100 * user / whole, System: 100 * system / whole,
		Wait: 100 * wait / whole, Steal: 100 * steal / whole, Idle: 100 * idle / whole,
	}
}

// parseMemory reads /proc/meminfo (proc_meminfo(5)).
func parseMemory(text string) (m machine.Memory) {
	fields := map[string]*int64{
		"MemTotal": &m.Total, "MemAvailable": &m.Available, "Cached": &m.Cached, "Dirty": &m.Dirty, "SwapTotal": &m.Swap, "SwapFree": &m.SwapFree,
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		if to := fields[name]; to != nil && len(f) > 0 {
			*to = int64(min(number(f[0]), 1<<50)) << 10 // It says kB and means 1024 bytes.
		}
	}
	return m
}

// parsePressure reads a file of /proc/pressure (Linux Documentation/accounting/psi.rst).
func parsePressure(text string) (p machine.Pressure, ok bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		ten, sixty := share(f[1], "avg10="), share(f[2], "avg60=")
		switch f[0] {
		case "some":
			p.Some10, p.Some60, ok = ten, sixty, true
		case "full":
			p.Full10, p.Full60 = ten, sixty
		}
	}
	return p, ok
}

func share(text, key string) float64 {
	value, found := strings.CutPrefix(text, key)
	n, err := strconv.ParseFloat(value, 64)
	if !found || err != nil || !(n >= 0 && n <= 100) {
		return 0
	}
	return n
}

// parseAverage reads the numbers that begin /proc/loadavg or /proc/uptime (proc_loadavg(5), proc_uptime(5)).
func parseAverage(text string) (out [3]float64) {
	f := strings.Fields(text)
	for i := range min(len(f), len(out)) {
		if n, err := strconv.ParseFloat(f[i], 64); err == nil && n >= 0 && n < 1e9 {
			out[i] = n
		}
	}
	return out
}

// diskCounts is a line of /proc/diskstats (Linux Documentation/admin-guide/iostats.rst).
type diskCounts struct {
	reads, writes, readBytes, writtenBytes, busy uint64 // busy is in milliseconds.
}

func parseDisks(text string) map[string]diskCounts {
	out := map[string]diskCounts{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 13 || len(out) == maxDevices {
			continue
		}
		const sector = 512 // Whatever that of the disk is.
		out[f[2]] = diskCounts{number(f[3]), number(f[7]), number(f[5]) * sector, number(f[9]) * sector, number(f[12])}
	}
	return out
}

func (d diskCounts) since(name string, old diskCounts, seconds float64) machine.DiskRate {
	return machine.DiskRate{
		Name: name, Read: grown(d.readBytes, old.readBytes) / seconds, Written: grown(d.writtenBytes, old.writtenBytes) / seconds,
		Reads: grown(d.reads, old.reads) / seconds, Writes: grown(d.writes, old.writes) / seconds,
		Busy: min(100, grown(d.busy, old.busy)/seconds/10),
	}
}

// linkCounts is a line of /proc/net/dev (proc_pid_net(5)).
type linkCounts struct{ received, sent, lost uint64 }

func parseLinks(text string) map[string]linkCounts {
	out := map[string]linkCounts{}
	for line := range strings.Lines(text) {
		name, values, ok := strings.Cut(line, ":")
		f := strings.Fields(values)
		if !ok || len(f) < 12 || len(out) == maxDevices {
			continue
		}
		lost := saturated(number(f[2]), number(f[3]), number(f[10]), number(f[11]))
		out[strings.TrimSpace(name)] = linkCounts{number(f[0]), number(f[8]), lost}
	}
	return out
}

func (l linkCounts) since(name string, old linkCounts, seconds float64) machine.LinkRate {
	return machine.LinkRate{
		Name: name, Received: grown(l.received, old.received) / seconds, Sent: grown(l.sent, old.sent) / seconds,
		Lost: grown(l.lost, old.lost) / seconds,
	}
}

// parseUsage reads cpu.stat of a control group (Linux Documentation/admin-guide/cgroup-v2.rst): microseconds.
func parseUsage(text string) uint64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "usage_usec" {
			return number(f[1])
		}
	}
	return 0
}

// parseUsers reads names by number of /etc/passwd (passwd(5)).
func parseUsers(text string) map[uint32]string {
	out := map[uint32]string{}
	for line := range strings.Lines(text) {
		f := strings.Split(line, ":")
		if len(f) < 3 || len(out) == maxUsers {
			continue
		}
		if id, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			out[uint32(id)] = f[0]
		}
	}
	return out
}

// number is a number, or 0.
func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// saturated is a sum that does not wrap.
func saturated(numbers ...uint64) (sum uint64) {
	for _, n := range numbers {
		if sum += n; sum < n {
			return math.MaxUint64
		}
	}
	return sum
}

// grown is by how much a counter has grown; 0 when it began again.
func grown(now, old uint64) float64 {
	if now < old {
		return 0
	}
	return float64(now - old)
}
