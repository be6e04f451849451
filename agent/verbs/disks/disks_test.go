package disks

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/datadisk"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/verbs"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/storage/atomicfile"
	"spore/storage/gpt"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const diskSize = 16 << 20

// typeData is that of generic data (Discoverable Partitions Specification).
var typeData = gpt.MustParseGUID("0fc63daf-8483-4772-8e79-3d69d8477de4")

// fake is a machine that disks are put into.
type fake struct {
	t *testing.T
	m *node.Machine
	c *facts.Cluster
	// number is the next device number.
	number int
}

func newFake(t *testing.T) *fake {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00000")
	c, _, err := m.Self()
	require.NoError(t, err)
	f := &fake{t: t, m: m, c: c}
	f.put("/proc/1/mountinfo", "")
	require.NoError(t, os.MkdirAll(m.Root.At("/sys/block"), 0o755))
	return f
}

func (f *fake) put(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(f.m.Root.At(name)), 0o755))
	require.NoError(f.t, os.WriteFile(f.m.Root.At(name), []byte(text), 0o644))
}

// device is a directory of sysfs, and what udev says of it.
func (f *fake) device(dir, name, udev string) {
	f.t.Helper()
	f.number++
	dev := fmt.Sprintf("254:%d", f.number)
	f.put("/sys/devices/"+dir+"/dev", dev+"\n")
	link := f.m.Root.At("/sys/class/block/" + name)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(link), 0o755))
	require.NoError(f.t, os.Symlink("../../devices/"+dir, link))
	f.put("/run/udev/data/b"+dev, udev)
}

// disk is a disk with a table, and with content at its beginning.
func (f *fake) disk(at, name, serial, udev, content string, parts ...gpt.Partition) {
	f.t.Helper()
	dir := at + "/block/" + name
	f.device(dir, name, udev)
	require.NoError(f.t, os.Symlink("../devices/"+dir, f.m.Root.At("/sys/block/"+name)))
	f.put("/sys/devices/"+dir+"/size", fmt.Sprint(diskSize/512))
	f.put("/sys/devices/"+dir+"/serial", serial)
	f.put("/sys/devices/"+dir+"/device/model", "Model "+name)
	f.put("/sys/devices/"+dir+"/queue/rotational", "1")
	data := make([]byte, diskSize)
	copy(data, content)
	if parts != nil {
		e, err := gpt.Table{Partitions: parts}.Encode(diskSize, 512)
		require.NoError(f.t, err)
		copy(data, e.MBR)
		copy(data[512:], e.Primary)
		copy(data[e.BackupAt:], e.Backup)
	}
	f.put("/dev/"+name, string(data))
}

func (f *fake) partition(at, disk string, number int, udev string) string {
	name := fmt.Sprintf("%s%d", disk, number)
	f.device(at+"/block/"+disk+"/"+name, name, udev)
	f.put("/sys/devices/"+at+"/block/"+disk+"/"+name+"/partition", fmt.Sprint(number))
	return fmt.Sprintf("254:%d", f.number)
}

func part(kind, id gpt.GUID, label string) gpt.Partition {
	return gpt.Partition{Number: 1, Type: kind, GUID: id, Start: 2 << 20, Size: 4 << 20, Name: label}
}

// show asks as a reader does.
func (f *fake) show() (map[string]machine.Disk, string) {
	f.t.Helper()
	call, err := json.Marshal(verbs.Call{Verb: "disks", Caller: "anna", Roles: []nodeapi.Role{nodeapi.Reader}})
	require.NoError(f.t, err)
	in, stay := io.Pipe()
	defer stay.Close()
	go func() { _, _ = stay.Write(append(call, '\n')) }()
	var out strings.Builder
	require.NoError(f.t, verbs.Serve(f.t.Context(), f.m, nodeapi.Looks, map[string]verbs.Handler{"disks": Show}, in, &out))
	disks := map[string]machine.Disk{}
	done, err := nodeapi.ReadEvents(strings.NewReader(out.String()), func(e nodeapi.Event) error {
		var d machine.Disk
		require.NoError(f.t, json.Unmarshal(e.Result, &d))
		disks[d.Name] = d
		return nil
	})
	require.NoError(f.t, err)
	return disks, done
}

const virtio = "pci0000:00/0000:00:03.0/virtio0"

