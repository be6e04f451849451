package node

import (
	"strconv"

	"spore/services/ceph"
	"spore/services/kubernetes"
	"spore/services/rendering"
)

// cephOSD renders what an OSD needs, and the key by which a new one gets its number.
func cephOSD(in rendering.Input) (map[string]rendering.File, error) {
	own, err := rendering.Address(in)
	if err != nil {
		return nil, err
	}
	more := []setting{
		{"public_addr", own.String()},
		// Without it an OSD listens to other OSDs at every address of the machine.
		{"cluster_addr", own.String()},
		// It tells each step of each placement group, hundreds of lines at each start.
		{"debug_osd", "0/5"},
		// Where it stands for the rules that spread copies. The name of the node is all that is known of that.
		{"crush_location", "root=default host=" + in.Node.Name},
	}
	if kubernetes.Of(in.Cluster.Services).Slow() > 1 {
		// A new OSD writes 3,000 blocks of 4 KiB to learn what its disk can do, for the shares that mClock gives. On an
		// emulated machine it would learn what the emulation can do; it takes Ceph's own figure for such a disk.
		more = append(more, setting{"osd_mclock_skip_benchmark", "true"})
	}
	if ceph.Of(in.Cluster.Services) != nil && ceph.Of(in.Cluster.Services).OSDMemory == 0 {
		osds := len(ceph.OSDs(in.Node.Disks))
		more = append(more, setting{"osd_memory_target", strconv.FormatUint(osdMemory(in.Memory, osds), 10)})
	}
	return cephFiles(in, []CephKey{{OSDUser(in.Node.Name), "ceph-osd-key"}}, more...)
}

// Bounds of what an OSD is told to stay within, in bytes: Ceph takes no less, and more than its own default is for ceph.yaml
// to say, since others may need the memory.
const (
	leastOSDMemory = 896 << 20
	mostOSDMemory  = 4096 << 20
)

// osdMemory is what each of a node's OSDs may use in bytes: together half of the machine's memory.
func osdMemory(machine uint64, osds int) uint64 {
	return min(max(machine/2/uint64(max(osds, 1)), leastOSDMemory), mostOSDMemory)
}
