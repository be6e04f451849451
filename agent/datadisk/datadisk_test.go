package datadisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/cluster/spec"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

const (
	clusterID = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	foreign   = "11111111-2222-8333-8444-555555555555"
	size      = 2 << 30
)

// imageDisk makes a sparse file look like a disk: its "kernel name" leads from /dev to the file.
func imageDisk(t *testing.T, size int64, serial string) disk.Disk {
	path := filepath.Join(t.TempDir(), serial+".img")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	return disk.Disk{Name: ".." + path, Size: size, SectorSize: 512, Serials: []string{serial}}
}

func tool(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v (run make deps when it is missing): %s", name, args, out)
	return string(out)
}

func sfdisk(t *testing.T, d disk.Disk, script string) {
	t.Helper()
	tool(t, "label: gpt\n"+script+"\n", "sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", d.Path())
}

func writeAt(t *testing.T, path, data string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(data), at)
	require.NoError(t, err)
}

// ends is a hash of what can be changed by mistake: the first and the last 16 MiB.
func ends(t *testing.T, d disk.Disk) [32]byte {
	f, err := os.Open(d.Path())
	require.NoError(t, err)
	defer f.Close()
	b := make([]byte, 32<<20)
	_, err = f.ReadAt(b[:16<<20], 0)
	require.NoError(t, err)
	_, err = f.ReadAt(b[16<<20:], d.Size-16<<20)
	require.NoError(t, err)
	return sha256.Sum256(b)
}

func TestTheNameOfADiskMakesItsPartUUID(t *testing.T) {
	want := PartUUID(clusterID, OSD, "S1")
	require.Equal(t, want, PartUUID(strings.ToUpper(clusterID), OSD, " s1 "), "case and blanks do not matter")
	require.NotEqual(t, want, PartUUID(clusterID, OSD, "S2"))
	require.NotEqual(t, want, PartUUID(clusterID, Kafka, "S1"))
	require.NotEqual(t, want, PartUUID(foreign, OSD, "S1"))
	require.Equal(t, byte('8'), want.String()[14], "version 8 (RFC 9562, section 5.8)")
}

