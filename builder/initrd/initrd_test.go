package initrd

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/u-root/u-root/pkg/cpio"

	"spore/builder/kmod"
	"spore/builder/kmod/kmodtest"
	"spore/builder/store"
	"spore/builder/tree"
	"spore/builder/uki"
)

const modDir = "lib/modules/" + kmodtest.Release

var stage1 = []byte("\x7fELF and the rest of stage1")

func options(t testing.TB) Options {
	t.Helper()
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	return Options{
		Store: st, Kernel: "hash of the kernel's package", Version: kmodtest.Release,
		Tree:   func() (*tree.Tree, error) { return kmodtest.Tree(kmodtest.Kernel) },
		Init:   func() ([]byte, error) { return stage1, nil },
		InitID: "key of stage1",
		Config: []byte(`{"buildTime":1}`),
	}
}

// built is the initramfs as its bytes.
func built(o Options) ([]byte, error) {
	content, err := Build(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return uki.Read(content)
}

// unpack decompresses with the host's zstd, as a second opinion, and reads each archive in turn.
func unpack(t testing.TB, initrd []byte) map[string]cpio.Record {
	t.Helper()
	p := filepath.Join(t.TempDir(), "initrd.zst")
	require.NoError(t, os.WriteFile(p, bytes.TrimRight(initrd, "\x00"), 0o644))
	plain, err := exec.Command("zstd", "-dc", p).Output()
	require.NotErrorIs(t, err, exec.ErrNotFound, "zstd is missing: run make deps")
	require.NoError(t, err)
	out := map[string]cpio.Record{}
	for _, part := range bytes.SplitAfter(plain, []byte(cpio.Trailer+"\x00\x00\x00\x00")) {
		if len(part) == 0 {
			continue
		}
		records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(part)))
		require.NoError(t, err)
		for _, r := range records {
			require.Zero(t, r.MTime)
			require.Zero(t, r.UID)
			out[r.Name] = r
		}
	}
	return out
}

func content(t testing.TB, files map[string]cpio.Record, name string) string {
	t.Helper()
	r, ok := files[name]
	require.True(t, ok, "%s is missing", name)
	data, err := io.ReadAll(io.NewSectionReader(r.ReaderAt, 0, int64(r.FileSize)))
	require.NoError(t, err)
	return string(data)
}

func TestTheInitramfsHoldsWhatStage1Needs(t *testing.T) {
	initrd, err := built(options(t))
	require.NoError(t, err)
	require.Zero(t, len(initrd)%4, "systemd-stub appends uncompressed archives, which are aligned")
	files := unpack(t, initrd)

	require.Equal(t, string(stage1), content(t, files, "init"))
	require.Equal(t, uint64(cpio.S_IFREG|0o755), files["init"].Mode)
	require.Equal(t, `{"buildTime":1}`, content(t, files, "etc/spore/stage1.json"))
	for name, mode := range map[string]uint64{
		"dev": cpio.S_IFDIR | 0o755, "proc": cpio.S_IFDIR | 0o555, "sys": cpio.S_IFDIR | 0o555, "sysroot": cpio.S_IFDIR | 0o755,
		"etc/spore": cpio.S_IFDIR | 0o755, "dev/console": cpio.S_IFCHR | 0o600, "dev/null": cpio.S_IFCHR | 0o666,
	} {
		require.Equal(t, mode, files[name].Mode, name)
	}
	require.Equal(t, [2]uint64{5, 1}, [2]uint64{files["dev/console"].Rmajor, files["dev/console"].Rminor})

	dep := content(t, files, modDir+"/modules.dep")
	require.Contains(t, dep, "kernel/drivers/md/dm-verity.ko: kernel/drivers/md/dm-mod.ko kernel/lib/reed_solomon/reed_solomon.ko kernel/drivers/md/dm-bufio.ko\n")
	for _, line := range strings.Split(strings.TrimSpace(dep), "\n") {
		for _, p := range strings.Fields(strings.Replace(line, ":", " ", 1)) {
			require.Contains(t, files, modDir+"/"+p, "modules.dep names it")
		}
	}
	require.Contains(t, content(t, files, modDir+"/modules.alias"), "alias virtio:d00000002v* virtio_blk\n")
	require.Contains(t, content(t, files, modDir+"/modules.builtin"), "/virtio_pci.ko\n")
	require.NotContains(t, files, modDir+"/kernel/drivers/net/c.ko", "network cards are not for stage1")
	require.NotContains(t, files, modDir+"/kernel/drivers/crypto/padlock-sha.ko", "crypto cards are not for stage1")
}

