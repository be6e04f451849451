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
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

const release = "6.12.0-test"

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

// ko describes a made-up module.
type ko struct {
	path    string
	info    []string
	exports []string
	needs   []string
}

// encode makes an ELF64 relocatable file with the sections that depmod reads.
func (k ko) encode() []byte {
	strtab := []byte{0}
	symtab := make([]byte, symSize)
	symbol := func(name string, section uint16) {
		s := make([]byte, symSize)
		binary.LittleEndian.PutUint32(s, uint32(len(strtab)))
		s[4] = 1 << 4 // global
		binary.LittleEndian.PutUint16(s[6:], section)
		symtab = append(symtab, s...)
		strtab = append(append(strtab, name...), 0)
	}
	for _, e := range k.exports {
		symbol("__crc_"+e, 0xfff1) // SHN_ABS
		symbol(e, 1)
	}
	for _, n := range k.needs {
		symbol(n, shnUndef)
	}
	info := []byte(strings.Join(append(k.info, "name="+nameOf(k.path)), "\x00") + "\x00")
	return elf([]section{{".modinfo", info, 1}, {".symtab", symtab, 2}, {".strtab", strtab, 3}})
}

type section struct {
	name string
	data []byte
	kind uint32
}

func elf(secs []section) []byte {
	le := binary.LittleEndian
	secs = append(secs, section{".shstrtab", nil, 3})
	names := []byte{0}
	offs := make([]uint32, len(secs))
	for i, s := range secs {
		offs[i] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	secs[len(secs)-1].data = names
	out := make([]byte, ehdrSize)
	copy(out, "\x7fELF\x02\x01\x01")
	le.PutUint16(out[16:], 1)  // ET_REL
	le.PutUint16(out[18:], 62) // EM_X86_64
	le.PutUint32(out[20:], 1)
	le.PutUint16(out[52:], ehdrSize)
	le.PutUint16(out[58:], shdrSize)
	le.PutUint16(out[60:], uint16(len(secs)+1))
	le.PutUint16(out[62:], uint16(len(secs)))
	headers := make([]byte, shdrSize)
	for i, s := range secs {
		h := make([]byte, shdrSize)
		le.PutUint32(h, offs[i])
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], uint64(len(out)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		if s.kind == 2 {
			le.PutUint32(h[40:], uint32(i+2)) // its strings are the next section
			le.PutUint64(h[56:], symSize)
		}
		headers = append(headers, h...)
		out = append(out, s.data...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	le.PutUint64(out[40:], uint64(len(out)))
	return append(out, headers...)
}

var madeUp = []ko{
	{path: "kernel/lib/reed_solomon/reed_solomon.ko", exports: []string{"init_rs", "free_rs"}},
	{path: "kernel/drivers/md/dm-bufio.ko", exports: []string{"dm_bufio_read"}},
	{path: "kernel/drivers/md/dm-mod.ko", exports: []string{"dm_register_target"}, info: []string{"alias=devname:mapper/control", "alias=char-major-10-236"}},
	{path: "kernel/drivers/md/dm-verity.ko", needs: []string{"printk", "dm_bufio_read", "free_rs", "dm_register_target", "init_rs"}, info: []string{"softdep=pre: crypto-sha256"}},
	{path: "kernel/arch/x86/crypto/sha256-ssse3.ko", info: []string{"alias=sha256", "alias=crypto-sha256", "alias=crypto-sha256-ni"}},
	{path: "kernel/drivers/crypto/padlock-sha.ko", info: []string{"alias=crypto-sha256", "alias=cpu:type:x86,ven0005fam*mod*:feature:*00C2*"}},
	{path: "kernel/drivers/block/virtio_blk.ko", info: []string{"alias=virtio:d00000002v*"}},
	{path: "kernel/drivers/net/a-b.ko", info: []string{"alias=usb:v0[1-3]-x*", "alias=broken[", "alias=broken]", "firmware=a/b.bin"}, needs: []string{"c_sym"}},
	{path: "kernel/drivers/net/c.ko", info: []string{"alias=usb:v02-x7", "softdep=post: virtio_blk"}, exports: []string{"c_sym"}, needs: []string{"dm_register_target"}},
	{path: "extra/unordered.ko", needs: []string{"c_sym"}, info: []string{"weakdep=c"}},
}

// writeModules lays a made-up kernel into DIR/lib/modules.
func writeModules(t testing.TB, dir string, kos []ko) {
	t.Helper()
	base := filepath.Join(dir, "lib/modules", release)
	require.NoError(t, os.MkdirAll(base, 0o755))
	order := ""
	for _, k := range kos {
		p := filepath.Join(base, k.path)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, k.encode(), 0o644))
		if strings.HasPrefix(k.path, "kernel/") {
			order += k.path + "\n"
		}
	}
	for name, data := range map[string]string{
		"modules.order":           order,
		"modules.builtin":         "kernel/crypto/sha256_generic.ko\nkernel/drivers/virtio/virtio-pci.ko\n",
		"modules.builtin.modinfo": "sha256_generic.alias=crypto-sha256\x00sha256_generic.license=GPL\x00virtio_pci.alias=pci:v00001AF4d*\x00",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(base, name), []byte(data), 0o644))
	}
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
	writeModules(t, dirs["made up"], madeUp)
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
	sort.Strings(out)
	return out
}

