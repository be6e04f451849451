package look

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/screen/page"
)

// maxSensors is how many temperatures are shown.
const maxSensors = 8

// hardware reads what the machine is made of: its own words (DMI, as the kernel gives them), processors, memory,
// temperatures.
func (l Looker) hardware() *page.Hardware {
	h := &page.Hardware{}
	add := func(name, value string) {
		if value != "" {
			h.Rows = append(h.Rows, [2]string{name, value})
		}
	}
	dmi := func(names ...string) string {
		var parts []string
		for _, n := range names {
			if v := l.text("/sys/class/dmi/id/" + n); v != "" {
				parts = append(parts, v)
			}
		}
		return strings.Join(parts, " ")
	}
	add("maker", dmi("sys_vendor"))
	add("model", dmi("product_name", "product_version"))
	add("serial", dmi("product_serial"))
	add("UUID", dmi("product_uuid"))
	add("board", dmi("board_vendor", "board_name"))
	add("firmware", dmi("bios_vendor", "bios_version", "bios_date"))
	add("processor", l.processor())
	add("memory", l.memory())
	add("up for", l.uptime())
	load := strings.Fields(l.text("/proc/loadavg"))
	add("load", strings.Join(load[:min(3, len(load))], " "))
	for _, t := range l.temperatures() {
		add("temperature", t)
	}
	return h
}

// processor is the name of the first and how many there are (proc_cpuinfo(5)).
func (l Looker) processor() string {
	name, n := "", 0
	for line := range strings.Lines(l.text("/proc/cpuinfo")) {
		key, value, ok := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			n++
		case "model name":
			if ok && name == "" {
				name = strings.TrimSpace(value)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d x %s", n, name)
}

// memory is how much there is and how much is left (proc_meminfo(5)).
func (l Looker) memory() string {
	values := map[string]int64{}
	for line := range strings.Lines(l.text("/proc/meminfo")) {
		key, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 54); err == nil {
				values[key] = n
			}
		}
	}
	if values["MemTotal"] == 0 {
		return ""
	}
	return fmt.Sprintf("%d MiB, %d MiB free for programs", values["MemTotal"]/1024, values["MemAvailable"]/1024)
}

// uptime is how long the machine has been up (proc_uptime(5)).
func (l Looker) uptime() string {
	first, _, _ := strings.Cut(l.text("/proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil || seconds < 0 || seconds > 1e10 {
		return ""
	}
	d := time.Duration(seconds) * time.Second
	return fmt.Sprintf("%d days %d h %d min", int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60)
}

// temperatures are those that the kernel measures (Linux, Documentation/hwmon/sysfs-interface.rst), in degrees Celsius.
func (l Looker) temperatures() (out []string) {
	files, _ := filepath.Glob(l.Root.At("/sys/class/hwmon/*/temp*_input")) // The pattern is good.
	slices.Sort(files)
	for _, f := range files {
		f = strings.TrimPrefix(f, strings.TrimSuffix(l.Root.At("/"), "/"))
		milli, err := strconv.Atoi(l.text(f))
		if err != nil || len(out) == maxSensors {
			continue
		}
		name := l.text(filepath.Dir(f) + "/name")
		if label := l.text(strings.TrimSuffix(f, "input") + "label"); label != "" {
			name += " " + label
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d C  %s", milli/1000, name)))
	}
	return out
}
