package modules_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/stage1/modules"
)

// directory is a small /lib/modules/VERSION.
func directory() fstest.MapFS {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"modules.dep": text("kernel/md/dm-verity.ko: kernel/md/dm-bufio.ko kernel/lib/reed_solomon.ko kernel/md/dm-mod.ko\n" +
			"kernel/md/dm-bufio.ko: kernel/md/dm-mod.ko\nkernel/md/dm-mod.ko:\nkernel/lib/reed_solomon.ko:\n" +
			"kernel/fs/squashfs/squashfs.ko.xz:\nkernel/block/virtio_blk.ko:\nkernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\nkernel/usb/uas.ko: kernel/usb/usb-storage.ko\nkernel/usb/usb-storage.ko:\n"),
		"modules.builtin": text("kernel/virtio/virtio_pci.ko\n"),
		"modules.softdep": text("# comment\nsoftdep squashfs pre: reed_solomon missing post: virtio_blk\nsoftdep virtio_blk pre: squashfs\n"),
		"modules.alias": text("# comment\nalias virtio:d00000002v* virtio_blk\nalias usb:v*p*d*dc*dsc*dp*ic08isc06ip50in* usb_storage\n" +
			"alias usb:v*p*d*dc*dsc*dp*ic08isc06ip62in* uas\nalias usb:v04CBp0100d0[0-2]*dc*dsc*dp*ic*isc*ip*in* usb_storage\nalias pci:v*d*sv*sd*bc01sc06i01* ahci\nalias fs-squashfs squashfs\nbroken\nalias x\n"),
	}
}

func load(t *testing.T, insert func(string) error) (*modules.Loader, *[]string) {
	t.Helper()
	x, err := modules.ReadIndex(directory())
	require.NoError(t, err)
	var mu sync.Mutex
	var files []string
	return modules.NewLoader(x, "/m", func(file string) error {
		mu.Lock()
		defer mu.Unlock()
		files = append(files, file)
		if insert != nil {
			return insert(file)
		}
		return nil
	}), &files
}

func TestDependenciesComeFirstAndOnce(t *testing.T) {
	l, files := load(t, nil)
	require.NoError(t, l.Load("dm-verity"))
	require.NoError(t, l.Load("dm_verity"))
	require.NoError(t, l.Load("dm-bufio"))
	require.Equal(t, []string{"/m/kernel/md/dm-mod.ko", "/m/kernel/lib/reed_solomon.ko", "/m/kernel/md/dm-bufio.ko", "/m/kernel/md/dm-verity.ko"}, *files)
	require.Equal(t, []string{"dm_mod", "reed_solomon", "dm_bufio", "dm_verity"}, l.Loaded())
}

func TestSoftDependenciesComeFirstIfTheyAreThere(t *testing.T) {
	l, files := load(t, func(file string) error {
		if strings.Contains(file, "reed") {
			return errors.New("no such luck")
		}
		return nil
	})
	require.NoError(t, l.Load("virtio_blk"))
	require.Equal(t, []string{"/m/kernel/lib/reed_solomon.ko", "/m/kernel/fs/squashfs/squashfs.ko.xz", "/m/kernel/block/virtio_blk.ko"}, *files)
	require.Equal(t, []string{"squashfs", "virtio_blk"}, l.Loaded())
}

func TestWhatIsBuiltInIsThereAlready(t *testing.T) {
	l, files := load(t, nil)
	require.NoError(t, l.Load("virtio-pci"))
	require.Empty(t, *files)
}

func TestFailuresNameTheModule(t *testing.T) {
	l, _ := load(t, func(file string) error {
		if strings.Contains(file, "dm-mod") {
			return errors.New("key was rejected by service")
		}
		return nil
	})
	require.EqualError(t, l.Load("dm-verity"), "module dm_mod: key was rejected by service")
	require.ErrorContains(t, l.Load("nothing"), "module nothing is not in /m")
	require.ErrorContains(t, l.Load("a"), "module a depends on itself: a → b → a")
}

func TestSeveralMayLoadAtOnce(t *testing.T) {
	l, files := load(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _ = l.Load("dm-verity") })
		wg.Go(func() { _ = l.LoadFor("virtio:d00000002v00001AF4") })
	}
	wg.Wait()
	require.Len(t, *files, 6)
}