func TestWhoseADiskIs(t *testing.T) {
	f := newFake(t)
	id := f.c.ID
	own, someone := state.PartUUID(id, "node-00000"), gpt.MustParseGUID("11111111-2222-4333-8444-555555555555")
	require.NoError(t, bootinfo.Write(f.m.Root.At(bootinfo.Path), bootinfo.Info{BootDisk: bootinfo.Disk{Path: "/dev/vda"}}))
	require.NoError(t, atomicfile.WriteJSON(f.m.Root.At(paths.State), state.Info{Kind: state.Partition, PartUUID: own.String()}))
	list, err := services.With([]services.Definition{&role.Definition{
		Name: "historian", Units: []string{"a.service"}, User: &role.User{Name: "hist"}, Disks: &role.Disks{Use: "historian", At: "/var/lib/hist"},
	}})
	require.NoError(t, err)
	file, compiled := f.m.Root.At(bootinfo.ClusterDir+"/compiled/cluster.json"), map[string]any{}
	require.NoError(t, atomicfile.ReadJSON(file, &compiled))
	compiled["roles"] = list
	require.NoError(t, atomicfile.WriteJSON(file, compiled))
	require.NoError(t, datadisk.Write(f.m.Root, "historian", []datadisk.Info{{Use: "historian", Number: 1, Disk: "vdo"}}))
	seven := "OSD_ID=7\n"
	f.put(paths.OSDs+"/1/osd.env", seven)
	require.NoError(t, datadisk.Write(f.m.Root, datadisk.Kafka, []datadisk.Info{{Use: "kafka", Number: 1, Disk: "vdb"}}))
	require.NoError(t, datadisk.Write(f.m.Root, datadisk.OSD, []datadisk.Info{
		{Use: "osd", Number: 1, Disk: "vdc"}, {Use: "osd", Number: 2, Disk: "vdd", Problem: "Ceph OSD 2: it is not empty"},
	}))
	f.disk(virtio, "vda", "A", "", "", part(typeVar, own, "spore-state"))
	f.disk(virtio, "vdb", "B", "", "")
	f.disk(virtio, "vdc", "C", "", "")
	f.disk(virtio, "vdd", "D", "", "x")
	f.disk(virtio, "vde", "E", "", "")
	f.disk(virtio, "vdf", "F", "", "", part(typeVar, state.PartUUID(id, "node-00002"), "spore-state"))
	f.disk(virtio, "vdg", "G", "", "", part(typeVar, someone, "spore-state"))
	f.disk(virtio, "vdh", "H", "", "", part(typeData, datadisk.PartUUID(id, datadisk.Kafka, "H"), "spore-kafka"))
	f.disk(virtio, "vdi", "I", "", "", part(typeData, someone, "spore-kafka"))
	f.disk(virtio, "vdj", "J", "", "XFSB")
	f.disk(virtio, "vdk", "K", "", "something")
	f.disk(virtio, "vdl", "L", "", "", part(typeData, someone, "photos"))
	f.disk(virtio, "vdm", "M", "", "", part(typeVar, own, "spore-state"))
	f.disk(virtio, "vdo", "O", "", "")
	f.disk(virtio, "vdp", "P", "", "", part(typeData, datadisk.PartUUID(id, "historian", "P"), "spore-role-historian"))
	f.disk(virtio, "vdq", "Q", "", "", part(typeData, someone, "spore-role-recipes"))
	f.disk(virtio, "vdn", "N", "", "", []gpt.Partition{}...)
	require.NoError(t, os.Remove(f.m.Root.At("/dev/vdn")))
	got, done := f.show()
	require.Equal(t, "17 disks", done)
	for name, want := range map[string][2]string{
		"vda": {machine.Boot, "the machine was booted from it, and its state (/var) is on it"},
		"vdb": {machine.Role, "it is Kafka disk 1 of this node"},
		"vdc": {machine.Role, "it is Ceph OSD 1 of this node: osd.7"},
		"vdd": {machine.Refused, "the node's file selects it as Ceph OSD 2, and it was not taken: Ceph OSD 2: it is not empty"},
		"vde": {machine.Empty, "it was proved empty: its first 4 MiB, its last MiB and 64 places between them are zero"},
		"vdf": {machine.Cluster, "it has the state of node node-00002 of this cluster"},
		"vdg": {machine.Foreign, "it has the state of a node of another cluster"},
		"vdh": {machine.Cluster, "it has data of this cluster (use: kafka), and this node's file does not select it"},
		"vdi": {machine.Foreign, "it has data of another cluster"},
		"vdj": {machine.Unknown, "it holds an XFS file system"},
		"vdk": {machine.Unknown, "there is data at byte 0"},
		"vdl": {machine.Unknown, `it has "photos" of 4 MiB`},
		"vdm": {machine.State, "it has the state of this node (/var)"},
		"vdo": {machine.Role, "it is historian disk 1 of this node"},
		"vdp": {machine.Cluster, "it has data of this cluster (use: historian), and this node's file does not select it"},
		"vdq": {machine.Foreign, "it has data of another cluster"},
		"vdn": {machine.Unknown, "it cannot be read: "},
	} {
		require.Equal(t, want[0], got[name].Whose, name)
		require.True(t, strings.HasPrefix(got[name].About, want[1]), "%s: %s", name, got[name].About)
	}
}

