package customize

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/image"
	"spore/builder/manifest"
	"spore/builder/media"
	"spore/builder/needs"
	"spore/builder/squashfs"
	"spore/builder/tree"
	"spore/builder/uki"
	"spore/builder/uki/ukitest"
	"spore/cluster"
	"spore/cluster/check"
	"spore/services"
	"spore/storage/verity"
)

const (
	example   = "../../examples/edge"
	buildTime = 1_790_000_000
)

// folder is a copy of a configuration folder with some texts of its files replaced.
func folder(t testing.TB, from string, edits ...[3]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "configs")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	for _, e := range edits {
		name := filepath.Join(dir, e[0])
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, string(text), e[1])
		require.NoError(t, os.WriteFile(name, bytes.ReplaceAll(text, []byte(e[1]), []byte(e[2])), 0o644))
	}
	return dir
}

func load(t testing.TB, dir string) *cluster.Config {
	t.Helper()
	c, report := cluster.Check(os.DirFS(dir), cluster.Options{})
	require.NoError(t, report.Err())
	return c
}

// loadAny is load for a folder that may have errors.
func loadAny(dir string) (*cluster.Config, check.Report) {
	return cluster.Check(os.DirFS(dir), cluster.Options{})
}

// ttl is the example with another time to live.
func ttl(t testing.TB) string {
	return folder(t, example, [3]string{"services/dns.yaml", "ttl: 60", "ttl: 90"}, [3]string{"cluster.yaml", "hostname: dns-01", "hostname: dns-zwei"})
}

// program is a PE32+ file for UEFI with one section of content; its memory ends at size.
func program(content []byte, size uint32) []byte {
	le := binary.LittleEndian
	const pe, opt, table, headers = 128, 128 + 24, 128 + 24 + 240, 2048
	content = append(bytes.Clone(content), make([]byte, (512-len(content)%512)%512)...)
	b := make([]byte, headers)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], pe)
	copy(b[pe:], "PE\x00\x00")
	le.PutUint16(b[pe+4:], 0x8664)
	le.PutUint16(b[pe+6:], 1)
	le.PutUint16(b[pe+20:], 240)
	le.PutUint16(b[pe+22:], 0x22e)
	le.PutUint16(b[opt:], 0x20b)
	le.PutUint32(b[opt+16:], 0x1000)
	le.PutUint32(b[opt+32:], 4096)
	le.PutUint32(b[opt+36:], 512)
	le.PutUint32(b[opt+56:], size)
	le.PutUint32(b[opt+60:], headers)
	le.PutUint16(b[opt+68:], 10)
	le.PutUint32(b[opt+108:], 16)
	copy(b[table:], ".text")
	for i, v := range []uint32{uint32(len(content)), 0x1000, uint32(len(content)), headers} {
		le.PutUint32(b[table+8+4*i:], v)
	}
	le.PutUint32(b[table+36:], 0x60000020)
	return append(b, content...)
}

// factory is a root with all that boots it, as the store of `spore build` has it.
type factory struct {
	root media.Root
	bios image.BIOS
	// large is a program of the root.
	large []byte
}

func newFactory(t testing.TB, config *cluster.Config) *factory {
	t.Helper()
	return newFactoryOf(t, config, bytes.Repeat([]byte("incompressible?"), 100_000))
}

// newFactoryOf is newFactory with another program in the root.
func newFactoryOf(t testing.TB, config *cluster.Config, large []byte) *factory {
	t.Helper()
	isolinux := bytes.Repeat([]byte("isolinux"), 601)
	copy(isolinux[64:], []byte{0xfb, 0xc0, 0x78, 0x70})
	f := &factory{
		root: media.Root{
			Stub: program(bytes.Repeat([]byte("stub"), 300), 0x2000),
			// Neither the end of a sector nor as large as in memory, as real ones.
			Kernel:    uki.Bytes(append(program(bytes.Repeat([]byte("kernel"), 3000), 0x40000), "tail"...)),
			Initrd:    uki.Bytes(bytes.Repeat([]byte("initrd"), 5000)),
			Microcode: []byte("microcode"), OSRelease: []byte("ID=spore\n"), Uname: "6.12.1-amd64",
			Loader:    program(bytes.Repeat([]byte("loader"), 500), 0x3000),
			BuildTime: buildTime,
		},
		large: large,
		bios:  image.BIOS{MBR: bytes.Repeat([]byte("mbr code"), 54), ISOLinux: isolinux, Ldlinux: []byte("ldlinux")},
	}
	f.makeRoot(t, config)
	return f
}