func TestDevicesGetTheirModules(t *testing.T) {
	x, err := modules.ReadIndex(directory())
	require.NoError(t, err)
	for modalias, want := range map[string][]string{
		"virtio:d00000002v00001AF4":                             {"virtio_blk"},
		"virtio:d00000001v00001AF4":                             nil,
		"usb:v46F4p0001d0000dc00dsc00dp00ic08isc06ip50in00":     {"usb_storage"},
		"usb:v46F4p0001d0000dc00dsc00dp00ic08isc06ip62in00":     {"uas"},
		"usb:v04CBp0100d0150dc00dsc00dp00ic08isc06ip50in00":     {"usb_storage", "usb_storage"},
		"usb:v04CBp0100d0350dc00dsc00dp00ic09isc00ip00in00":     nil,
		"pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01": nil, // ahci is not in the initramfs
		"": nil,
	} {
		require.Equal(t, want, x.Match(modalias), modalias)
	}
	only, err := modules.ReadIndex(directory(), "pci:", "virtio:")
	require.NoError(t, err)
	require.Empty(t, only.Match("usb:v46F4p0001d0000dc00dsc00dp00ic08isc06ip50in00"), "aliases of other buses were not kept")
	require.Equal(t, []string{"virtio_blk"}, only.Match("virtio:d00000002v00001AF4"))
}

func TestADirectoryWithoutDependenciesIsAnError(t *testing.T) {
	_, err := modules.ReadIndex(fstest.MapFS{})
	require.ErrorContains(t, err, "kernel modules: open modules.dep")
	_, err = modules.ReadIndex(fstest.MapFS{"modules.dep": {Data: make([]byte, 17<<20)}})
	require.ErrorContains(t, err, "more than 16777216 bytes")
	_, err = modules.ReadIndex(fstest.MapFS{"modules.dep": {Data: nil}})
	require.NoError(t, err)
}

