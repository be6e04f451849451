package netroot

import (
	"fmt"
	"strconv"
	"strings"
)

// System is the memory that is to be left for everything else, in bytes: less than that boots no node.
const System = 256 << 20

// CheckMemory tells whether a machine can keep need bytes in memory and run. meminfo is /proc/meminfo (proc_meminfo(5)).
func CheckMemory(meminfo string, need int64) error {
	total, available := field(meminfo, "MemTotal"), field(meminfo, "MemAvailable")
	if total < 0 || available < 0 {
		return fmt.Errorf("/proc/meminfo does not say how much memory there is")
	}
	if available >= need+System {
		return nil
	}
	return fmt.Errorf("a machine that boots from the network keeps its root in memory: %d MiB for the image and %d MiB for everything else; %d MiB of this machine's %d are free; give it more, or boot it from a disk",
		mib(need), int64(System>>20), available>>20, total>>20)
}

func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// field is a number of kB in bytes; -1 when it is not there.
func field(meminfo, name string) int64 {
	for line := range strings.SplitSeq(meminfo, "\n") {
		rest, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 52)
		if err != nil || n < 0 {
			return -1
		}
		return n << 10
	}
	return -1
}