// A node that is given another root believes the list: it names what stage1 can load for a disk, and nothing else.
func TestTheListInTheRootNamesTheModulesOfTheInitramfs(t *testing.T) {
	initrd, err := built(options(t))
	require.NoError(t, err)
	var want []string
	for line := range strings.Lines(content(t, unpack(t, initrd), modDir+"/modules.dep")) {
		file, _, _ := strings.Cut(line, ":")
		want = append(want, strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_"))
	}
	slices.Sort(want)

	root, err := kmodtest.Tree(kmodtest.Kernel)
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), root, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	selected, err := Select(m)
	require.NoError(t, err)
	require.Contains(t, want, "virtio_blk")
	require.Equal(t, strings.Join(want, "\n")+"\n", string(List(selected)))
}

func TestDirectoriesComeBeforeTheirContent(t *testing.T) {
	seen := map[string]bool{".": true}
	for _, r := range fileRecords(map[string][]byte{"a/b/c": nil, "a-b/c": nil, "a/b-c": nil}, 0o644) {
		require.True(t, seen[filepath.Dir(r.Name)], "%s", r.Name)
		seen[r.Name] = true
	}
}

func TestCompressedModulesAreUnpacked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kmodtest.Kernel))
	base := filepath.Join(dir, modDir)
	for _, c := range [][]string{
		{"xz", "--check=crc32", filepath.Join(base, "kernel/drivers/md/dm-verity.ko")},
		{"zstd", "-q", "--rm", filepath.Join(base, "kernel/fs/squashfs/squashfs.ko")},
	} {
		out, err := exec.Command(c[0], c[1:]...).CombinedOutput()
		require.NotErrorIs(t, err, exec.ErrNotFound, "%s is missing: run make deps", c[0])
		require.NoError(t, err, string(out))
	}
	tr := tree.New()
	require.NoError(t, filepath.WalkDir(base, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, p)
		if err != nil {
			return err
		}
		return tr.WriteFile("/usr/"+modDir+"/"+rel, data, 0o644, "")
	}))
	o := options(t)
	o.Tree = func() (*tree.Tree, error) { return tr, nil }
	compressed, err := built(o)
	require.NoError(t, err)
	plain, err := built(options(t))
	require.NoError(t, err)
	require.Equal(t, plain, compressed, "how the kernel's package compresses does not matter to modules of every machine")
}

// The kernel decompresses a module that it is given (CONFIG_MODULE_DECOMPRESS); the whole initramfs it
// unpacks at each start.
func TestOnlyDriversOfMostMachinesAreUnpacked(t *testing.T) {
	const dir = "/usr/" + modDir + "/kernel/drivers/scsi/"
	tr, err := kmodtest.Tree(append(slices.Clone(kmodtest.Kernel),
		kmodtest.Module{Path: "kernel/drivers/scsi/hpsa.ko", Info: []string{"alias=pci:v0000103Cd*"}, Needs: []string{"dm_register_target"}},
		kmodtest.Module{Path: "kernel/drivers/scsi/sd_mod.ko", Info: []string{"alias=scsi:t-0x00*"}}))
	require.NoError(t, err)
	packaged := map[string]string{}
	for _, name := range []string{"hpsa.ko", "sd_mod.ko"} {
		data, err := tr.ReadFile(dir + name)
		require.NoError(t, err)
		xz := exec.Command("xz", "--check=crc32")
		xz.Stdin = bytes.NewReader(data)
		out, err := xz.Output()
		require.NoError(t, err, "run make deps")
		require.NoError(t, tr.Remove(dir+name))
		require.NoError(t, tr.WriteFile(dir+name+".xz", out, 0o644, ""))
		packaged[name], packaged[name+".xz"] = string(data), string(out)
	}
	o := options(t)
	o.Tree = func() (*tree.Tree, error) { return tr, nil }
	initrd, err := built(o)
	require.NoError(t, err)
	files := unpack(t, initrd)
	for file, there := range map[string]bool{"hpsa.ko": false, "hpsa.ko.xz": true, "sd_mod.ko": true, "sd_mod.ko.xz": false} {
		if !there {
			require.NotContains(t, files, modDir+"/kernel/drivers/scsi/"+file)
			continue
		}
		require.Equal(t, packaged[file], content(t, files, modDir+"/kernel/drivers/scsi/"+file))
	}
	require.Contains(t, content(t, files, modDir+"/modules.dep"), "kernel/drivers/scsi/hpsa.ko.xz: kernel/drivers/md/dm-mod.ko\n")
	require.Contains(t, content(t, files, modDir+"/modules.alias"), "alias pci:v0000103Cd* hpsa\n")
}

