package install

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/efi"
	"spore/cluster/spec"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
)

const stateType = "4d21b016-b534-45c2-a9fb-5c16e091fd2d"

func guid(n byte) gpt.GUID { return gpt.GUID{0: 0xaa, 6: 0x80, 8: 0x80, 15: n} }

var want = Wanted{guid(2), guid(3), guid(4)}

func memFile(path, content string) fat.File {
	return fat.File{Path: path, Size: int64(len(content)), Content: strings.NewReader(content)}
}

// mediumOf is a stick as a machine leaves it: with a second slot, with state, and with what systemd-boot writes. When
// disc is set, it is a disc: parts as large as their content, and the ESP behind them.
func mediumOf(t *testing.T, disc bool, more ...fat.File) []byte {
	t.Helper()
	const espSize = 64 * mib
	at, parts := int64(mib), []gpt.Partition{}
	add := func(n int, kind gpt.GUID, id byte, size int64) {
		parts = append(parts, gpt.Partition{Number: n, Type: kind, GUID: guid(id), Start: at, Size: size})
		at += size
	}
	if !disc {
		add(1, gpt.ESP, 1, espSize)
	}
	add(2, typeRoot, 2, mib)
	add(3, typeVerity, 3, mib)
	add(4, typeCluster, 4, mib)
	if disc {
		add(1, gpt.ESP, 1, espSize)
	} else {
		add(5, typeRoot, 9, mib)
		add(8, gpt.MustParseGUID(stateType), 8, mib)
	}
	data := make([]byte, at+mib)
	e, err := gpt.Table{Disk: guid(7), Partitions: parts}.Encode(int64(len(data)), 512)
	require.NoError(t, err)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	for _, p := range parts {
		part := data[p.Start : p.Start+p.Size]
		if p.Type != gpt.ESP {
			copy(part, bytes.Repeat([]byte{p.GUID[15]}, int(p.Size)))
			continue
		}
		esp, err := fat.New(fat.Options{Size: espSize, Offset: p.Start, Files: append([]fat.File{
			memFile("/EFI/BOOT/BOOTX64.EFI", "loader"), memFile("/EFI/Linux/spore_1.efi", "kernel"), memFile("/loader/random-seed", "seed"),
			memFile("/spore/bundle", "somebody's"),
		}, more...)})
		require.NoError(t, err)
		_, err = esp.ReadAt(part, 0)
		require.NoError(t, err)
	}
	return data
}

// stick is kept, as most tests only read it.
var stick sync.Once

var stickData []byte

func source(t *testing.T, disc bool) Source {
	t.Helper()
	stick.Do(func() { stickData = mediumOf(t, false) })
	data := stickData
	if disc {
		data = mediumOf(t, true)
	}
	s, err := Medium(bytes.NewReader(data), int64(len(data)), 512, want)
	require.NoError(t, err)
	return s
}

func sysFile(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }

// machine has the stick that it was started from, a disk, and two that share a serial number.
func machine() flash.Host {
	sys := fstest.MapFS{}
	for name, serial := range map[string]string{"sda": "STICK", "vda": "INNER", "vdb": "TWIN", "vdc": "TWIN"} {
		dir := "block/" + name
		sys[dir+"/size"], sys[dir+"/serial"], sys[dir+"/device/x"], sys[dir+"/dev"] = sysFile("10000000"), sysFile(serial), sysFile(""), sysFile("8:"+serial)
	}
	return flash.Host{Sys: sys, Udev: fstest.MapFS{}}
}

// options install on a file instead of the disk INNER.
func options(t *testing.T, disc bool) (Options, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, 5<<30))
	return Options{
		Selector: spec.DiskSelector{Serial: "INNER"}, Host: machine(), BootDisk: "sda", Source: source(t, disc),
		Choice: flash.Choice{Node: "edge-01", Bundle: []byte("secret")},
		Open:   func(t flash.Target) (Device, error) { return flash.Open(name) },
	}, name
}

