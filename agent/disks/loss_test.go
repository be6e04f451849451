package disks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/cluster"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

// diskful is a node whose file names these disks. It has sda, from which it was booted, to sde.
func diskful(t *testing.T, named ...spec.Disk) *node.Machine {
	t.Helper()
	machines, _, _ := nodetest.BrokersOf(t, func(c *cluster.Config) {
		c.NodeFiles = []spec.NodeFile{{Node: "kafka-1", Disks: named}}
	}, "127.0.0.1")
	m := machines["kafka-1"]
	for _, d := range []string{"sda", "sdb", "sdc", "sdd", "sde"} {
		dir := "/sys/block/" + d
		nodetest.Put(t, m, dir+"/device/serial", "SERIAL-"+d+"\n")
		nodetest.Put(t, m, dir+"/size", "2097152\n")
	}
	nodetest.Put(t, m, "/run/udev/data/x", "")
	boot := bootinfo.Info{BootDisk: bootinfo.Disk{Path: "/dev/sda"}}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(bootinfo.Path), boot))
	return m
}

func of(use, disk string) spec.Disk {
	return spec.Disk{Use: use, Selector: spec.DiskSelector{Serial: "SERIAL-" + disk}}
}

func TestWhatAResetDeletes(t *testing.T) {
	named := []spec.Disk{of("osd", "sdd"), of("kafka", "sdc"), of("osd", "sdb")}
	withState := append(named[:len(named):len(named)], of("state", "sde"))
	const size = 1 << 30
	boot := Loss{Disk: "/dev/sda", Name: "SERIAL-sda", Size: size, State: true, InUse: true}
	for name, tc := range map[string]struct {
		disks []spec.Disk
		disk  string
		want  Loss
		err   string
	}{
		"the state on the boot disk":      {named, "", boot, ""},
		"the boot disk":                   {named, "sda", boot, ""},
		"state on the boot disk, named":   {[]spec.Disk{of("state", "sda")}, "", boot, ""},
		"the state on a disk of its own":  {withState, "", Loss{Disk: "/dev/sde", Name: "SERIAL-sde", Size: size, State: true, Whole: true, InUse: true}, ""},
		"old state on the boot disk":      {withState, "sda", boot, ""},
		"a disk of Kafka":                 {named, "sdc", Loss{Disk: "/dev/sdc", Name: "SERIAL-sdc", Size: size, Whole: true}, ""},
		"the second OSD":                  {named, "sdb", Loss{Disk: "/dev/sdb", Name: "SERIAL-sdb", Size: size, Whole: true, Unit: "ceph-osd-disk@2.service"}, ""},
		"a disk that the file names not":  {named, "sde", Loss{}, "does not name /dev/sde (serial SERIAL-sde), and the machine was not booted from it; nothing was changed"},
		"a disk that is not there":        {named, "sdf", Loss{}, `no disk has the serial "SERIAL-sdf"`},
		"the state on a disk that is not": {[]spec.Disk{of("state", "sdf")}, "", Loss{}, "nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			var s spec.DiskSelector
			if tc.disk != "" {
				s.Serial = "SERIAL-" + tc.disk
			}
			got, err := LossOf(diskful(t, tc.disks...), s)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestAMachineWithoutADiskKeepsNoState(t *testing.T) {
	m := diskful(t)
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(bootinfo.Path), bootinfo.Info{}))
	_, err := LossOf(m, spec.DiskSelector{})
	require.ErrorContains(t, err, "this node keeps no state on a disk; nothing was changed")
	nodetest.Is(t, m, "")
	_, err = LossOf(m, spec.DiskSelector{})
	require.ErrorContains(t, err, "this machine does not match any node")
}