func TestDriversOfNetworkCardsAreApartAndStayCompressed(t *testing.T) {
	kernel := append(slices.Clone(kmodtest.Kernel),
		kmodtest.Module{Path: "kernel/drivers/net/virtio_net.ko", Info: []string{"alias=virtio:d00000001v*"}, Needs: []string{"net_failover_create"}},
		kmodtest.Module{Path: "kernel/drivers/net/net_failover.ko", Exports: []string{"net_failover_create"}, Needs: []string{"dm_register_target"}})
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kernel))
	base := filepath.Join(dir, modDir)
	out, err := exec.Command("xz", "--check=crc32", filepath.Join(base, "kernel/drivers/net/virtio_net.ko")).CombinedOutput()
	require.NoError(t, err, string(out))
	packaged, err := os.ReadFile(filepath.Join(base, "kernel/drivers/net/virtio_net.ko.xz"))
	require.NoError(t, err)
	tr, err := kmodtest.Tree(kernel)
	require.NoError(t, err)
	require.NoError(t, tr.Remove("/usr/"+modDir+"/kernel/drivers/net/virtio_net.ko"))
	require.NoError(t, tr.WriteFile("/usr/"+modDir+"/kernel/drivers/net/virtio_net.ko.xz", packaged, 0o644, ""))
	o := options(t)
	o.Tree = func() (*tree.Tree, error) { return tr, nil }
	initrd, err := built(o)
	require.NoError(t, err)
	files := unpack(t, initrd)

	require.Equal(t, string(packaged), content(t, files, modDir+"/kernel/drivers/net/virtio_net.ko.xz"))
	require.Equal(t, "../kernel/drivers/md/dm-mod.ko:\n../kernel/drivers/net/virtio_net.ko.xz: ../kernel/drivers/net/net_failover.ko ../kernel/drivers/md/dm-mod.ko\n"+
		"../kernel/drivers/net/net_failover.ko: ../kernel/drivers/md/dm-mod.ko\n", content(t, files, modDir+"/network/modules.dep"))
	require.Contains(t, content(t, files, modDir+"/network/modules.alias"), "alias virtio:d00000001v* virtio_net\n")
	for _, index := range []string{"modules.dep", "modules.alias"} {
		require.NotContains(t, content(t, files, modDir+"/"+index), "virtio_net", "a machine that starts from a disk would load it")
	}
}

func TestDriversOfWatchdogsAreApartWithTheBridgesThatMakeTheirDevices(t *testing.T) {
	kernel := append(slices.Clone(kmodtest.Kernel),
		kmodtest.Module{Path: "kernel/drivers/watchdog/watchdog.ko", Exports: []string{"watchdog_register_device"}},
		kmodtest.Module{Path: "kernel/drivers/watchdog/i6300esb.ko", Info: []string{"alias=pci:v00008086d000025AB*"}, Needs: []string{"watchdog_register_device"}},
		kmodtest.Module{Path: "kernel/drivers/mfd/lpc_ich.ko", Info: []string{"alias=pci:v00008086d00002918*"}},
		kmodtest.Module{Path: "kernel/drivers/watchdog/softdog.ko", Needs: []string{"watchdog_register_device"}})
	o := options(t)
	o.Tree = func() (*tree.Tree, error) { return kmodtest.Tree(kernel) }
	initrd, err := built(o)
	require.NoError(t, err)
	files := unpack(t, initrd)

	require.Equal(t, "../kernel/drivers/mfd/lpc_ich.ko:\n../kernel/drivers/watchdog/i6300esb.ko: ../kernel/drivers/watchdog/watchdog.ko\n"+
		"../kernel/drivers/watchdog/watchdog.ko:\n", sortedLines(content(t, files, modDir+"/watchdog/modules.dep")))
	aliases := content(t, files, modDir+"/watchdog/modules.alias")
	require.Contains(t, aliases, "alias pci:v00008086d000025AB* i6300esb\n")
	require.Contains(t, aliases, "alias pci:v00008086d00002918* lpc_ich\n")
	require.NotContains(t, content(t, files, modDir+"/modules.alias"), "i6300esb", "no disk is behind it")
	require.NotContains(t, files, modDir+"/kernel/drivers/watchdog/softdog.ko")
}