func TestChoose(t *testing.T) {
	osd, kafka := PartUUID(clusterID, OSD, "DATA"), PartUUID(clusterID, Kafka, "DATA")
	byWWN := PartUUID(clusterID, OSD, "0x5000c500a1b2c3d4")
	blankDisk := func(t *testing.T) disk.Disk { return imageDisk(t, size, "DATA") }
	sized := func(size int64) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { return imageDisk(t, size, "DATA") }
	}
	with := func(data string, at int64) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { d := blankDisk(t); writeAt(t, d.Path(), data, at); return d }
	}
	table := func(script string) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { d := blankDisk(t); sfdisk(t, d, script); return d }
	}
	part := func(kind, guid gpt.GUID) string { return fmt.Sprintf("type=%s, uuid=%s", kind, guid) }
	changed := func(change func(*disk.Disk)) func(t *testing.T) disk.Disk {
		return func(t *testing.T) disk.Disk { d := blankDisk(t); change(&d); return d }
	}
	for name, tc := range map[string]struct {
		use     string
		encrypt bool
		make    func(t *testing.T) disk.Disk
		scratch bool
		err     string
	}{
		"an empty one is made an OSD":          {OSD, false, blankDisk, true, ""},
		"an empty one is made a disk of Kafka": {Kafka, false, blankDisk, true, ""},
		"an empty one is made one of a role":   {"historian", false, blankDisk, true, ""},
		"an empty one is made one of a store":  {Metrics, false, sized(4 << 30), true, ""},
		"a store's disk is taken": {
			Metrics, false, table(part(typeData, PartUUID(clusterID, Metrics, "DATA"))), false, "",
		},
		"a store's disk is not Kafka's": {
			Kafka, false, table(part(typeData, PartUUID(clusterID, Metrics, "DATA"))), false, "none was made for it by cluster plant",
		},
		"a disk of Kafka is not a store's":    {Metrics, false, table(part(typeData, kafka)), false, "none was made for it by cluster plant"},
		"a store's disk that holds something": {Metrics, false, with("x", size-5), false, "there is data at byte"},
		"one that is too small for a store":   {Metrics, false, sized(4<<30 - 512), false, "has only 4095 MiB, and 4096 are the least"},
		"a role's disk is taken":              {"historian", false, table(part(typeData, PartUUID(clusterID, "historian", "DATA"))), false, ""},
		"a role's disk is not another's":      {"scada", false, table(part(typeData, PartUUID(clusterID, "historian", "DATA"))), false, "none was made for it by cluster plant"},
		"a disk of Kafka is not a role's":     {"historian", false, table(part(typeData, kafka)), false, "none was made for it by cluster plant"},
		"a role's disk that holds something":  {"historian", false, with("x", size-5), false, "there is data at byte"},
		"our OSD is taken":                    {OSD, false, table(part(typeOSD, osd)), false, ""},
		"our encrypted OSD is taken":          {OSD, true, table(part(typeLUKSOSD, osd)), false, ""},
		"our disk of Kafka is taken":          {Kafka, false, table(part(typeData, kafka)), false, ""},
		"one that was made by another of its names too": {OSD, false, func(t *testing.T) disk.Disk {
			d := table(part(typeOSD, byWWN))(t)
			d.WWNs = []string{"0x5000C500A1B2C3D4"}
			return d
		}, false, ""},
		"one that was cut off is made again":             {OSD, false, with(string(blank.Marker("the Ceph OSD "+osd.String()))+"\x53\xef", blank.MarkerAt), true, ""},
		"one that was cut off for another use is not":    {Kafka, false, with(string(blank.Marker("the Ceph OSD "+osd.String())), blank.MarkerAt), false, "is not empty"},
		"an OSD is no disk of Kafka":                     {Kafka, false, table(part(typeOSD, osd)), false, "none was made for it by cluster plant"},
		"an OSD that is to be encrypted now":             {OSD, true, table(part(typeOSD, osd)), false, "was made with encrypt: false, and the node's file says encrypt: true"},
		"an encrypted OSD that is not to be so any more": {OSD, false, table(part(typeLUKSOSD, osd)), false, "was made with encrypt: true"},
		"our partition with another type":                {OSD, false, table(part(typeData, osd)), false, "its type is 0fc63daf"},
		"somebody's partition beside ours":               {OSD, false, table("size=500MiB, " + part(typeOSD, osd) + "\ntype=linux"), false, "has 1 partitions beside ours"},
		"an OSD of another cluster":                      {OSD, false, table(part(typeOSD, PartUUID(foreign, OSD, "DATA"))), false, "a partition table with 1 partitions"},
		"an empty table":                                 {OSD, false, table(""), false, "a partition table with 0 partitions"},
		"a damaged table": {OSD, false, func(t *testing.T) disk.Disk {
			d := table("")(t)
			writeAt(t, d.Path(), "x", 572)
			writeAt(t, d.Path(), "x", size-452)
			return d
		}, false, "GUID partition table"},
		"ext4":                           {Kafka, false, func(t *testing.T) disk.Disk { d := blankDisk(t); tool(t, "", "mkfs.ext4", "-q", d.Path()); return d }, false, "it holds an ext2, ext3 or ext4 file system; nothing was changed"},
		"a bare OSD":                     {OSD, false, with("bluestore block device\n", 0), false, "it is a Ceph OSD"},
		"LUKS":                           {OSD, true, with("LUKS\xba\xbe\x00\x02", 0), false, "encrypted with LUKS"},
		"data of which nothing is known": {OSD, false, with("x", size-5), false, "there is data at byte"},
		"one that is read-only":          {OSD, false, changed(func(d *disk.Disk) { d.ReadOnly = true }), false, "is read-only"},
		"one that is too small":          {OSD, false, func(t *testing.T) disk.Disk { return imageDisk(t, 1<<30, "DATA") }, false, "has only 1024 MiB, and 1028 are the least"},
		"the disk that was booted from":  {OSD, false, changed(func(d *disk.Disk) { d.Name = "boot" }), false, "is the one that the machine was booted from"},
		"one that is not there":          {OSD, false, changed(func(d *disk.Disk) { d.Serials = []string{"OTHER"} }), false, `no disk has the serial "DATA"; there are: `},
		"one that cannot be read":        {OSD, false, changed(func(d *disk.Disk) { d.Name += "x" }), false, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			d := tc.make(t)
			there := !strings.HasSuffix(d.Name, "x") && d.Name != "boot"
			var before [32]byte
			if there {
				before = ends(t, d)
			}
			p, err := choose(request{
				use: useOf(tc.use), number: 2, clusterID: clusterID, owner: "cluster plant", bootDisk: "boot", disks: []disk.Disk{d},
				want: spec.Disk{Use: tc.use, Encrypt: tc.encrypt, Selector: spec.DiskSelector{Serial: "DATA"}},
				open: func(d disk.Disk) (device, error) { return os.Open(d.Path()) },
			})
			if there {
				require.Equal(t, before, ends(t, d), "choosing changes nothing")
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.ErrorContains(t, err, useOf(tc.use).what+" 2: ", "which disk of the file it is")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.scratch, p.fromScratch)
			require.Contains(t, PartUUIDs(clusterID, tc.use, d), p.want)
		})
	}
}

