// Package machine measures a node by what its kernel says: processors, memory, pressure, disks, file systems, cards,
// temperatures and the clock, from /proc, /sys and adjtimex(2) by the library procfs. Families, labels and units are
// those of node_exporter (github.com/prometheus/node_exporter, collectors of the same names), so that rules and
// dashboards for it hold here.
//
// It leaves out what node_exporter has and an appliance does not: wireless cards, NFS, text files. File systems of pods
// are not asked, since one whose storage is gone would never answer.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
	"github.com/prometheus/procfs/sysfs"
	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/metrics/family"
	"spore/storage/atomicfile"
)

// Bounds of what is told of one machine.
const (
	maxFileSystems = 64
	maxCards       = 64
	maxDisks       = 256
	maxSensors     = 256
	sectorSize     = 512
)

// Machine is where the kernel's files are, "/" on a node.
type Machine struct {
	Root string
	// Statfs asks a file system, unix.Statfs but in tests; Adjtimex is unix.Adjtimex.
	Statfs   func(path string, into *unix.Statfs_t) error
	Adjtimex func(*unix.Timex) (int, error)

	mu sync.Mutex
	// told are the times of processors that were told last, by processor and mode.
	told map[[2]string]float64
}

// New is the machine below root.
func New(root string) *Machine {
	return &Machine{Root: root, Statfs: unix.Statfs, Adjtimex: unix.Adjtimex}
}

// part is something that is measured. One that fails costs its own rows.
type part struct {
	name    string
	measure func(*Machine, *family.Sink) error
}

// parts are those that the kernel knows without asking anybody.
var parts = []part{
	{"processors", (*Machine).processors},
	{"load", (*Machine).load},
	{"memory", (*Machine).memory},
	{"pressure", (*Machine).pressure},
	{"disks", (*Machine).disks},
	{"file systems", (*Machine).fileSystems},
	{"cards", (*Machine).cards},
	{"clock", (*Machine).clock},
	{"system", (*Machine).system},
}

// Measure adds what the kernel knows. The errors are of parts that it does not say anything of, joined.
func (m *Machine) Measure(ctx context.Context, into *family.Sink) error {
	return m.measure(ctx, parts, into)
}

// Sensors adds what the kernel has to ask chips and disks for: that takes up to seconds where a bus is slow or a
// controller hangs.
func (m *Machine) Sensors(ctx context.Context, into *family.Sink) error {
	return m.measure(ctx, []part{{"temperatures", (*Machine).temperatures}}, into)
}

