package kmod

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod/kmodtest"
	"spore/builder/tree"
)

const release = kmodtest.Release

// realModules names directories that hold lib/modules/VERSION of real kernels, separated by colons; the tests that
// compare with depmod take them besides the made-up one.
const realModules = "SPORE_TEST_MODULES"

// hostFile is the content of a file of the host.
type hostFile struct {
	path string
	size int64
}

func (f hostFile) Size() int64                  { return f.size }
func (f hostFile) Open() (io.ReadCloser, error) { return os.Open(f.path) }

// loadTree puts the module directory of DIR/lib/modules or DIR/usr/lib/modules into a tree.
func loadTree(t testing.TB, dir string) *tree.Tree {
	t.Helper()
	tr := tree.New()
	for _, lib := range []string{"lib/modules", "usr/lib/modules"} {
		base := filepath.Join(dir, lib)
		if _, err := os.Stat(base); err != nil {
			continue
		}
		require.NoError(t, filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(base, p)
			if err != nil {
				return err
			}
			return tr.Add("/usr/lib/modules/"+rel, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: hostFile{p, info.Size()}})
		}))
	}
	return tr
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NotErrorIs(t, err, exec.ErrNotFound, "%s is missing: run make deps", name)
	require.NoError(t, err, "%s %v: %s", name, args, stderr.String())
	return string(out)
}

func TestIndexesAreThoseOfDepmod(t *testing.T) {
	dirs := map[string]string{"made up": t.TempDir()}
	require.NoError(t, kmodtest.Write(dirs["made up"], kmodtest.Kernel))
	for _, d := range filepath.SplitList(os.Getenv(realModules)) {
		dirs[filepath.Base(d)] = d
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			tr := loadTree(t, dir)
			versions := Versions(tr)
			require.Len(t, versions, 1)
			files, err := Index(context.Background(), tr, versions[0])
			require.NoError(t, err)

			theirs := depmod(t, tr, versions[0])
			for file, data := range files {
				if strings.HasSuffix(file, ".bin") {
					want, err := os.ReadFile(filepath.Join(theirs, file))
					require.NoError(t, err)
					require.Equal(t, dumpIndex(t, want), dumpIndex(t, data), file)
					continue
				}
				if file == "modules.weakdep" { // since kmod 33; Debian 12 has 30
					continue
				}
				want, err := os.ReadFile(filepath.Join(theirs, file))
				require.NoError(t, err)
				if file == "modules.symbols" { // theirs is in the order of a hash table
					require.ElementsMatch(t, strings.Split(string(want), "\n"), strings.Split(string(data), "\n"), file)
					continue
				}
				require.Equal(t, string(want), string(data), file)
			}
		})
	}
}

// depmod copies the modules of a tree to a directory, indexes it with the host's depmod and returns it.
func depmod(t *testing.T, tr *tree.Tree, version string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if n.Type != tree.Regular {
			return nil
		}
		to := filepath.Join(root, strings.TrimPrefix(p, "/usr"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		data, err := tr.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	}))
	run(t, "depmod", "-b", root, version)
	return filepath.Join(root, "lib/modules", version)
}

// dumpIndex lists all keys and values of a binary index as "key priority value", sorted.
func dumpIndex(t *testing.T, b []byte) []string {
	t.Helper()
	be := binary.BigEndian
	require.Equal(t, uint32(indexMagic), be.Uint32(b))
	require.Equal(t, uint32(indexVersion), be.Uint32(b[4:]))
	var out []string
	var walk func(off uint32, key string)
	walk = func(off uint32, key string) {
		p := b[off&indexOffset:]
		text := func() string {
			end := bytes.IndexByte(p, 0)
			s := string(p[:end])
			p = p[end+1:]
			return s
		}
		if off&indexPrefix != 0 {
			key += text()
		}
		if off&indexChildren != 0 {
			first, last := p[0], p[1]
			p = p[2:]
			for c := int(first); c <= int(last); c++ {
				if child := be.Uint32(p); child != 0 {
					walk(child, key+string(rune(c)))
				}
				p = p[4:]
			}
		}
		if off&indexValues != 0 {
			n := be.Uint32(p)
			p = p[4:]
			for range n {
				priority := be.Uint32(p)
				p = p[4:]
				out = append(out, strings.Join([]string{key, string(rune(priority + 0x100)), text()}, " "))
			}
		}
	}
	walk(be.Uint32(b[8:]), "")
	slices.Sort(out)
	return out
}

