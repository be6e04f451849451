package machine

import "spore/agent/metrics/family"

// Families is the table of this package.
func Families() []family.Family {
	out := append([]family.Family(nil), single...)
	for _, name := range meminfo {
		out = append(out, family.Family{
			Name: "node_memory_" + name[0] + "_bytes", Type: family.Gauge, Help: name[1], From: "/proc/meminfo",
		})
	}
	for _, name := range counted {
		out = append(out, family.Family{
			Name: "node_vmstat_" + name[0], Type: family.Unknown, Help: name[1], From: "/proc/vmstat",
		})
	}
	for _, name := range networkCounters {
		out = append(out, family.Family{
			Name: "node_network_" + name[0] + "_total", Type: family.Counter, Labels: []string{"device"}, Help: name[1],
			From: "/proc/net/dev",
		})
	}
	return out
}

var meminfo = [][2]string{
	{"MemTotal", "Memory that the kernel can use."},
	{"MemFree", "Memory that nobody uses."},
	{"MemAvailable", "Memory that programs can have without swapping."},
	{"Buffers", "Memory of buffers of block devices."},
	{"Cached", "Memory of the page cache."},
	{"Dirty", "Memory that waits to be written to a disk."},
	{"Writeback", "Memory that is being written to a disk."},
	{"Shmem", "Memory that processes share, and that of tmpfs."},
	{"Slab", "Memory of the kernel's own objects."},
	{"SReclaimable", "Memory of the kernel's own objects that it can give up."},
	{"SwapTotal", "Size of the swap."},
	{"SwapFree", "Swap that nobody uses."},
	{"Committed_AS", "Memory that was promised to processes."},
	{"HardwareCorrupted", "Memory that the kernel no longer uses because of hardware errors."},
}

var counted = [][2]string{
	{"oom_kill", "Processes that were killed because there was no memory left."},
	{"pgfault", "Page faults."},
	{"pgmajfault", "Page faults that read a disk."},
	{"pgpgin", "KiB that were read from disks."},
	{"pgpgout", "KiB that were written to disks."},
	{"pswpin", "Pages that were read from the swap."},
	{"pswpout", "Pages that were written to the swap."},
}

var networkCounters = [][2]string{
	{"receive_bytes", "Bytes received."},
	{"receive_packets", "Packets received."},
	{"receive_errs", "Packets received with errors."},
	{"receive_drop", "Packets received and dropped."},
	{"receive_fifo", "Packets lost because a buffer of the card was full."},
	{"receive_frame", "Packets received with errors of framing."},
	{"receive_multicast", "Packets received for groups."},
	{"transmit_bytes", "Bytes sent."},
	{"transmit_packets", "Packets sent."},
	{"transmit_errs", "Packets that could not be sent."},
	{"transmit_drop", "Packets dropped before they were sent."},
	{"transmit_fifo", "Packets not sent because a buffer of the card was full or empty."},
	{"transmit_colls", "Collisions."},
	{"transmit_carrier", "Packets not sent because the link was lost."},
}

var (
	device = []string{"device"}
	mount  = []string{"device", "fstype", "mountpoint"}
	chip   = []string{"chip", "sensor"}
)

