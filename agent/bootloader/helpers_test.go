package bootloader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"spore/agent/bootoption"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/test/testpe"
)

const (
	mib            = 1 << 20
	espAt, espSize = 1 * mib, 64 * mib
	diskSize       = 66 * mib
	globalVendor   = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	loaderVendor   = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

var espGUID = gpt.MustParseGUID("ccdf428a-298b-8c83-b481-d9d11cd24e34")

// program is a boot loader; certificate is the name of who signed it.
func program(text string, certificates ...string) []byte {
	b := testpe.Program(testpe.Section{Name: ".text", Data: bytes.Repeat([]byte(text), 300)})
	binary.LittleEndian.PutUint16(b[0x40+24+68:], 10) // an EFI application
	for _, c := range certificates {
		b = testpe.Sign(b, c)
	}
	return b
}

var (
	oldLoader = program("the old one ")
	newLoader = program("the new one, longer ")
	badLoader = program("returns at once ")
)

// medium is a disk that keeps a record of its writes, of which those since the last flush may be lost.
type medium struct {
	base  []byte
	pages map[int64][]byte
	ops   []operation
	// each, when not nil, is called after each operation.
	each func()
}

// operation is a write, or a flush when it has no data.
type operation struct {
	at   int64
	data []byte
}

const page = 512

func (m *medium) ReadAt(b []byte, off int64) (int, error) {
	n, err := bytes.NewReader(m.base).ReadAt(b, off)
	for p := off / page; p*page < off+int64(n); p++ {
		if data := m.pages[p]; data != nil {
			from := max(p*page, off)
			copy(b[from-off:n], data[from-p*page:])
		}
	}
	return n, err
}

func (m *medium) put(b []byte, off int64) {
	for len(b) > 0 {
		p := off / page
		data := bytes.Clone(m.pages[p])
		if data == nil {
			data = bytes.Clone(m.base[p*page : (p+1)*page])
		}
		n := copy(data[off-p*page:], b)
		m.pages[p] = data
		b, off = b[n:], off+int64(n)
	}
}

func (m *medium) did(o operation) {
	m.ops = append(m.ops, o)
	if m.each != nil {
		m.each()
	}
}

func (m *medium) clone() *medium { return &medium{base: m.base, pages: maps.Clone(m.pages)} }

// cut is the disk after n operations: what was flushed is there, and of each later write the sectors that chance wants.
func (m *medium) cut(before *medium, n int, rng *rand.Rand) *medium {
	out := before.clone()
	flushed := 0
	for i, o := range m.ops[:n] {
		if o.data == nil {
			flushed = i
		}
	}
	for i, o := range m.ops[:n] {
		for s := 0; s < len(o.data); s += page {
			if i < flushed || rng.IntN(2) == 0 {
				out.put(o.data[s:min(s+page, len(o.data))], o.at+int64(s))
			}
		}
	}
	return out
}

// window is a partition of a medium, or all of it.
type window struct {
	m        *medium
	at, size int64
	// worn has the device keep something else than what is written to it.
	worn func(at int64) bool
}

func (w window) ReadAt(b []byte, off int64) (int, error) {
	return io.NewSectionReader(w.m, w.at, w.size).ReadAt(b, off)
}

func (w window) WriteAt(b []byte, off int64) (int, error) {
	b = bytes.Clone(b)
	if w.worn != nil && w.worn(off) {
		b[len(b)/2] ^= 1
	}
	w.m.put(b, w.at+off)
	w.m.did(operation{w.at + off, b})
	return len(b), nil
}

func (w window) Sync() error                  { w.m.did(operation{}); return nil }
func (w window) Size() int64                  { return w.size }
func (w window) SectorSize() int              { return 512 }
func (w window) Fresh() (io.ReaderAt, string) { return w, "" }
func (w window) Close() error                 { return nil }

var base []byte

func newDisk(t *testing.T, loader []byte) *medium {
	t.Helper()
	if base == nil {
		base = makeDisk(t, oldLoader)
	}
	if bytes.Equal(loader, oldLoader) {
		return &medium{base: base, pages: map[int64][]byte{}}
	}
	return &medium{base: makeDisk(t, loader), pages: map[int64][]byte{}}
}

func makeDisk(t *testing.T, loader []byte) []byte {
	t.Helper()
	data := make([]byte, diskSize)
	table := gpt.Table{Disk: gpt.GUID{1}, Partitions: []gpt.Partition{
		{Number: 1, Type: gpt.ESP, GUID: espGUID, Start: espAt, Size: espSize, Name: "esp"},
	}}
	e, err := table.Encode(diskSize, 512)
	require.NoError(t, err)
	copy(data[512:], e.Primary)
	copy(data[e.BackupAt:], e.Backup)
	file := func(path string, content []byte) fat.File {
		return fat.File{Path: path, Size: int64(len(content)), Content: bytes.NewReader(content)}
	}
	img, err := fat.New(fat.Options{Size: espSize, Offset: espAt, Files: []fat.File{
		file(DefaultPath, loader), file(SystemdPath, loader), file("/EFI/Linux/spore_0123456789ab.efi", []byte("a UKI")),
	}})
	require.NoError(t, err)
	_, err = img.ReadAt(data[espAt:espAt+espSize], 0)
	require.NoError(t, err)
	return data
}

// computer is a machine with its firmware.
type computer struct {
	disk *medium
	Machine
	// boots counts its starts.
	boots int
	// forgets has the firmware not do what BootNext says.
	forgets bool
	said    []string
}

func newComputer(t *testing.T, disk *medium) *computer {
	t.Helper()
	c := &computer{disk: disk}
	c.Machine = Machine{
		Disk: "disk", ESP: "1", Partition: func(n int) string { return fmt.Sprint(n) },
		Open: func(path string, whole bool) (Device, error) {
			if whole {
				return window{c.disk, 0, diskSize, nil}, nil
			}
			return window{c.disk, espAt, espSize, nil}, nil
		},
		Vars: t.TempDir(), Dir: filepath.Join(t.TempDir(), "loader"), Settled: true,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) }, Say: func(s string) { c.said = append(c.said, s) },
	}
	return c
}