// writeIndexed lays a tree with our own indexes into a directory and returns it.
func writeIndexed(t *testing.T, kos []kmodtest.Module) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kos))
	files, err := Index(context.Background(), loadTree(t, dir), release)
	require.NoError(t, err)
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "lib/modules", release, name), data, 0o644))
	}
	return dir
}

func TestModprobeReadsOurIndexes(t *testing.T) {
	dir := writeIndexed(t, kmodtest.Kernel)
	for name, want := range map[string][]string{
		"dm-verity":                 {"reed_solomon.ko", "dm-bufio.ko", "dm-mod.ko", "dm-verity.ko"},
		"virtio:d00000002v00001AF4": {"virtio_blk.ko"},
		"usb:v02-x7":                {"dm-mod.ko", "c.ko", "a-b.ko"},
		"symbol:c_sym":              {"dm-mod.ko", "c.ko"},
		"virtio_pci":                {"builtin virtio_pci"},
		"pci:v00001AF4d00001000sv":  {"builtin virtio_pci"},
	} {
		out := run(t, "modprobe", "-d", dir, "-S", release, "-C", t.TempDir(), "--show-depends", name)
		for _, w := range want {
			require.Contains(t, out, w, name)
		}
	}
	require.Contains(t, run(t, "modinfo", "-b", dir, "-k", release, "dm_verity"), "dm-verity.ko")
}

func TestSameModulesGiveSameBytes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kmodtest.Kernel))
	first, err := Index(context.Background(), loadTree(t, dir), release)
	require.NoError(t, err)
	second, err := Index(context.Background(), loadTree(t, dir), release)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestModulesSurviveJSON(t *testing.T) {
	m := scanMadeUp(t)
	data, err := json.Marshal(m)
	require.NoError(t, err)
	var back Modules
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, m, &back)
}

func scanMadeUp(t *testing.T) *Modules {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kmodtest.Kernel))
	m, err := Scan(context.Background(), loadTree(t, dir), release, Part{})
	require.NoError(t, err)
	return m
}

func TestClosure(t *testing.T) {
	m := scanMadeUp(t)
	for name, c := range map[string]struct {
		required, optional []string
		want               []string
		err                string
	}{
		"what a module needs comes first, soft dependencies before it": {
			required: []string{"dm-verity"},
			want:     []string{"sha256_ssse3", "dm_bufio", "reed_solomon", "dm_mod", "dm_verity"},
		},
		"a soft dependency after": {required: []string{"c"}, want: []string{"dm_mod", "c", "virtio_blk"}},
		"an alias stands for every module that answers to it": {
			required: []string{"crypto-sha256"}, want: []string{"sha256_ssse3", "padlock_sha"},
		},
		"what is built in takes no loading":           {required: []string{"virtio_pci", "sha256-generic"}},
		"a built-in alias takes no loading":           {required: []string{"pci:v00001AF4d00001000sv"}},
		"patterns match":                              {required: []string{"usb:v03-xyz"}, want: []string{"dm_mod", "c", "virtio_blk", "a_b"}},
		"a required name that nobody knows is told":   {required: []string{"nvme", "dm-mod", "hpsa"}, err: "no module or alias nvme, hpsa,"},
		"an optional name that nobody knows is taken": {optional: []string{"nvme", "dm-mod"}, want: []string{"dm_mod"}},
		"nothing twice":                               {required: []string{"dm-mod", "dm_mod"}, optional: []string{"dm-mod"}, want: []string{"dm_mod"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := m.Closure(c.required, c.optional)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var names []string
			for _, g := range got {
				names = append(names, g.Name)
			}
			require.Equal(t, c.want, names)
		})
	}
}