var single = []family.Family{
	{Name: "node_cpu_seconds_total", Type: family.Counter, Labels: []string{"cpu", "mode"}, From: "/proc/stat",
		Help: "Time of each processor, by what it did."},
	{Name: "node_cpu_guest_seconds_total", Type: family.Counter, Labels: []string{"cpu", "mode"}, From: "/proc/stat",
		Help: "Time that a processor gave to virtual machines; user and nice have it too."},
	{Name: "node_boot_time_seconds", Type: family.Gauge, From: "/proc/stat",
		Help: "When the machine was started, in Unix time."},
	{Name: "node_context_switches_total", Type: family.Counter, From: "/proc/stat",
		Help: "Changes from one process to another."},
	{Name: "node_forks_total", Type: family.Counter, From: "/proc/stat",
		Help: "Processes that were made."},
	{Name: "node_intr_total", Type: family.Counter, From: "/proc/stat",
		Help: "Interrupts."},
	{Name: "node_procs_running", Type: family.Gauge, From: "/proc/stat",
		Help: "Processes that run or could."},
	{Name: "node_procs_blocked", Type: family.Gauge, From: "/proc/stat",
		Help: "Processes that wait for a disk."},
	{Name: "node_load1", Type: family.Gauge, From: "/proc/loadavg",
		Help: "Processes that run or wait for a disk, over one minute."},
	{Name: "node_load5", Type: family.Gauge, From: "/proc/loadavg",
		Help: "Processes that run or wait for a disk, over five minutes."},
	{Name: "node_load15", Type: family.Gauge, From: "/proc/loadavg",
		Help: "Processes that run or wait for a disk, over fifteen minutes."},
	{Name: "node_pressure_cpu_waiting_seconds_total", Type: family.Counter, From: "/proc/pressure",
		Help: "Time in which a process waited for a processor."},
	{Name: "node_pressure_io_waiting_seconds_total", Type: family.Counter, From: "/proc/pressure",
		Help: "Time in which a process waited for a disk."},
	{Name: "node_pressure_io_stalled_seconds_total", Type: family.Counter, From: "/proc/pressure",
		Help: "Time in which all processes waited for a disk."},
	{Name: "node_pressure_memory_waiting_seconds_total", Type: family.Counter, From: "/proc/pressure",
		Help: "Time in which a process waited for memory."},
	{Name: "node_pressure_memory_stalled_seconds_total", Type: family.Counter, From: "/proc/pressure",
		Help: "Time in which all processes waited for memory."},

	{Name: "node_disk_info", Type: family.Gauge, Labels: []string{"device", "model", "serial"}, From: "/sys/block",
		Help: "1 for each disk, with its model and serial number."},
	{Name: "spore_disk_size_bytes", Type: family.Gauge, Labels: device, From: "/sys/block",
		Help: "Size of the disk."},
	{Name: "node_disk_reads_completed_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Reads."},
	{Name: "node_disk_read_bytes_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Bytes read."},
	{Name: "node_disk_read_time_seconds_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Time that all reads took together."},
	{Name: "node_disk_writes_completed_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Writes."},
	{Name: "node_disk_written_bytes_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Bytes written."},
	{Name: "node_disk_write_time_seconds_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Time that all writes took together."},
	{Name: "node_disk_io_now", Type: family.Gauge, Labels: device, From: "/proc/diskstats",
		Help: "Reads and writes in progress."},
	{Name: "node_disk_io_time_seconds_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Time in which the disk worked."},
	{Name: "node_disk_io_time_weighted_seconds_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Time in which the disk worked, times what was in progress."},
	{Name: "node_disk_discards_completed_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Discards."},
	{Name: "node_disk_discarded_sectors_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Sectors discarded."},
	{Name: "node_disk_flush_requests_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Flushes of the disk's cache."},
	{Name: "node_disk_flush_requests_time_seconds_total", Type: family.Counter, Labels: device, From: "/proc/diskstats",
		Help: "Time that all flushes took together."},

	{Name: "node_filesystem_size_bytes", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "Size of the file system."},
	{Name: "node_filesystem_free_bytes", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "What is free in the file system."},
	{Name: "node_filesystem_avail_bytes", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "What programs other than those of root can still use."},
	{Name: "node_filesystem_files", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "Files that the file system has room for; 0 where it has no table of them."},
	{Name: "node_filesystem_files_free", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "Files that the file system still has room for."},
	{Name: "node_filesystem_readonly", Type: family.Gauge, Labels: mount, From: "/proc/1/mountinfo",
		Help: "1 where the file system is read-only."},
	{Name: "node_filesystem_device_error", Type: family.Gauge, Labels: mount, From: "statfs(2)",
		Help: "1 where the file system could not be asked."},

	{Name: "node_network_up", Type: family.Gauge, Labels: device, From: "/sys/class/net",
		Help: "1 where the card works."},
	{Name: "node_network_carrier", Type: family.Gauge, Labels: device, From: "/sys/class/net",
		Help: "1 where the card has a link."},
	{Name: "node_network_mtu_bytes", Type: family.Gauge, Labels: device, From: "/sys/class/net",
		Help: "Largest packet."},
	{Name: "node_network_speed_bytes", Type: family.Gauge, Labels: device, From: "/sys/class/net",
		Help: "Speed of the link, in bytes a second."},
	{Name: "node_network_carrier_changes_total", Type: family.Counter, Labels: device, From: "/sys/class/net",
		Help: "How often the link came or went."},
	{Name: "node_network_carrier_up_changes_total", Type: family.Counter, Labels: device, From: "/sys/class/net",
		Help: "How often the link came."},
	{Name: "node_network_carrier_down_changes_total", Type: family.Counter, Labels: device, From: "/sys/class/net",
		Help: "How often the link went."},
	{Name: "node_bonding_slaves", Type: family.Gauge, Labels: []string{"master"}, From: "/sys/class/net",
		Help: "Cards of the bond."},
	{Name: "node_bonding_active", Type: family.Gauge, Labels: []string{"master"}, From: "/sys/class/net",
		Help: "Cards of the bond with a link."},

	{Name: "node_hwmon_chip_names", Type: family.Gauge, Labels: []string{"chip", "chip_name"}, From: "/sys/class/hwmon",
		Help: "1 for each chip with sensors, with the name that its driver gives it."},
	{Name: "node_hwmon_sensor_label", Type: family.Gauge, Labels: []string{"chip", "sensor", "label"},
		From: "/sys/class/hwmon", Help: "1 for each sensor that its driver says something of."},
	{Name: "node_hwmon_temp_celsius", Type: family.Gauge, Labels: chip, From: "/sys/class/hwmon",
		Help: "Temperature."},
	{Name: "node_hwmon_temp_max_celsius", Type: family.Gauge, Labels: chip, From: "/sys/class/hwmon",
		Help: "Temperature that the part should not exceed."},
	{Name: "node_hwmon_temp_crit_celsius", Type: family.Gauge, Labels: chip, From: "/sys/class/hwmon",
		Help: "Temperature at which the part is damaged or switches itself off."},
	{Name: "node_hwmon_fan_rpm", Type: family.Gauge, Labels: chip, From: "/sys/class/hwmon",
		Help: "Turns of a fan in a minute."},
	{Name: "node_thermal_zone_temp", Type: family.Gauge, Labels: []string{"type", "zone"}, From: "/sys/class/thermal",
		Help: "Temperature of a zone in degrees Celsius."},

	{Name: "node_time_seconds", Type: family.Gauge, From: "adjtimex(2)",
		Help: "The node's Unix time."},
	{Name: "node_timex_sync_status", Type: family.Gauge, From: "adjtimex(2)",
		Help: "1 while a time server keeps the clock."},
	{Name: "node_timex_offset_seconds", Type: family.Gauge, From: "adjtimex(2)",
		Help: "By how much the clock still has to be moved."},
	{Name: "node_timex_maxerror_seconds", Type: family.Gauge, From: "adjtimex(2)",
		Help: "By how much the clock may be wrong at most."},
	{Name: "node_timex_estimated_error_seconds", Type: family.Gauge, From: "adjtimex(2)",
		Help: "By how much the clock is probably wrong."},
	{Name: "node_timex_frequency_adjustment_ratio", Type: family.Gauge, From: "adjtimex(2)",
		Help: "By how much the clock is made faster."},
	{Name: "node_timex_status", Type: family.Gauge, From: "adjtimex(2)",
		Help: "Bits of the state of the clock (STA_*)."},
	{Name: "node_uname_info", Type: family.Gauge, Labels: []string{"nodename", "release", "version"},
		From: "/proc/sys/kernel", Help: "1, with the name of the node and the version of its kernel."},
	{Name: "node_filefd_allocated", Type: family.Gauge, From: "/proc/sys/fs/file-nr",
		Help: "Files that are open."},
	{Name: "node_filefd_maximum", Type: family.Gauge, From: "/proc/sys/fs/file-nr",
		Help: "Files that can be open."},
}