func TestTheDisksOfARoleHaveFileSystemsAsThoseOfKafka(t *testing.T) {
	u := useOf("a-name-of-thirty-two-characters-x")
	require.Equal(t, typeData, u.kind(false))
	require.False(t, u.bare)
	require.Len(t, u.label, 36, "the name of a GPT partition")
	require.True(t, IsLabel(u.label))
	require.True(t, IsLabel("spore-metrics"), "a store's")
	require.False(t, IsLabel("spore-state"))
	require.Equal(t, "historian disk 2", Title("historian", 2))
	require.Equal(t, "spore-disks-historian.service", Unit("historian"))
	r := request{use: u, clusterID: clusterID}
	require.Contains(t, r.definition(PartUUID(clusterID, u.name, "DATA"), u.minimum)["10-data.conf"], "\nFormat=ext4\n")

	root := paths.Root(t.TempDir())
	require.Empty(t, Uses(root))
	for _, use := range []string{"osd", "historian"} {
		require.NoError(t, Write(root, use, nil))
	}
	require.NoError(t, os.MkdirAll(root.At(paths.Disks+"/repart.d"), 0o755))
	require.Equal(t, []string{"historian", "osd"}, Uses(root))
}

func TestTheDiskOfTheStateIsNotResetAsOneOfARole(t *testing.T) {
	d := imageDisk(t, size, "DATA")
	o := Options{ClusterID: clusterID, Disks: disksOf(State, "DATA"), List: listing(d)}
	before := ends(t, d)
	require.ErrorIs(t, Reset(o, d), ErrNotNamed)
	require.Equal(t, before, ends(t, d))
}

func TestARefusalNamesTheCommandThatWouldHelp(t *testing.T) {
	d := imageDisk(t, size, "DATA")
	tool(t, "", "mkfs.ext4", "-q", d.Path())
	o := Options{ClusterID: clusterID, ClusterName: "plant", Node: "n", Disks: disksOf(OSD, "DATA"), List: listing(d)}
	r := request{use: uses[OSD], node: "broker-1", number: 1, clusterID: clusterID, disks: []disk.Disk{d}, want: o.Disks[0], open: func(d disk.Disk) (device, error) { return os.Open(d.Path()) }}
	_, err := choose(r)
	require.ErrorContains(t, err, "spore reset broker-1 --disk DATA")
	before := ends(t, d)
	require.ErrorIs(t, Reset(o, disk.Disk{Name: "sdx"}), ErrNotNamed)
	boot := o
	boot.BootDisk = d.Name
	require.ErrorContains(t, Reset(boot, d), "booted from")
	require.Equal(t, before, ends(t, d))
	require.NoError(t, Reset(o, d))
	p, err := choose(r)
	require.NoError(t, err)
	require.True(t, p.fromScratch)
}

// disksOf are disks of one use, selected by their serial numbers.
func disksOf(use string, serials ...string) []spec.Disk {
	var out []spec.Disk
	for _, s := range serials {
		out = append(out, spec.Disk{Use: use, Selector: spec.DiskSelector{Serial: s}})
	}
	return out
}

func listing(disks ...disk.Disk) func() ([]disk.Disk, error) {
	return func() ([]disk.Disk, error) { return disks, nil }
}

// withPartition gives the first partition of a disk a device node, as the kernel does when it reads the table.
func withPartition(t *testing.T, d disk.Disk) string {
	loop := strings.TrimSpace(tool(t, "", "losetup", "--find", "--show", "--offset", "1048576", d.Path()))
	t.Cleanup(func() { tool(t, "", "losetup", "--detach", loop) })
	require.NoError(t, os.Symlink(loop, d.Partition(1)))
	return loop
}

// options work on image files; without root nothing can be mounted or given away.
func options(t *testing.T, use string, want []spec.Disk, disks ...disk.Disk) Options {
	if os.Geteuid() != 0 {
		t.Skip("only root makes loop devices and mounts")
	}
	dir := t.TempDir()
	return Options{
		ClusterID: clusterID, ClusterName: "plant", Node: "n1", Use: use, Disks: want, List: listing(disks...), UID: 4242, GID: 4242,
		Dirs:        []Dir{{LogDir, 4242, 4242}},
		Definitions: dir + "/repart.d", Temp: dir + "/tmp", Mounts: dir + "/var/disks", Say: func(s string) { t.Log(s) },
		Exec: func(ctx context.Context, env []string, name string, args ...string) error {
			if name == "modprobe" {
				return nil // Tests do not load modules into the machine that they run on.
			}
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
			}
			return nil
		},
		Mount: func(_ context.Context, device, dir string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			tool(t, "", "mount", "-t", "ext4", device, dir)
			t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
			return nil
		},
		Unmount: func(_ context.Context, dir string) error { return exec.Command("umount", dir).Run() },
	}
}