func (m *Machine) measure(ctx context.Context, parts []part, into *family.Sink) error {
	var errs []error
	for _, p := range parts {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		if err := p.measure(m, into); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("measure %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

func (m *Machine) at(path string) string { return filepath.Join(m.Root, path) }

func (m *Machine) proc() (procfs.FS, error) { return procfs.NewFS(m.at("proc")) }

func (m *Machine) processors(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	s, err := p.Stat()
	if err != nil {
		return err
	}
	for n, c := range s.CPU {
		cpu := strconv.FormatInt(n, 10)
		for mode, seconds := range map[string]float64{
			"user": c.User, "nice": c.Nice, "system": c.System, "idle": c.Idle, "iowait": c.Iowait, "irq": c.IRQ,
			"softirq": c.SoftIRQ, "steal": c.Steal,
		} {
			into.Add("node_cpu_seconds_total", m.forward(cpu, mode, seconds), cpu, mode)
		}
		into.Add("node_cpu_guest_seconds_total", m.forward(cpu, "guest", c.Guest), cpu, "user")
		into.Add("node_cpu_guest_seconds_total", m.forward(cpu, "guest_nice", c.GuestNice), cpu, "nice")
	}
	into.Add("node_boot_time_seconds", float64(s.BootTime))
	into.Add("node_context_switches_total", float64(s.ContextSwitches))
	into.Add("node_forks_total", float64(s.ProcessCreated))
	into.Add("node_intr_total", float64(s.IRQTotal))
	into.Add("node_procs_running", float64(s.ProcessesRunning))
	into.Add("node_procs_blocked", float64(s.ProcessesBlocked))
	return nil
}

// backwards is by how many seconds the kernel's time of a processor may go back that it counts on: idle and iowait do
// so (proc_stat(5)). Whoever takes rates of them would take that for a new start, and all of the time since the
// machine's start for that of a moment. One that goes back further was taken out and put in again. node_exporter has
// the same bound.
const backwards = 3

// forward is the time of a processor in one mode, without the small steps back.
func (m *Machine) forward(cpu, mode string, seconds float64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{cpu, mode}
	if last := m.told[key]; seconds < last && last-seconds < backwards {
		return last
	}
	if m.told == nil {
		m.told = map[[2]string]float64{}
	}
	m.told[key] = seconds
	return seconds
}

func (m *Machine) load(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	l, err := p.LoadAvg()
	if err != nil {
		return err
	}
	into.Add("node_load1", l.Load1)
	into.Add("node_load5", l.Load5)
	into.Add("node_load15", l.Load15)
	return nil
}

// memory adds what /proc/meminfo has of the rows, in bytes, and the counters of /proc/vmstat that tell a machine that
// has too little.
func (m *Machine) memory(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	i, err := p.Meminfo()
	if err != nil {
		return err
	}
	for name, bytes := range map[string]*uint64{
		"MemTotal": i.MemTotalBytes, "MemFree": i.MemFreeBytes, "MemAvailable": i.MemAvailableBytes,
		"Buffers": i.BuffersBytes, "Cached": i.CachedBytes, "Dirty": i.DirtyBytes, "Writeback": i.WritebackBytes,
		"Shmem": i.ShmemBytes, "Slab": i.SlabBytes, "SReclaimable": i.SReclaimableBytes,
		"SwapTotal": i.SwapTotalBytes, "SwapFree": i.SwapFreeBytes, "Committed_AS": i.CommittedASBytes,
		"HardwareCorrupted": i.HardwareCorruptedBytes,
	} {
		if bytes != nil {
			into.Add("node_memory_"+name+"_bytes", float64(*bytes))
		}
	}
	return m.virtualMemory(into)
}

// virtualMemory reads /proc/vmstat, of which procfs has no parser: NAME VALUE a line (proc_vmstat(5)).
func (m *Machine) virtualMemory(into *family.Sink) error {
	data, err := atomicfile.ReadLimited(m.at("proc/vmstat"), 256<<10)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(vmstat, name) {
			continue
		}
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			into.Add("node_vmstat_"+name, float64(v))
		}
	}
	return nil
}

// vmstat are the lines of /proc/vmstat that are told.
var vmstat = []string{"oom_kill", "pgfault", "pgmajfault", "pgpgin", "pgpgout", "pswpin", "pswpout"}

func (m *Machine) pressure(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	for _, resource := range []string{"cpu", "io", "memory"} {
		s, err := p.PSIStatsForResource(resource)
		if err != nil {
			return err
		}
		if s.Some != nil {
			into.Add("node_pressure_"+resource+"_waiting_seconds_total", float64(s.Some.Total)/1e6)
		}
		if s.Full != nil && resource != "cpu" {
			into.Add("node_pressure_"+resource+"_stalled_seconds_total", float64(s.Full.Total)/1e6)
		}
	}
	return nil
}

// disks adds what the kernel counts of each disk; partitions and mapped devices are left out.
func (m *Machine) disks(into *family.Sink) error {
	list, err := blockdev.List(os.DirFS(m.at("sys")))
	if err != nil {
		return err
	}
	is := map[string]bool{}
	for _, d := range list[:min(len(list), maxDisks)] {
		if !d.Optical {
			is[d.Name] = true
			into.Add("node_disk_info", 1, d.Name, d.Model, d.Serial)
			into.Add("spore_disk_size_bytes", float64(d.Size), d.Name)
		}
	}
	b, err := blockdevice.NewFS(m.at("proc"), m.at("sys"))
	if err != nil {
		return err
	}
	stats, err := b.ProcDiskstats()
	if err != nil {
		return err
	}
	for _, s := range stats {
		if !is[s.DeviceName] {
			continue
		}
		d := s.DeviceName
		into.Add("node_disk_reads_completed_total", float64(s.ReadIOs), d)
		into.Add("node_disk_read_bytes_total", float64(s.ReadSectors)*sectorSize, d)
		into.Add("node_disk_read_time_seconds_total", float64(s.ReadTicks)/1e3, d)
		into.Add("node_disk_writes_completed_total", float64(s.WriteIOs), d)
		into.Add("node_disk_written_bytes_total", float64(s.WriteSectors)*sectorSize, d)
		into.Add("node_disk_write_time_seconds_total", float64(s.WriteTicks)/1e3, d)
		into.Add("node_disk_io_now", float64(s.IOsInProgress), d)
		into.Add("node_disk_io_time_seconds_total", float64(s.IOsTotalTicks)/1e3, d)
		into.Add("node_disk_io_time_weighted_seconds_total", float64(s.WeightedIOTicks)/1e3, d)
		if s.IoStatsCount >= 18 {
			into.Add("node_disk_discards_completed_total", float64(s.DiscardIOs), d)
			into.Add("node_disk_discarded_sectors_total", float64(s.DiscardSectors), d)
		}
		if s.IoStatsCount >= 20 {
			into.Add("node_disk_flush_requests_total", float64(s.FlushRequestsCompleted), d)
			into.Add("node_disk_flush_requests_time_seconds_total", float64(s.TimeSpentFlushing)/1e3, d)
		}
	}
	return nil
}

// local are the types of file systems that answer whatever the network does.
var local = []string{"btrfs", "ext4", "squashfs", "tmpfs", "vfat", "xfs"}

// notWritten are the options of file systems that take no writes: mounted so, or stopped by ext4 after an error, which
// leaves rw as it is (Linux 6.15, fs/ext4/super.c, _ext4_show_options).
var notWritten = []string{"ro", "emergency_ro", "shutdown"}

// fileSystems asks each local file system once. Mounts of pods are left out, and so are those of units for themselves.
func (m *Machine) fileSystems(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	one, err := p.Proc(1)
	if err != nil {
		return err
	}
	mounts, err := one.MountInfo()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, mount := range mounts {
		at := unescaped(mount.MountPoint)
		known := seen[mount.MajorMinorVer] || seen[at] || len(seen) >= 2*maxFileSystems
		if known || !slices.Contains(local, mount.FSType) || hidden(at) {
			continue
		}
		seen[mount.MajorMinorVer], seen[at] = true, true
		var s unix.Statfs_t
		labels := []string{unescaped(mount.Source), mount.FSType, at}
		if err := m.Statfs(at, &s); err != nil {
			into.Add("node_filesystem_device_error", 1, labels...)
			continue
		}
		readOnly := slices.ContainsFunc(notWritten, func(option string) bool { _, has := mount.SuperOptions[option]; return has })
		into.Add("node_filesystem_device_error", 0, labels...)
		into.Flag("node_filesystem_readonly", readOnly, labels...)
		into.Add("node_filesystem_size_bytes", float64(s.Blocks)*float64(s.Bsize), labels...)
		into.Add("node_filesystem_free_bytes", float64(s.Bfree)*float64(s.Bsize), labels...)
		into.Add("node_filesystem_avail_bytes", float64(s.Bavail)*float64(s.Bsize), labels...)
		into.Add("node_filesystem_files", float64(s.Files), labels...)
		into.Add("node_filesystem_files_free", float64(s.Ffree), labels...)
	}
	return nil
}

// unescaped is a path of mountinfo as it is: there, spaces, tabs, line ends and backslashes are octal numbers
// (proc_pid_mountinfo(5)).
func unescaped(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// hidden are the mounts of pods and containers, and of credentials of units.
func hidden(at string) bool {
	for _, dir := range []string{
		"/var/lib/kubelet/", "/run/containerd/", "/run/netns/", "/run/credentials/", "/run/user/", "/dev/", "/proc/",
		"/sys/",
	} {
		if strings.HasPrefix(at, dir) {
			return true
		}
	}
	return false
}

// virtual are the cards of pods.
var virtual = []string{"cali", "veth", "lxc"}

func (m *Machine) cards(into *family.Sink) error {
	p, err := m.proc()
	if err != nil {
		return err
	}
	// /proc/net is of the network of who reads it.
	lines, err := p.NetDev()
	if err != nil {
		return err
	}
	s, err := sysfs.NewFS(m.at("sys"))
	if err != nil {
		return err
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		if !slices.ContainsFunc(virtual, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxCards)] {
		l := lines[name]
		for what, n := range map[string]uint64{
			"receive_bytes": l.RxBytes, "receive_packets": l.RxPackets, "receive_errs": l.RxErrors,
			"receive_drop": l.RxDropped, "receive_fifo": l.RxFIFO, "receive_frame": l.RxFrame,
			"receive_multicast": l.RxMulticast, "transmit_bytes": l.TxBytes, "transmit_packets": l.TxPackets,
			"transmit_errs": l.TxErrors, "transmit_drop": l.TxDropped, "transmit_fifo": l.TxFIFO,
			"transmit_colls": l.TxCollisions, "transmit_carrier": l.TxCarrier,
		} {
			into.Add("node_network_"+what+"_total", float64(n), name)
		}
		if i, err := s.NetClassByIface(name); err == nil {
			card(into, i)
		}
	}
	return m.bonds(into)
}

// card adds the state of a card; what a card does not have is left out.
func card(into *family.Sink, i *sysfs.NetClassIface) {
	into.Flag("node_network_up", i.OperState == "up", i.Name)
	for name, v := range map[string]*int64{
		"node_network_carrier": i.Carrier, "node_network_mtu_bytes": i.MTU,
		"node_network_carrier_changes_total":      i.CarrierChanges,
		"node_network_carrier_up_changes_total":   i.CarrierUpCount,
		"node_network_carrier_down_changes_total": i.CarrierDownCount,
	} {
		if v != nil {
			into.Add(name, float64(*v), i.Name)
		}
	}
	if i.Speed != nil && *i.Speed > 0 { // in Mbit/s; -1 without a link
		into.Add("node_network_speed_bytes", float64(*i.Speed)*1e6/8, i.Name)
	}
}

// bonds adds how many legs each bond has, and how many of them have a link (Linux,
// Documentation/networking/bonding.rst).
func (m *Machine) bonds(into *family.Sink) error {
	masters, err := atomicfile.ReadLimited(m.at("sys/class/net/bonding_masters"), 64<<10)
	if err != nil {
		return err
	}
	file := func(card, name string) string { return m.at(filepath.Join("sys/class/net", filepath.Base(card), name)) }
	for _, bond := range strings.Fields(string(masters)) {
		text, err := atomicfile.ReadLimited(file(bond, "bonding/slaves"), 64<<10)
		if err != nil {
			continue
		}
		legs, up := strings.Fields(string(text)), 0
		for _, leg := range legs {
			state, err := atomicfile.ReadLimited(file(leg, "bonding_slave/mii_status"), 64)
			if err == nil && strings.TrimSpace(string(state)) == "up" {
				up++
			}
		}
		into.Add("node_bonding_slaves", float64(len(legs)), bond)
		into.Add("node_bonding_active", float64(up), bond)
	}
	return nil
}

// clock adds what the kernel keeps of the time (adjtimex(2)).
func (m *Machine) clock(into *family.Sink) error {
	var t unix.Timex
	state, err := m.Adjtimex(&t)
	if err != nil {
		return err
	}
	unit := 1e6 // of offsets, a second in microseconds
	if t.Status&unix.STA_NANO != 0 {
		unit = 1e9
	}
	into.Flag("node_timex_sync_status", state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0)
	into.Add("node_timex_offset_seconds", float64(t.Offset)/unit)
	into.Add("node_timex_maxerror_seconds", float64(t.Maxerror)/1e6)
	into.Add("node_timex_estimated_error_seconds", float64(t.Esterror)/1e6)
	into.Add("node_timex_frequency_adjustment_ratio", 1+float64(t.Freq)/65536/1e6)
	into.Add("node_timex_status", float64(t.Status))
	now := float64(t.Time.Sec) + float64(t.Time.Usec)/unit
	into.Add("node_time_seconds", now)
	return nil
}

// system adds who the kernel is, and its open files.
func (m *Machine) system(into *family.Sink) error {
	read := func(name string) string {
		data, err := atomicfile.ReadLimited(m.at("proc/sys/kernel/"+name), 4<<10)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	into.Add("node_uname_info", 1, read("hostname"), read("osrelease"), read("version"))
	data, err := atomicfile.ReadLimited(m.at("proc/sys/fs/file-nr"), 4<<10)
	if err != nil {
		return err
	}
	if f := strings.Fields(string(data)); len(f) == 3 {
		for name, text := range map[string]string{"node_filefd_allocated": f[0], "node_filefd_maximum": f[2]} {
			if v, err := strconv.ParseUint(text, 10, 64); err == nil {
				into.Add(name, float64(v))
			}
		}
	}
	return nil
}
