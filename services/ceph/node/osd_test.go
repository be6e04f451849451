package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/services/ceph"
	"spore/services/kubernetes"
	"spore/services/rendering/renderingtest"
)

func TestAnOSDIsGivenTheKeyThatMakesOnesAndNoOther(t *testing.T) {
	in := cephInput(&ceph.Settings{}, "/run/ceph-osd/1")
	in.Memory = 8 << 30
	in.Node.Disks = []spec.Disk{{Use: "state"}, {Use: "osd"}, {Use: "osd"}}
	files, err := render("ceph-osd", in)
	require.NoError(t, err)
	renderingtest.Golden(t, "ceph-osd", files)
	require.Equal(t, 1, strings.Count(string(files["keyring"].Data), "key = "))
	require.Contains(t, string(files["keyring"].Data), "[client.bootstrap-osd.master-02]\n")
	require.EqualValues(t, 0o600, files["keyring"].Mode)
	require.Contains(t, string(files["ceph.conf"].Data), "\nosd_memory_target = 2147483648\n", "a quarter of the machine for each of two")
}

func TestWhatCephYAMLSaysOfMemoryHolds(t *testing.T) {
	in := cephInput(&ceph.Settings{OSDMemory: 1024}, "/run/ceph-osd/1")
	files, err := render("ceph-osd", in)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(files["ceph.conf"].Data), "osd_memory_target"))
	require.Contains(t, string(files["ceph.conf"].Data), "osd_memory_target = 1073741824\n")
}

func TestMemoryOfOSDs(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		machine uint64
		osds    int
		want    uint64
	}{
		{2048 * mib, 1, 1024 * mib}, {3072 * mib, 2, 896 * mib}, {1024 * mib, 4, 896 * mib}, {16384 * mib, 4, 2048 * mib}, {524288 * mib, 4, 4096 * mib}, {8192 * mib, 0, 4096 * mib},
	} {
		require.Equal(t, tc.want, osdMemory(tc.machine, tc.osds), "%d MiB, %d OSDs", tc.machine/mib, tc.osds)
	}
}

func TestAnOSDOfASlowMachineDoesNotMeasureItsDisk(t *testing.T) {
	for slowMachine, want := range map[int]bool{0: false, 1: false, 2: true, 20: true} {
		in := cephInput(&ceph.Settings{}, "/run/ceph-osd/1")
		kubernetes.Of(in.Cluster.Services).SlowMachine = slowMachine
		files, err := render("ceph-osd", in)
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(files["ceph.conf"].Data), "\nosd_mclock_skip_benchmark = true\n"), slowMachine)
	}
}