// makeRoot makes a root whose manifest says that it was built for a configuration.
func (f *factory) makeRoot(t testing.TB, config *cluster.Config) {
	t.Helper()
	m := manifest.Manifest{
		Format: 1, BuildTime: buildTime, Suite: "trixie", Kernel: "6.12.1-amd64", ConfigFormat: services.Format(),
		Own: needs.OwnFiles(config),
	}
	for _, p := range needs.Programs(config) {
		m.Programs = append(m.Programs, p.Name)
	}
	var err error
	m.Requested, err = needs.Packages(config)
	require.NoError(t, err)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	files := tree.New()
	require.NoError(t, files.Add(manifest.ImagePath, &tree.Inode{Type: tree.Regular, Mode: 0o644, Content: tree.Bytes(text)}))
	require.NoError(t, files.Add("/usr/bin/large", &tree.Inode{Type: tree.Regular, Mode: 0o755, Content: tree.Bytes(f.large)}))

	dir := t.TempDir()
	root, err := os.Create(filepath.Join(dir, "root"))
	require.NoError(t, err)
	defer root.Close()
	linked, err := squashfs.Link(root, files, squashfs.Options{BuildTime: buildTime})
	require.NoError(t, err)
	hashes, err := os.Create(filepath.Join(dir, "verity"))
	require.NoError(t, err)
	defer hashes.Close()
	hash, _, err := verity.Format(root, linked.Size, hashes, verity.Derive(linked.ContentID[:]))
	require.NoError(t, err)
	index, err := linked.Pieces.EncodeBlocks()
	require.NoError(t, err)
	_, err = hashes.Write(index)
	require.NoError(t, err)
	f.root.Hash = fmt.Sprintf("%x", hash)
	f.root.Squashfs, f.root.Verity = image.Source{Path: root.Name()}, image.Source{Path: hashes.Name()}
}

// withoutIndex makes the root one that an older spore built.
func (f *factory) withoutIndex(t testing.TB) {
	t.Helper()
	root, err := os.Stat(f.root.Squashfs.Path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(f.root.Verity.Path, verity.HashSize(root.Size())))
}

// build writes an image as `spore build` does: disk, iso or netboot.
func (f *factory) build(t testing.TB, config *cluster.Config, keys media.Keys, format string, files map[string][]byte) string {
	t.Helper()
	m, err := media.Make(media.Options{Root: f.root, Config: config, Keys: keys, Temp: t.TempDir()})
	require.NoError(t, err)
	defer m.Close()
	name := filepath.Join(t.TempDir(), "spore."+format)
	switch ctx := context.Background(); format {
	case "disk":
		err = m.WriteDisk(ctx, name, files)
	case "iso":
		err = m.WriteISO(ctx, name, f.bios, files)
	case "netboot":
		err = m.WriteNetboot(ctx, name, map[string][]byte{"snponly.efi": ukitest.Program(0, ".text"), "undionly.kpxe": []byte("iPXE")})
	}
	require.NoError(t, err)
	return name
}

// content is a file, or all files of a folder by their path.
func content(t testing.TB, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(name, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(name, p)
		out[rel] = string(data)
		return err
	}))
	return out
}

// requireSame compares two images without printing them.
func requireSame(t testing.TB, want, got string) {
	t.Helper()
	a, b := content(t, want), content(t, got)
	require.Len(t, b, len(a))
	for name := range a {
		require.True(t, a[name] == b[name], "%s and %s differ in %s", want, got, name)
	}
}

// small keeps disk images of tests small.
func small(c *cluster.Config) *cluster.Config {
	c.Image.Slots.ESP, c.Image.Slots.Root, c.Image.Slots.Verity, c.Image.Slots.Cluster = 64, 4, 1, 1
	return c
}

// run customizes an image.
func run(o Options) (*Result, error) {
	c, err := Plan(o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Write(context.Background())
}