func TestWhatADiskIsNamedBy(t *testing.T) {
	f := newFake(t)
	f.disk("pci0000:00/ata1/host0/target0:0:0/0:0:0:0", "sda", "", "S:disk/by-id/wwn-0x5000c500a1b2c3d4\nS:disk/by-id/ata-ST4000_ZGY1\n"+
		"E:ID_SERIAL_SHORT=ZGY1\nE:ID_SERIAL=ST4000_ZGY1\nE:ID_WWN=0x5000c500a1b2c3d4\n", "")
	f.disk("pci0000:00/usb1/1-1/host1/target1:0:0/1:0:0:0", "sdb", "0000000000", "S:disk/by-id/usb-Stick-0:0\n", "")
	f.disk("pci0000:00/0000:01:00.0/nvme/nvme0", "nvme0n1", "TWIN", "E:ID_WWN=eui.0025385b71b0a1b2\n", "")
	f.disk("virtual/nvme-subsystem/nvme-subsys1", "nvme1n1", "TWIN", "", "")
	got, _ := f.show()
	require.Equal(t, []machine.Selector{{Key: "serial", Value: "ZGY1"}, {Key: "wwn", Value: "0x5000c500a1b2c3d4"}, {Key: "byID", Value: "ata-ST4000_ZGY1"}}, got["sda"].Selectors)
	require.Equal(t, []machine.Selector{{Key: "byID", Value: "usb-Stick-0:0"}}, got["sdb"].Selectors, "a serial number that many disks have selects nothing")
	require.Equal(t, []machine.Selector{{Key: "wwn", Value: "eui.0025385b71b0a1b2"}}, got["nvme0n1"].Selectors, "another disk has its serial number")
	require.Empty(t, got["nvme1n1"].Selectors)
	for name, want := range map[string]string{"sda": "sata", "sdb": "usb", "nvme0n1": "nvme", "nvme1n1": "nvme"} {
		require.Equal(t, want, got[name].Transport)
	}
	require.True(t, got["sdb"].Removable)
	require.False(t, got["sda"].Removable)
	require.True(t, got["sda"].Rotational)
	require.EqualValues(t, diskSize, got["sda"].Size)
	require.Equal(t, "Model sda", got["sda"].Model)
}

func TestWhatIsOnADisk(t *testing.T) {
	f := newFake(t)
	id := gpt.MustParseGUID("11111111-2222-4333-8444-555555555555")
	encrypted := gpt.Partition{Number: 2, Type: typeData, GUID: id, Start: 8 << 20, Size: 1 << 20, Name: "b"}
	encrypted.GUID[0] = 0x22
	f.disk(virtio, "vda", "A", "", "", part(typeData, id, "a"), encrypted)
	mounted := f.partition(virtio, "vda", 1, "E:ID_FS_TYPE=ext4\nE:ID_FS_UUID=abc\nE:ID_FS_LABEL=photos\n")
	f.partition(virtio, "vda", 2, "E:ID_FS_TYPE=crypto_LUKS\n")
	f.device("virtual/block/dm-0", "dm-0", "")
	opened := fmt.Sprintf("254:%d", f.number)
	f.put("/sys/devices/virtual/block/dm-0/dm/name", "var\n")
	f.put("/sys/devices/"+virtio+"/block/vda/vda2/holders/dm-0", "")
	f.put("/proc/1/mountinfo", "30 1 "+mounted+` / /my\040photos rw - ext4 /dev/vda1 rw`+"\n"+
		"31 1 "+mounted+" /inner /elsewhere rw - ext4 /dev/vda1 rw\n32 1 "+opened+" / /var rw - ext4 /dev/mapper/var rw\n")
	require.NoError(t, os.MkdirAll(f.m.Root.At("/my photos"), 0o755))
	f.disk(virtio, "vdb", "B", "E:ID_FS_TYPE=xfs\n", "XFSB")
	got, _ := f.show()
	parts := got["vda"].Partitions
	require.Len(t, parts, 2)
	require.NotNil(t, parts[0].Fill)
	require.Positive(t, parts[0].Fill.Size)
	parts[0].Fill = nil
	require.Equal(t, machine.Partition{
		Number: 1, Name: "vda1", Size: 4 << 20, Label: "a", UUID: id.String(), FileSystem: "ext4", FileSystemUUID: "abc", FileSystemLabel: "photos",
		Mounts: []string{"/my photos"},
	}, parts[0], "what is mounted of a part of it is left out")
	require.Equal(t, []string{"/dev/mapper/var"}, parts[1].Uses)
	require.Equal(t, []string{"/var"}, parts[1].Mounts)
	require.Equal(t, []machine.Partition{{Name: "vdb", Size: diskSize, FileSystem: "xfs"}}, got["vdb"].Partitions)
}

func TestWithoutWhatIsMountedItFails(t *testing.T) {
	f := newFake(t)
	require.NoError(t, os.Remove(f.m.Root.At("/proc/1/mountinfo")))
	_, err := look(&verbs.Run{Machine: f.m, Cluster: f.c, Node: &facts.Node{Name: "node-00000"}})
	require.ErrorContains(t, err, "ask what is mounted")
}

func FuzzParse(f *testing.F) {
	f.Add("30 1 254:1 / /my\\040photos rw - ext4 /dev/vda1 rw\n")
	f.Add("S:disk/by-id/x\nE:ID_FS_TYPE=ext4\nE:=\n")
	f.Fuzz(func(t *testing.T, text string) {
		require.LessOrEqual(t, len(parseMounts(text)), maxMounts)
		require.LessOrEqual(t, len(parseProperties(text)), maxProperties)
		require.GreaterOrEqual(t, atoi(text), 0)
		require.GreaterOrEqual(t, sectors(text), int64(0))
	})
}