func run(t *testing.T, o Options) []Info {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Dir(o.Mounts)), 0o755))
	infos, err := Run(context.Background(), o)
	require.NoError(t, err)
	return infos
}

func TestKafkasDisksAreMadeAndMountedAndARefusedOneKeepsBackNoOther(t *testing.T) {
	a, b, c := imageDisk(t, size, "A"), imageDisk(t, size, "B"), imageDisk(t, size, "C")
	tool(t, "", "mkfs.ext4", "-q", b.Path())
	before := ends(t, b)
	o := options(t, Kafka, disksOf(Kafka, "A", "B", "C"), a, b, c)
	withPartition(t, a)
	withPartition(t, c)
	infos := run(t, o)
	require.Len(t, infos, 3)
	require.Equal(t, Info{Use: Kafka, Number: 1, Selector: "serial A", Disk: a.Name, Serial: "A", PartUUID: PartUUID(clusterID, Kafka, "A").String(), Device: a.Partition(1), Mount: o.Mounts + "/1"}, infos[0])
	require.Contains(t, infos[1].Problem, "Kafka disk 2: the disk "+b.Path()+" (serial B) is not empty: it holds an ext2, ext3 or ext4 file system; nothing was changed")
	require.Empty(t, infos[1].Device+infos[1].Mount)
	require.Empty(t, infos[2].Problem)
	require.Equal(t, before, ends(t, b))
	require.ErrorContains(t, Problems(infos), "Kafka disk 2")
	require.NoDirExists(t, o.Mounts+"/2", "the service finds no directory in the place of the disk")
	for dir, owner := range map[string]string{o.Mounts: "0", o.Mounts + "/1": "0", o.Mounts + "/1/log": "4242", filepath.Dir(o.Mounts): "4242"} {
		require.Equal(t, owner, strings.TrimSpace(tool(t, "", "stat", "-c", "%u", dir)), dir)
	}
	require.NoError(t, os.WriteFile(o.Mounts+"/1/log/kept", []byte("1"), 0o644))
	require.NoError(t, o.Unmount(context.Background(), o.Mounts+"/1"))
	require.NoError(t, o.Unmount(context.Background(), o.Mounts+"/3"))

	o.Disks = disksOf(Kafka, "C", "A")
	infos = run(t, o)
	require.NoError(t, Problems(infos))
	require.FileExists(t, o.Mounts+"/2/log/kept", "the data goes with its disk when the order changes")
	require.NoError(t, o.Unmount(context.Background(), o.Mounts+"/1"))
	require.NoError(t, o.Unmount(context.Background(), o.Mounts+"/2"))

	o.Node = "n2"
	infos = run(t, o)
	require.ErrorContains(t, Problems(infos), `it belongs to node "n1"`)
	require.Empty(t, infos[0].Mount+infos[1].Mount)
	require.NotContains(t, tool(t, "", "mount"), o.Mounts)
}

// The programs of a store may be several, each with an account of its own.
func TestADiskHasADirectoryForEachProgramOfAStore(t *testing.T) {
	d := imageDisk(t, 4<<30, "A")
	o := options(t, Metrics, disksOf(Metrics, "A"), d)
	o.Mounts, o.UID, o.GID = filepath.Join(t.TempDir(), "lib/metrics-disks"), 0, 0
	o.Dirs = []Dir{{"store", 4242, 4243}, {"queue", 4244, 4245}}
	withPartition(t, d)
	infos := run(t, o)
	require.NoError(t, Problems(infos))
	require.Equal(t, o.Mounts+"/1", infos[0].Mount)
	owners := map[string]string{
		o.Mounts: "0:0 755", o.Mounts + "/1": "0:0 755", o.Mounts + "/1/store": "4242:4243 750", o.Mounts + "/1/queue": "4244:4245 750",
	}
	for dir, want := range owners {
		require.Equal(t, want, strings.TrimSpace(tool(t, "", "stat", "-c", "%u:%g %a", dir)), dir)
	}
	require.NoError(t, os.WriteFile(o.Mounts+"/1/store/kept", []byte("1"), 0o644))
	require.NoError(t, o.Unmount(t.Context(), o.Mounts+"/1"))
	require.NoDirExists(t, o.Mounts+"/1/store", "while the disk is away, a program finds no directory in its place")

	require.NoError(t, Problems(run(t, o)))
	require.FileExists(t, o.Mounts+"/1/store/kept")
	require.NoError(t, o.Unmount(t.Context(), o.Mounts+"/1"))

	old := imageDisk(t, 4<<30, "A")
	tool(t, "", "mkfs.ext4", "-q", old.Path())
	before := ends(t, old)
	o.List = listing(old)
	infos = run(t, o)
	require.ErrorContains(t, Problems(infos), "metrics disk 1: the disk "+old.Path()+" (serial A) is not empty: it holds an ext2, ext3 or ext4 file system; nothing was changed")
	require.Empty(t, infos[0].Mount)
	require.Equal(t, before, ends(t, old))
}