func TestAnInstalledDiskHasTheSystemAndAnESPOfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		disc  bool
		sizes []int64
	}{
		"from a stick, with its slots":                {false, []int64{64, 1, 1, 1}},
		"from a disc, with the slots of disk layouts": {true, []int64{1024, 2048, 32, 64}},
	} {
		t.Run(name, func(t *testing.T) {
			o, disk := options(t, tc.disc)
			r, err := Run(context.Background(), o, false)
			require.NoError(t, err)
			f, err := os.Open(disk)
			require.NoError(t, err)
			defer f.Close()
			table, err := gpt.Read(f, 5<<30, 512)
			require.NoError(t, err)
			require.Len(t, table.Partitions, 4, "nothing of what was made on the machine is taken along")
			for i, p := range table.Partitions {
				require.Equal(t, tc.sizes[i]*mib, p.Size)
				if i == 0 {
					require.Equal(t, r.ESP, p)
					require.NotEqual(t, guid(1), p.GUID, "firmware can tell it from the medium's")
					continue
				}
				require.Equal(t, want[i-1], p.GUID)
				content := make([]byte, mib)
				_, err := f.ReadAt(content, p.Start)
				require.NoError(t, err)
				require.Equal(t, bytes.Repeat([]byte{p.GUID[15]}, mib), content)
			}
			require.NotEqual(t, guid(7), table.Disk)
			require.Equal(t, map[string]string{
				"/EFI/BOOT/BOOTX64.EFI": "loader", "/EFI/Linux/spore_1.efi": "kernel",
				"/spore/node": "edge-01", "/spore/bundle": "secret",
			}, filesOf(t, io.NewSectionReader(f, r.ESP.Start, r.ESP.Size), r.ESP.Size))

			_, err = Run(context.Background(), o, false)
			require.ErrorIs(t, err, ErrThere)
			if tc.disc {
				return // Its ESP of 1 GiB need not be read once more.
			}
			again, err := Run(context.Background(), o, true)
			require.NoError(t, err)
			require.Zero(t, again.Report.Written)
		})
	}
}

func filesOf(t *testing.T, r io.ReaderAt, size int64) map[string]string {
	t.Helper()
	fsys, err := fat.Open(r, size)
	require.NoError(t, err)
	files, err := fsys.Walk()
	require.NoError(t, err)
	out := map[string]string{}
	for _, f := range files {
		b, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
		require.NoError(t, err)
		out[f.Path] = string(b)
	}
	return out
}

func TestADiskThatIsNotMeantIsNotWritten(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"two disks with the serial number":     {func(o *Options) { o.Selector.Serial = "TWIN" }, "2 disks have the serial"},
		"no disk with the serial number":       {func(o *Options) { o.Selector.Serial = "NONE" }, "no disk has the serial"},
		"the medium itself":                    {func(o *Options) { o.Selector.Serial = "STICK" }, ErrBooted.Error()},
		"the medium, of which there is a twin": {func(o *Options) { o.Selector.Serial, o.BootDisk = "TWIN", "vdc" }, ErrBooted.Error()},
		"a disk that is mounted":               {func(o *Options) { o.Host.Mounts = []byte("1 1 8:INNER / /mnt rw - ext4 /dev/vda rw\n") }, "/dev/vda is mounted on /mnt"},
		"somebody who says no":                 {func(o *Options) { o.Confirm = func(flash.Target, string) error { return errNo } }, errNo.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			o, disk := options(t, false)
			tc.change(&o)
			_, err := Run(context.Background(), o, true)
			require.ErrorContains(t, err, tc.want)
			data := make([]byte, mib)
			f, err := os.Open(disk)
			require.NoError(t, err)
			defer f.Close()
			_, err = f.ReadAt(data, 0)
			require.NoError(t, err)
			require.Equal(t, make([]byte, mib), data)
		})
	}
}

var errNo = io.ErrClosedPipe