// text is a variable of the loader.
func text(s string) []byte {
	out := []byte{6, 0, 0, 0}
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// file is a file on the ESP; nil where there is none.
func (c *computer) file(t *testing.T, name string) []byte {
	t.Helper()
	f, err := fat.Open(window{c.disk, espAt, espSize, nil}, espSize)
	require.NoError(t, err)
	list, err := f.List(path.Dir(name))
	require.NoError(t, err)
	e, ok := fat.Find(list, path.Base(name))
	if !ok {
		return nil
	}
	r, err := f.Open(e)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}

// start is what firmware does: BootNext once, else what it starts by itself. It returns the loader that started the
// machine.
func (c *computer) start(t *testing.T, good ...[]byte) []byte {
	t.Helper()
	c.boots++
	c.BootID = fmt.Sprint("boot ", c.boots)
	started := func(name string) []byte {
		data := c.file(t, name)
		for _, g := range good {
			if bytes.Equal(g, data) {
				image := "\\" + name[1:]
				for i, b := range []byte(image) {
					if b == '/' {
						image = image[:i] + "\\" + image[i+1:]
					}
				}
				require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderImageIdentifier"+loaderVendor), text(image), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "LoaderDevicePartUUID"+loaderVendor), text(espGUID.String()), 0o600))
				return data
			}
		}
		return nil
	}
	// try starts what an option names.
	try := func(number []byte) []byte {
		option, err := os.ReadFile(filepath.Join(c.Vars, bootoption.Name(binary.LittleEndian.Uint16(number))+globalVendor))
		if err != nil {
			return nil
		}
		o, err := bootoption.Parse(option[4:], 512)
		require.NoError(t, err)
		require.Equal(t, espGUID, o.Partition.GUID)
		require.EqualValues(t, espAt, o.Partition.Start)
		require.EqualValues(t, espSize, o.Partition.Size)
		current := append([]byte{6, 0, 0, 0}, number[:2]...)
		require.NoError(t, os.WriteFile(filepath.Join(c.Vars, "BootCurrent"+globalVendor), current, 0o600))
		return started(o.File)
	}
	nextFile := filepath.Join(c.Vars, "BootNext"+globalVendor)
	next, err := os.ReadFile(nextFile)
	if err == nil {
		require.NoError(t, os.Remove(nextFile))
		if data := try(next[4:]); data != nil && !c.forgets {
			return data
		}
	} else {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	if order, err := os.ReadFile(filepath.Join(c.Vars, "BootOrder"+globalVendor)); err == nil {
		for order = order[4:]; len(order) > 0; order = order[2:] {
			if data := try(order); data != nil {
				return data
			}
		}
	}
	data := started(DefaultPath)
	require.NotNil(t, data, "the firmware has nothing to start: the machine is bricked")
	return data
}

func (c *computer) keep(t *testing.T, content []byte) {
	t.Helper()
	require.NoError(t, Keep(c.Dir, content, "root", "cluster", false))
}

func (c *computer) record(t *testing.T) Record {
	t.Helper()
	r, err := Read(c.Dir)
	require.NoError(t, err)
	return r
}

// requireEnd holds the machine to have one loader and nothing else of a trial.
func (c *computer) requireEnd(t *testing.T, state string, loader []byte) {
	t.Helper()
	r := c.record(t)
	require.Equal(t, state, r.State, r.Problem)
	require.True(t, bytes.Equal(loader, c.file(t, DefaultPath)))
	require.True(t, bytes.Equal(loader, c.file(t, SystemdPath)))
	require.Nil(t, c.file(t, NextPath))
	require.Equal(t, []byte("a UKI"), c.file(t, "/EFI/Linux/spore_0123456789ab.efi"))
	require.NoFileExists(t, filepath.Join(c.Dir, contentName))
	for _, pattern := range []string{"Boot[0-9A-F][0-9A-F][0-9A-F][0-9A-F]-*", "BootNext-*"} {
		names, err := filepath.Glob(filepath.Join(c.Vars, pattern))
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

// again starts the machine once more, and does what there is to do.
func (c *computer) again(t *testing.T, good ...[]byte) []byte {
	t.Helper()
	by := c.start(t, good...)
	require.NoError(t, c.Step())
	return by
}

// files are those of a directory with their content.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
	}
	return out
}

func putFiles(t *testing.T, dir string, all map[string][]byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for name, data := range all {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}