func TestTheBeginningOfANewOSDIsCleared(t *testing.T) {
	d := imageDisk(t, size, "A")
	o := options(t, OSD, disksOf(OSD, "A"), d)
	withPartition(t, d)
	// Of a disk that was cut off while it was made, with what was there before.
	writeAt(t, d.Path(), string(blank.Marker("the Ceph OSD "+PartUUID(clusterID, OSD, "A").String())), blank.MarkerAt)
	writeAt(t, d.Path(), "bluestore block device\nold", 1<<20)
	infos := run(t, o)
	require.NoError(t, Problems(infos))
	what, err := signature(infos[0].Device)
	require.NoError(t, err)
	require.Equal(t, "it is empty", what)
	require.Equal(t, "4242", strings.TrimSpace(tool(t, "", "stat", "-L", "-c", "%u", infos[0].Device)))
	require.Contains(t, tool(t, "", "sgdisk", "-v", d.Path()), "No problems found")

	writeAt(t, infos[0].Device, "bluestore block device\nnew", 0)
	require.NoError(t, Problems(run(t, o)))
	what, err = signature(infos[0].Device)
	require.NoError(t, err)
	require.Equal(t, "it is a Ceph OSD", what, "what was made stays")
}

func TestTwoEntriesForOneDisk(t *testing.T) {
	d := imageDisk(t, size, "A")
	d.WWNs = []string{"0x5000c500a1b2c3d4"}
	o := options(t, OSD, append(disksOf(OSD, "A"), spec.Disk{Use: OSD, Selector: spec.DiskSelector{WWN: "0x5000c500a1b2c3d4"}}), d)
	withPartition(t, d)
	infos := run(t, o)
	require.Empty(t, infos[0].Problem)
	require.Contains(t, infos[1].Problem, "which is Ceph OSD 1 already")
}

func TestAPartitionThatShouldBeEncryptedAndIsNotIsRefused(t *testing.T) {
	d := imageDisk(t, size, "A")
	o := options(t, OSD, disksOf(OSD, "A"), d)
	o.Disks[0].Encrypt = true
	sfdisk(t, d, fmt.Sprintf("type=%s, uuid=%s", typeLUKSOSD, PartUUID(clusterID, OSD, "A")))
	node := withPartition(t, d)
	require.ErrorContains(t, Problems(run(t, o)), "it should be encrypted with LUKS, and it is empty")
	o.KeyFile = o.Temp + "/key"
	require.NoError(t, os.MkdirAll(o.Temp, 0o700))
	require.NoError(t, os.WriteFile(o.KeyFile, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	require.NoError(t, o.encrypt(context.Background(), node, PartUUID(clusterID, OSD, "A")))
	require.Contains(t, tool(t, "", "cryptsetup", "luksDump", node), strings.ToLower(PartUUID(clusterID, OSD, "A").String()))
	tool(t, "", "cryptsetup", "open", "--test-passphrase", "--key-file", o.KeyFile, node)
	require.NoError(t, os.Remove(o.KeyFile))
	require.ErrorContains(t, Problems(run(t, o)), "the key for encrypted disks")
}

func TestReadAndWrite(t *testing.T) {
	root := paths.Root(t.TempDir())
	_, err := Read(root, OSD)
	require.ErrorContains(t, err, "has ceph-disks.service run?")
	require.NoError(t, Write(root, OSD, []Info{{Use: OSD, Number: 1}}))
	got, err := Read(root, OSD)
	require.NoError(t, err)
	require.Equal(t, []Info{{Use: OSD, Number: 1}}, got)
}