func TestMediaThatCannotBeInstalledFrom(t *testing.T) {
	data := mediumOf(t, false)
	_, err := Medium(bytes.NewReader(data), int64(len(data)), 512, Wanted{guid(2), guid(3), guid(77)})
	require.ErrorContains(t, err, "it has no partition")
	_, err = Medium(bytes.NewReader(make([]byte, mib)), mib, 512, want)
	require.ErrorIs(t, err, gpt.ErrNone)
	clear(data[mib : mib+512])
	_, err = Medium(bytes.NewReader(data), int64(len(data)), 512, want)
	require.ErrorIs(t, err, fat.ErrUnsound)
}

func TestSelectors(t *testing.T) {
	for in, want := range map[string]spec.DiskSelector{
		" S5H9 \n":                  {Serial: "S5H9"},
		"wwn:0x5000c500a1b2c3d4":    {WWN: "0x5000c500a1b2c3d4"},
		"id:nvme-Fast_S5H9":         {ByID: "nvme-Fast_S5H9"},
		"/dev/disk/by-id/nvme-Fast": {ByID: "nvme-Fast"},
		"SER:IAL":                   {Serial: "SER:IAL"},
	} {
		got, err := ParseSelector(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for in, want := range map[string]string{"": "no disk is named", "/dev/sda": "changes from boot to boot"} {
		_, err := ParseSelector(in)
		require.ErrorContains(t, err, want)
	}
}

// globalVendor is that of the boot manager's variables (UEFI 2.10, section 3.3).
const globalVendor = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

func putVariable(t *testing.T, vars, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(vars, name+"-"+globalVendor), append([]byte{7, 0, 0, 0}, data...), 0o644))
}

func variable(t *testing.T, vars, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vars, name+"-"+globalVendor))
	require.NoError(t, err)
	require.EqualValues(t, 7, binary.LittleEndian.Uint32(data))
	return data[4:]
}

func TestTheDiskBecomesTheFirstBootEntry(t *testing.T) {
	vars := t.TempDir()
	put := func(name string, data []byte) { putVariable(t, vars, name, data) }
	put("Boot0000", []byte("the stick"))
	put("Boot0002", []byte("the network"))
	put("BootNext", []byte{7, 0})
	put("BootOrder", []byte{2, 0, 0, 0})
	esp := gpt.Partition{Number: 1, GUID: guid(1), Start: mib, Size: 1024 * mib}
	for range 2 { // The second time it is there.
		name, err := Register(vars, "Spore on INNER", esp, 512, false)
		require.NoError(t, err)
		require.Equal(t, "Boot0001", name)
		require.Equal(t, []byte{1, 0, 2, 0, 0, 0}, variable(t, vars, "BootOrder"))
	}
	require.Equal(t, []byte{7, 0}, variable(t, vars, "BootNext"), "the next start is as it was")
	description, path, err := efi.ParseLoadOption(variable(t, vars, "Boot0001"))
	require.NoError(t, err)
	require.Equal(t, "Spore on INNER", description)
	require.Equal(t, `HD(1)/\EFI\BOOT\BOOTX64.EFI`, path.String())
	require.False(t, path.Usable(), "it names a partition, and no hardware")

	_, err = Register(vars, "Spore on OTHER", gpt.Partition{Number: 1, GUID: guid(9)}, 512, true)
	require.NoError(t, err)
	require.Equal(t, []byte{3, 0, 1, 0, 2, 0, 0, 0}, variable(t, vars, "BootOrder"))
	require.Equal(t, []byte{3, 0}, variable(t, vars, "BootNext"))
}

func TestBootEntriesThatCannotBeChangedAreAnError(t *testing.T) {
	_, err := Register(filepath.Join(t.TempDir(), "none"), "x", gpt.Partition{}, 512, false)
	require.ErrorIs(t, err, fs.ErrNotExist)
	vars := t.TempDir()
	putVariable(t, vars, "BootOrder", []byte{1})
	_, err = Register(vars, "x", gpt.Partition{}, 512, false)
	require.ErrorContains(t, err, "BootOrder: 1 bytes")
}
