package disks

import (
	"strconv"
	"strings"
)

// Bounds of what is read.
const (
	maxMounts     = 10_000
	maxProperties = 500
)

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	// device is its number, such as 254:1; root is the directory of the file system that is mounted, at where it is.
	device, root, at string
}

func parseMounts(text string) (out []mount) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 7 || len(out) == maxMounts {
			continue
		}
		out = append(out, mount{device: f[2], root: unescape.Replace(f[3]), at: unescape.Replace(f[4])})
	}
	return out
}

// unescape undoes the kernel's escapes of mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// parseProperties reads the properties of a file of udev's database (E:KEY=VALUE).
func parseProperties(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		property, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "E:")
		if key, value, is := strings.Cut(property, "="); ok && is && len(out) < maxProperties {
			out[key] = strings.ToValidUTF8(value, "?")
		}
	}
	return out
}

// atoi is a number, or 0.
func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// sectors is a size in bytes: sysfs counts in 512 bytes whatever the disk's sector.
func sectors(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0
	}
	return n * 512
}