func TestMatchAgreesWithTheShell(t *testing.T) {
	patterns := []string{"a*c", "*", "a?c", "[a-c]x*", "x[0-2]*y", "a*b*c", "**", "a*", "*c", "[ac]", "a*bc*bd", "[0-9a]b*"}
	texts := []string{"", "abc", "ac", "bx1", "x1zy", "x3y", "aXbYc", "aXcYb", "c", "abcabd", "abcbd", "a*bc*bd", "7b"}
	var script, got strings.Builder
	for _, p := range patterns {
		x, err := modules.ReadIndex(fstest.MapFS{"modules.dep": {Data: []byte("m.ko:\n")}, "modules.alias": {Data: []byte("alias " + p + " m\n")}})
		require.NoError(t, err)
		for _, s := range texts {
			fmt.Fprintf(&script, "case '%s' in %s) echo '%s %s true';; *) echo '%s %s false';; esac\n", s, p, p, s, p, s)
			fmt.Fprintln(&got, p, s, len(x.Match(s)) == 1)
		}
	}
	cmd := exec.Command("bash")
	cmd.Stdin = strings.NewReader(script.String())
	want, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestDepmodsFilesAreRead(t *testing.T) {
	if _, err := exec.LookPath("depmod"); err != nil {
		t.Fatal("depmod is missing: run make deps")
	}
	// depmod writes its files for a directory without modules, too: their comments must not confuse the reader.
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib/modules/6.0")
	require.NoError(t, os.MkdirAll(lib, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "modules.builtin"), []byte("kernel/fs/ext4/ext4.ko\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "modules.order"), nil, 0o644))
	out, err := exec.Command("depmod", "-b", dir, "6.0").CombinedOutput()
	require.NoError(t, err, "%s", out)
	x, err := modules.ReadIndex(os.DirFS(lib))
	require.NoError(t, err)
	require.True(t, x.Has("ext4"))
	require.False(t, x.Has("xfs"))
}

func TestTheDriversOfAnotherKernel(t *testing.T) {
	d := directory()
	d["modules.builtin.modinfo"] = &fstest.MapFile{Data: []byte("virtio_pci.license=GPL\x00virtio_pci.alias=pci:v00001AF4d*\x00gone.alias=pci:*\x00broken\x00.alias=\x00")}
	x, err := modules.ReadIndex(d)
	require.NoError(t, err)
	require.Empty(t, x.Drivers("pci:v00001AF4d00001042"))
	require.NoError(t, x.ReadBuiltinAliases(d))
	require.Equal(t, []string{"virtio_pci"}, x.Drivers("pci:v00001AF4d00001042"))
	require.Empty(t, x.Match("pci:v00001AF4d00001042"), "there is nothing to load")
	require.Equal(t, []string{"virtio_blk"}, x.Drivers("virtio:d00000002v00001AF4"))
	require.True(t, x.BuiltIn("virtio-pci"))
	require.False(t, x.BuiltIn("virtio_blk"))
	require.True(t, x.Wants("ahci", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01"), "whether its file is there or not")
	require.False(t, x.Wants("virtio_blk", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01"))

	only := x.Only(map[string]bool{"uas": true, "nothing": true})
	require.True(t, only.Has("uas"))
	require.True(t, only.Has("virtio_pci"))
	require.False(t, only.Has("virtio_blk"))
	require.Empty(t, only.Drivers("virtio:d00000002v00001AF4"))
	require.True(t, x.Has("virtio_blk"))

	require.NoError(t, x.ReadBuiltinAliases(fstest.MapFS{}), "kernels before 5.2")
	require.ErrorContains(t, x.ReadBuiltinAliases(fstest.MapFS{"modules.builtin.modinfo": {Data: make([]byte, 17<<20)}}), "more than 16777216 bytes")
}

func TestTheListOfTheInitramfs(t *testing.T) {
	names, err := modules.ReadList(fstest.MapFS{modules.ListFile: {Data: []byte("dm-mod\nvirtio_blk\n\n")}})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"dm_mod": true, "virtio_blk": true}, names)
	names, err = modules.ReadList(fstest.MapFS{})
	require.NoError(t, err)
	require.Nil(t, names, "an image without the list")
	_, err = modules.ReadList(fstest.MapFS{modules.ListFile: {Data: make([]byte, 17<<20)}})
	require.ErrorContains(t, err, "more than 16777216 bytes")
}

func FuzzReadIndex(f *testing.F) {
	d := directory()
	f.Add(string(d["modules.dep"].Data), string(d["modules.alias"].Data), string(d["modules.softdep"].Data), "virtio:d00000002v00001AF4")
	f.Add("a.ko: a.ko\n", "alias a[*-]b]*? a\n", "softdep a pre: a\n", "a-]b")
	f.Fuzz(func(t *testing.T, dep, alias, softdep, modalias string) {
		x, err := modules.ReadIndex(fstest.MapFS{"modules.dep": {Data: []byte(dep)}, "modules.alias": {Data: []byte(alias)}, "modules.softdep": {Data: []byte(softdep)}})
		require.NoError(t, err)
		l := modules.NewLoader(x, "/m", func(string) error { return nil })
		_ = l.LoadFor(modalias)
		for _, name := range x.Match(modalias) {
			require.True(t, x.Has(name))
			require.True(t, x.Wants(name, modalias))
		}
	})
}

func FuzzBuiltinAliases(f *testing.F) {
	f.Add("a.alias=pci:*\x00b.license=GPL\x00", "kernel/a.ko\n", "a\nb\n", "pci:v1")
	f.Add(".alias=\x00\x00=\x00a.alias=[", "", "\n-\n", "")
	f.Fuzz(func(t *testing.T, modinfo, builtin, list, modalias string) {
		dir := fstest.MapFS{
			"modules.dep": {Data: []byte("kernel/b.ko:\n")}, "modules.builtin": {Data: []byte(builtin)}, "modules.builtin.modinfo": {Data: []byte(modinfo)},
			modules.ListFile: {Data: []byte(list)},
		}
		x, err := modules.ReadIndex(dir)
		require.NoError(t, err)
		require.NoError(t, x.ReadBuiltinAliases(dir))
		names, err := modules.ReadList(dir)
		require.NoError(t, err)
		only := x.Only(names)
		for _, name := range only.Drivers(modalias) {
			require.Contains(t, x.Drivers(modalias), name)
			require.True(t, names[name] || x.BuiltIn(name))
		}
	})
}