// sortedLines is a text with its lines in order.
func sortedLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func TestARebuildReadsNeitherModulesNorStage1(t *testing.T) {
	o := options(t)
	first, err := built(o)
	require.NoError(t, err)
	o.Tree = func() (*tree.Tree, error) {
		t.Fatal("the tree was asked for")
		return nil, nil
	}
	o.Init = func() ([]byte, error) {
		t.Fatal("stage1 was asked for")
		return nil, nil
	}
	second, err := built(o)
	require.NoError(t, err)
	require.Equal(t, first, second)
	config := o.Config
	o.Config = []byte(`{"buildTime":2}`)
	_, err = built(o)
	require.NoError(t, err, "neither does one with another configuration")

	o.Config, o.InitID, o.Init = config, "key of another stage1", func() ([]byte, error) { return []byte("\x7fELF and more"), nil }
	third, err := built(o)
	require.NoError(t, err)
	require.Equal(t, "\x7fELF and more", content(t, unpack(t, third), "init"))
}

func TestAnEmptyStoreGivesTheSameBytes(t *testing.T) {
	first, err := built(options(t))
	require.NoError(t, err)
	second, err := built(options(t))
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestAlwaysNamesTheVerifiedRootsModules(t *testing.T) {
	tr, err := kmodtest.Tree(kmodtest.Kernel)
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), tr, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	names, err := Always(m)
	require.NoError(t, err)
	require.Equal(t, []string{"sha256_ssse3", "dm_mod", "dm_bufio", "reed_solomon", "dm_verity", "squashfs", "overlay"}, names)
}

func TestRefusals(t *testing.T) {
	without := func(path string) func(*Options) {
		return func(o *Options) {
			o.Tree = func() (*tree.Tree, error) {
				t, err := kmodtest.Tree(kmodtest.Kernel)
				if err == nil {
					err = t.Remove("/usr/" + modDir + "/" + path)
				}
				return t, err
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Options)
		err    string
	}{
		"a kernel without verity":        {without("kernel/drivers/md/dm-verity.ko"), "no module or alias dm-verity"},
		"a kernel without squashfs":      {without("kernel/fs/squashfs"), "no module or alias squashfs"},
		"a tree without that kernel":     {func(o *Options) { o.Version = "7.0" }, "is the kernel's package in the image?"},
		"a stage1 that is not a program": {func(o *Options) { o.Init = func() ([]byte, error) { return []byte("#!/bin/sh"), nil } }, "is not an ELF program"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			c.change(&o)
			_, err := built(o)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestMicrocode(t *testing.T) {
	tr := tree.New()
	for name, data := range map[string]string{
		"intel-ucode/06-55-03": "second;", "intel-ucode/06-4f-01.initramfs": "first;", "intel-ucode/README": "no",
		"amd-ucode/microcode_amd.bin": "amd;", "amd-ucode/microcode_amd_fam17h.bin": "fam17", "amd-ucode/x.asc": "no",
	} {
		require.NoError(t, tr.WriteFile("/usr/lib/firmware/"+name, []byte(data), 0o644, ""))
	}
	data, err := Microcode(tr)
	require.NoError(t, err)
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(data)))
	require.NoError(t, err)
	files := map[string]cpio.Record{}
	for _, r := range records {
		files[r.Name] = r
	}
	for name, want := range map[string]string{
		"kernel/x86/microcode/GenuineIntel.bin": "first;second;",
		"kernel/x86/microcode/AuthenticAMD.bin": "amd;fam17",
	} {
		require.Equal(t, want, content(t, files, name))
		require.Zero(t, files[name].FilePos%microcodeAlign, name)
	}
}

func TestMicrocodeThatIsNotThereIsAnError(t *testing.T) {
	_, err := Microcode(tree.New())
	require.ErrorContains(t, err, "non-free-firmware")
}
