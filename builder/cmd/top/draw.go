package top

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// row is a node in the summary.
type row struct {
	node string
	load *machine.Load
	// silent says why there is no load yet.
	silent string
}

// table lays out columns; text in them is made harmless.
type table struct {
	text   bytes.Buffer
	writer *tabwriter.Writer
}

func newTable(header ...string) *table {
	t := &table{}
	t.writer = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.row(header...)
	return t
}

func (t *table) row(columns ...string) {
	for i, c := range columns {
		if columns[i] = nodeapi.Harmless(c); c == "" {
			columns[i] = "-"
		}
	}
	fmt.Fprintln(t.writer, strings.Join(columns, "\t"))
}

func (t *table) lines() []string {
	_ = t.writer.Flush() // Into memory.
	return strings.Split(strings.TrimSuffix(t.text.String(), "\n"), "\n")
}

// summary is a line for each node.
func summary(rows []row) []string {
	t := newTable("NODE", "CPU", "WAIT", "LOAD", "MEMORY", "SWAP", "PRESSURE cpu io memory", "DISK r w", "NETWORK in out", "TASKS", "UP")
	for _, r := range rows {
		if r.load == nil {
			t.row(r.node, r.silent)
			continue
		}
		l := r.load
		read, written, in, out := sums(*l)
		t.row(r.node, percent(100-l.CPU.Idle-l.CPU.Wait), percent(l.CPU.Wait), fmt.Sprintf("%.2f/%d", l.Average[0], l.CPU.Processors),
			of(l.Memory.Total-l.Memory.Available, l.Memory.Total), of(l.Memory.Swap-l.Memory.SwapFree, l.Memory.Swap), pressure(*l),
			rate(read)+" "+rate(written), rate(in)+" "+rate(out), fmt.Sprint(l.Tasks), up(l.Uptime))
	}
	return t.lines()
}

// detail is all of one node, with so many units and processes at most.
func detail(node string, l machine.Load, units, processes int) []string {
	c, m := l.CPU, l.Memory
	lines := []string{
		fmt.Sprintf("%s  up %s  load %.2f %.2f %.2f  %d tasks: %d running, %d blocked, %d zombies", nodeapi.Harmless(node), up(l.Uptime),
			l.Average[0], l.Average[1], l.Average[2], l.Tasks, l.Running, l.Blocked, l.Zombies),
		fmt.Sprintf("cpu (%d)  user %s  system %s  wait %s  stolen %s  idle %s", c.Processors, percent(c.User), percent(c.System),
			percent(c.Wait), percent(c.Steal), percent(c.Idle)),
		fmt.Sprintf("memory  %s used of %s, %s files, %s to be written  swap %s", size(m.Total-m.Available), size(m.Total), size(m.Cached),
			size(m.Dirty), of(m.Swap-m.SwapFree, m.Swap)),
		"pressure (cpu io memory)  " + pressure(l),
	}
	t := newTable("DISK", "READ/s", "WRITTEN/s", "READS/s", "WRITES/s", "BUSY")
	for _, d := range l.Disks {
		t.row(d.Name, size(int64(d.Read)), size(int64(d.Written)), fmt.Sprintf("%.0f", d.Reads), fmt.Sprintf("%.0f", d.Writes), percent(d.Busy))
	}
	n := newTable("LINK", "IN/s", "OUT/s", "LOST/s")
	for i, x := range l.Network {
		if i < 8 {
			n.row(x.Name, size(int64(x.Received)), size(int64(x.Sent)), fmt.Sprintf("%.0f", x.Lost))
		}
	}
	u := newTable("UNIT", "CPU", "MEMORY")
	for i, x := range l.Units {
		if i < units {
			u.row(x.Name, percent(x.CPU), size(x.Memory))
		}
	}
	p := newTable("PID", "USER", "CPU", "MEMORY", "S", "THREADS", "COMMAND", "UNIT")
	for i, x := range l.Processes {
		if i < processes {
			p.row(fmt.Sprint(x.PID), x.User, percent(x.CPU), size(x.Memory), x.State, fmt.Sprint(x.Threads), x.Name, x.Unit)
		}
	}
	for _, t := range []*table{t, n, u, p} {
		lines = append(append(lines, ""), t.lines()...)
	}
	return lines
}

func sums(l machine.Load) (read, written, in, out float64) {
	for _, d := range l.Disks {
		read, written = read+d.Read, written+d.Written
	}
	for _, n := range l.Network {
		in, out = in+n.Received, out+n.Sent
	}
	return read, written, in, out
}

// pressure is that of each kind over ten seconds.
func pressure(l machine.Load) string {
	if l.Pressure == nil {
		return "not known"
	}
	var out []string
	for _, kind := range []string{"cpu", "io", "memory"} {
		out = append(out, percent(l.Pressure[kind].Some10))
	}
	return strings.Join(out, " ")
}

func percent(n float64) string { return fmt.Sprintf("%.0f%%", max(n, 0)) }

// size is an amount of bytes.
func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func rate(n float64) string { return strings.ReplaceAll(size(int64(n)), " ", "") + "/s" }

// of is a part of a whole.
func of(part, whole int64) string {
	if whole <= 0 {
		return "none"
	}
	return fmt.Sprintf("%s of %s", percent(100*float64(part)/float64(whole)), size(whole))
}

// up is a time in days, hours and minutes.
func up(seconds float64) string {
	d := time.Duration(min(max(seconds, 0), 1e9)) * time.Second
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
}