func TestRestrictedIndexesNameOnlyWhatIsKept(t *testing.T) {
	m := scanMadeUp(t)
	keep, err := m.Closure([]string{"c"}, nil)
	require.NoError(t, err)
	files, err := m.Restrict(keep).Files()
	require.NoError(t, err)
	require.Equal(t, "kernel/drivers/md/dm-mod.ko:\nkernel/drivers/block/virtio_blk.ko:\nkernel/drivers/net/c.ko: kernel/drivers/md/dm-mod.ko\n",
		string(files["modules.dep"]))
	require.NotContains(t, string(files["modules.alias"]), "crypto-sha256")
}

func TestRefusedModuleDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		kos     []kmodtest.Module
		change  func(*tree.Tree)
		err     string
	}{
		"no such kernel": {version: "7.0", err: "is the kernel's package in the image?"},
		"not a release":  {version: "../x", err: "not a kernel release"},
		"a circle": {kos: []kmodtest.Module{
			{Path: "kernel/a.ko", Exports: []string{"a"}, Needs: []string{"b"}},
			{Path: "kernel/b.ko", Exports: []string{"b"}, Needs: []string{"a"}},
		}, err: "in a circle, or on such modules: a, b"},
		"one name twice": {kos: []kmodtest.Module{{Path: "kernel/x/a-b.ko"}, {Path: "kernel/y/a_b.ko"}}, err: "have the same module name"},
		"one file twice": {kos: []kmodtest.Module{{Path: "kernel/a.ko"}, {Path: "kernel/a.ko.xz"}}, err: "are the same module"},
		"a module that is no ELF file": {kos: kmodtest.Kernel, change: func(tr *tree.Tree) {
			_ = tr.WriteFile("/usr/lib/modules/"+release+"/kernel/z.ko", []byte("text"), 0o644, "")
		}, err: "kernel/z.ko: not an ELF file"},
		"a broken xz": {kos: kmodtest.Kernel, change: func(tr *tree.Tree) {
			_ = tr.WriteFile("/usr/lib/modules/"+release+"/kernel/z.ko.xz", []byte("text"), 0o644, "")
		}, err: "kernel/z.ko.xz"},
		"no modules.order": {kos: kmodtest.Kernel, change: func(tr *tree.Tree) {
			_ = tr.Remove("/usr/lib/modules/" + release + "/modules.order")
		}, err: "modules.order"},
		"no modules.builtin": {kos: kmodtest.Kernel, change: func(tr *tree.Tree) {
			_ = tr.Remove("/usr/lib/modules/" + release + "/modules.builtin")
		}, err: "modules.builtin"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, kmodtest.Write(dir, c.kos))
			tr := loadTree(t, dir)
			if c.change != nil {
				c.change(tr)
			}
			if c.version == "" {
				c.version = release
			}
			_, err := Scan(context.Background(), tr, c.version, Part{})
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestAModuleInUpdatesWins(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, []kmodtest.Module{{Path: "kernel/a.ko", Info: []string{"alias=old"}}, {Path: "updates/a.ko", Info: []string{"alias=new"}}}))
	m, err := Scan(context.Background(), loadTree(t, dir), release, Part{})
	require.NoError(t, err)
	require.Len(t, m.Loadable, 1)
	require.Equal(t, "updates/a.ko", m.Loadable[0].Path)
}

func TestACancelledScanStops(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, kmodtest.Write(dir, kmodtest.Kernel))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Scan(ctx, loadTree(t, dir), release, Part{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestKeysThatAreNotASCIIAreRefused(t *testing.T) {
	_, err := encodeIndex([]entry{{key: "straße"}})
	require.ErrorContains(t, err, "7-bit ASCII")
}

func FuzzObject(f *testing.F) {
	for _, k := range kmodtest.Kernel {
		f.Add(k.Encode())
	}
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseObject(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(o.needs), len(data)/symSize+1)
	})
}

func BenchmarkScan(b *testing.B) {
	for _, d := range filepath.SplitList(os.Getenv(realModules)) {
		tr := loadTree(b, d)
		b.Run(filepath.Base(d), func(b *testing.B) {
			for b.Loop() {
				_, err := Scan(context.Background(), tr, Versions(tr)[0], Part{})
				require.NoError(b, err)
			}
		})
	}
}