// writeIndexed lays a tree with our own indexes into a directory and returns it.
func writeIndexed(t *testing.T, kos []ko) string {
	t.Helper()
	dir := t.TempDir()
	writeModules(t, dir, kos)
	files, err := Index(context.Background(), loadTree(t, dir), release)
	require.NoError(t, err)
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "lib/modules", release, name), data, 0o644))
	}
	return dir
}

func TestModprobeReadsOurIndexes(t *testing.T) {
	dir := writeIndexed(t, madeUp)
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
	writeModules(t, dir, madeUp)
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
	writeModules(t, dir, madeUp)
	m, err := Scan(context.Background(), loadTree(t, dir), release)
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
			want:     []string{"sha256_ssse3", "padlock_sha", "dm_bufio", "reed_solomon", "dm_mod", "dm_verity"},
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
		"nothing twice": {required: []string{"dm-mod", "dm_mod"}, optional: []string{"dm-mod"}, want: []string{"dm_mod"}},
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
		kos     []ko
		change  func(*tree.Tree)
		err     string
	}{
		"no such kernel": {version: "7.0", err: "is the kernel's package in the image?"},
		"not a release":  {version: "../x", err: "not a kernel release"},
		"a circle": {kos: []ko{
			{path: "kernel/a.ko", exports: []string{"a"}, needs: []string{"b"}},
			{path: "kernel/b.ko", exports: []string{"b"}, needs: []string{"a"}},
		}, err: "in a circle, or on one that does: a, b"},
		"one name twice": {kos: []ko{{path: "kernel/x/a-b.ko"}, {path: "kernel/y/a_b.ko"}}, err: "have the same module name"},
		"one file twice": {kos: []ko{{path: "kernel/a.ko"}, {path: "kernel/a.ko.xz"}}, err: "are the same module"},
		"a module that is no ELF file": {kos: madeUp, change: func(tr *tree.Tree) {
			_ = tr.WriteFile("/usr/lib/modules/"+release+"/kernel/z.ko", []byte("text"), 0o644, "")
		}, err: "kernel/z.ko: not an ELF file"},
		"a broken xz": {kos: madeUp, change: func(tr *tree.Tree) {
			_ = tr.WriteFile("/usr/lib/modules/"+release+"/kernel/z.ko.xz", []byte("text"), 0o644, "")
		}, err: "kernel/z.ko.xz"},
		"no modules.order": {kos: madeUp, change: func(tr *tree.Tree) {
			_ = tr.Remove("/usr/lib/modules/" + release + "/modules.order")
		}, err: "modules.order"},
		"no modules.builtin": {kos: madeUp, change: func(tr *tree.Tree) {
			_ = tr.Remove("/usr/lib/modules/" + release + "/modules.builtin")
		}, err: "modules.builtin"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeModules(t, dir, c.kos)
			tr := loadTree(t, dir)
			if c.change != nil {
				c.change(tr)
			}
			if c.version == "" {
				c.version = release
			}
			_, err := Scan(context.Background(), tr, c.version)
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestAModuleInUpdatesWins(t *testing.T) {
	dir := t.TempDir()
	writeModules(t, dir, []ko{{path: "kernel/a.ko", info: []string{"alias=old"}}, {path: "updates/a.ko", info: []string{"alias=new"}}})
	m, err := Scan(context.Background(), loadTree(t, dir), release)
	require.NoError(t, err)
	require.Len(t, m.Loadable, 1)
	require.Equal(t, "updates/a.ko", m.Loadable[0].Path)
}

func TestACancelledScanStops(t *testing.T) {
	dir := t.TempDir()
	writeModules(t, dir, madeUp)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Scan(ctx, loadTree(t, dir), release)
	require.ErrorIs(t, err, context.Canceled)
}

func TestKeysThatAreNotASCIIAreRefused(t *testing.T) {
	_, err := encodeIndex([]entry{{key: "straße"}})
	require.ErrorContains(t, err, "7-bit ASCII")
}

func FuzzObject(f *testing.F) {
	for _, k := range madeUp {
		f.Add(k.encode())
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
				_, err := Scan(context.Background(), tr, Versions(tr)[0])
				require.NoError(b, err)
			}
		})
	}
}
