package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/procfs/sysfs"

	"spore/agent/metrics/family"
	"spore/storage/atomicfile"
)

// sensor is a file of a sensor (Linux Documentation/hwmon/sysfs-interface.rst).
var sensor = regexp.MustCompile(`^(temp|fan)([0-9]{1,3})_(input|max|crit|label)$`)

// hwmonFamilies are the families of those files, by kind and item, and what a value is divided by.
var hwmonFamilies = map[string]struct {
	name string
	unit float64
}{
	"temp input": {"node_hwmon_temp_celsius", 1000},
	"temp max":   {"node_hwmon_temp_max_celsius", 1000},
	"temp crit":  {"node_hwmon_temp_crit_celsius", 1000},
	"fan input":  {"node_hwmon_fan_rpm", 1},
}

// temperatures adds the sensors that the drivers of processors, boards and disks have, and the thermal zones.
func (m *Machine) temperatures(into *family.Sink) error {
	chips, err := os.ReadDir(m.at("sys/class/hwmon"))
	if err != nil {
		return err
	}
	left, names := maxSensors, map[string]bool{}
	for _, c := range chips {
		dir := m.at(filepath.Join("sys/class/hwmon", c.Name()))
		name := chipName(dir)
		if names[name] { // A device may have several.
			name += "_" + clean(c.Name())
		}
		names[name] = true
		left = m.chip(into, dir, name, left)
	}
	s, err := sysfs.NewFS(m.at("sys"))
	if err != nil {
		return err
	}
	zones, err := s.ClassThermalZoneStats()
	if err != nil {
		return err
	}
	for _, z := range zones[:min(len(zones), maxSensors)] {
		if z.ReadErrors == nil {
			into.Add("node_thermal_zone_temp", float64(z.Temp)/1000, z.Type, z.Name)
		}
	}
	return nil
}

// chip adds the sensors of one chip, which is called so, and returns how many more there may be.
func (m *Machine) chip(into *family.Sink, dir, chip string, left int) int {
	files, err := os.ReadDir(dir)
	if err != nil {
		return left
	}
	text := func(name string) string {
		data, err := atomicfile.ReadLimited(filepath.Join(dir, name), 4<<10)
		if err != nil {
			return "" // A sensor may have nothing to say now.
		}
		return strings.TrimSpace(string(data))
	}
	into.Add("node_hwmon_chip_names", 1, chip, text("name"))
	for _, f := range files {
		parts := sensor.FindStringSubmatch(f.Name())
		if parts == nil || left == 0 {
			continue
		}
		name, value := parts[1]+parts[2], text(f.Name())
		if parts[3] == "label" {
			into.Add("node_hwmon_sensor_label", 1, chip, name, value)
			continue
		}
		row, ok := hwmonFamilies[parts[1]+" "+parts[3]]
		v, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil {
			continue
		}
		into.Add(row.name, float64(v)/row.unit, chip, name)
		left--
	}
	return left
}

// chipName is where a chip is, as node_exporter has it: the bus and the device that it hangs on, which stay the same
// over boots, and the number of its directory where it has none.
func chipName(dir string) string {
	device, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return clean(filepath.Base(dir))
	}
	parent := filepath.Base(filepath.Dir(device))
	return clean(parent) + "_" + clean(filepath.Base(device))
}

// clean leaves letters, digits and underscores.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, text)
}
