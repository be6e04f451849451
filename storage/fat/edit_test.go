package fat_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
	"spore/test/faults"
)

// memory is a disk that keeps a record of its writes; those since the last flush may be lost.
type memory struct {
	data []byte
	ops  []operation
}

// operation is a write, or a flush when it has no data.
type operation struct {
	at   int64
	data []byte
}

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(b, off)
}

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	m.ops = append(m.ops, operation{off, bytes.Clone(b)})
	return copy(m.data[off:], b), nil
}

func (m *memory) Sync() error {
	m.ops = append(m.ops, operation{})
	return nil
}

// cut is the disk after n operations: what was flushed is there, and of each later write the sectors that chance wants.
func cut(before []byte, ops []operation, n int, rng *rand.Rand) []byte {
	out := bytes.Clone(before)
	flushed := 0
	for i, o := range ops[:n] {
		if o.data == nil {
			flushed = i
		}
	}
	for i, o := range ops[:n] {
		for s := 0; s < len(o.data); {
			n := min(512-int(o.at+int64(s))%512, len(o.data)-s)
			if i < flushed || rng.IntN(2) == 0 {
				copy(out[o.at+int64(s):], o.data[s:s+n])
			}
			s += n
		}
	}
	return out
}

func makeDisk(t *testing.T, o fat.Options) *memory {
	t.Helper()
	img, err := fat.New(o)
	require.NoError(t, err)
	m := &memory{data: make([]byte, o.Size)}
	_, err = img.ReadAt(m.data, 0)
	require.NoError(t, err)
	return m
}

func edit(t *testing.T, m *memory) *fat.Editor {
	t.Helper()
	e, err := fat.Edit(m, int64(len(m.data)))
	require.NoError(t, err)
	return e
}

// content is what a filesystem holds, by path.
func content(t *testing.T, data []byte) map[string]string {
	t.Helper()
	f, err := fat.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	list, err := f.Walk()
	require.NoError(t, err)
	out := map[string]string{}
	for _, file := range list {
		b, err := io.ReadAll(io.NewSectionReader(file.Content, 0, file.Size))
		require.NoError(t, err)
		out[file.Path] = string(b)
	}
	return out
}

func requireSound(t *testing.T, data []byte) {
	t.Helper()
	out, err := exec.Command("fsck.fat", "-n", sparse(t, data)).CombinedOutput()
	if bytes.Contains(out, []byte("Orphaned long file name part")) {
		return // What is left of a name whose file is gone: nobody reads it, and its place is used again.
	}
	require.NoError(t, err, "%s\nrun make deps", out)
}

// sparse is a file with the data, whose zeros take no place: of hundreds of disks of 64 MiB most is empty, and to write
// it all takes longer than everything else that is done with them.
func sparse(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fat.img")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(int64(len(data))))
	zeros, at := make([]byte, 64<<10), int64(0)
	for part := range slices.Chunk(data, len(zeros)) {
		if !bytes.Equal(part, zeros[:len(part)]) {
			_, err := f.WriteAt(part, at)
			require.NoError(t, err)
		}
		at += int64(len(part))
	}
	return name
}

var espFiles = []fat.File{
	file("/EFI/BOOT/BOOTX64.EFI", strings.Repeat("loader", 1000)),
	file("/EFI/Linux/spore_0123456789ab.efi", strings.Repeat("kernel!", 3000)),
	file("/loader/loader.conf", "timeout 0\n"),
}

func TestFilesAreMadeRenamedAndRemoved(t *testing.T) {
	for name, o := range map[string]fat.Options{
		"a cluster a sector":    {Size: 64 * mib, Files: espFiles},
		"clusters of 4 KiB":     {Size: 320 * mib, Files: espFiles},
		"sectors of 4096 bytes": {Size: 320 * mib, SectorSize: 4096, Files: espFiles},
	} {
		t.Run(name, func(t *testing.T) {
			m := makeDisk(t, o)
			e := edit(t, m)
			free := e.Free()
			want := content(t, m.data)
			for i := range 40 { // More than one cluster of a directory.
				name, text := fmt.Sprintf("spore_100000000000%d_0123456789ab+3.efi", i), strings.Repeat(fmt.Sprint(i), 700*i)
				require.NoError(t, e.Create("/EFI/Linux", name, int64(len(text)), strings.NewReader(text), time.Now()))
				want["/EFI/Linux/"+name] = text
			}
			require.Equal(t, want, content(t, m.data))
			for i := range 40 {
				from, to := fmt.Sprintf("spore_100000000000%d_0123456789ab+3.efi", i), fmt.Sprintf("spore_100000000000%d_0123456789ab.efi", i)
				if i%3 == 0 {
					to = strings.Replace(from, "+3", "+2-1", 1) // A longer one.
				}
				require.NoError(t, e.Rename("/EFI/Linux", from, to))
				want["/EFI/Linux/"+to] = want["/EFI/Linux/"+from]
				delete(want, "/EFI/Linux/"+from)
				if i%2 == 0 {
					require.NoError(t, e.Remove("/EFI/Linux", to))
					delete(want, "/EFI/Linux/"+to)
				}
			}
			require.Equal(t, want, content(t, m.data))
			if o.SectorSize == 0 {
				requireSound(t, m.data)
			}
			for path := range want {
				if strings.HasPrefix(path, "/EFI/Linux/spore_1") {
					require.NoError(t, e.Remove("/EFI/Linux", filepath.Base(path)))
				}
			}
			require.Less(t, free-e.Free(), int64(64<<10), "the directory has grown, and nothing else is taken")
			require.Equal(t, e.Free(), edit(t, m).Free())
			read, err := e.FS.Free()
			require.NoError(t, err)
			require.Equal(t, e.Free(), read)
		})
	}
}

// Neighbours are written at once, and where there are no more the next place is found.
func TestALargeFileFillsWhatIsFree(t *testing.T) {
	for name, o := range map[string]fat.Options{
		"a cluster a sector": {Size: 64 * mib, Files: espFiles},
		"clusters of 4 KiB":  {Size: 320 * mib, Files: espFiles},
	} {
		t.Run(name, func(t *testing.T) {
			m := makeDisk(t, o)
			e := edit(t, m)
			want := content(t, m.data)
			rng := rand.New(rand.NewPCG(1, 2))
			create := func(name string, size int) {
				text := make([]byte, size)
				for i := range text {
					text[i] = byte(rng.Uint32())
				}
				require.NoError(t, e.Create("/EFI/Linux", name, int64(size), bytes.NewReader(text), time.Now()))
				want["/EFI/Linux/"+name] = string(text)
			}
			for i := range 8 {
				create(fmt.Sprintf("small%d", i), 300_000)
			}
			for i := 0; i < 8; i += 2 {
				require.NoError(t, e.Remove("/EFI/Linux", fmt.Sprintf("small%d", i)))
				delete(want, fmt.Sprintf("/EFI/Linux/small%d", i))
			}
			m.ops = nil
			create("large", 5*mib+1)
			require.Less(t, len(m.ops), 200)
			require.Equal(t, want, content(t, m.data))
			requireSound(t, m.data)
		})
	}
}

func TestACopyOfTheTableThatDiffersIsMended(t *testing.T) {
	m := makeDisk(t, fat.Options{Size: 64 * mib, Files: espFiles})
	good := bytes.Clone(m.data)
	reserved, sectors := int(m.data[14])|int(m.data[15])<<8, int(m.data[36])|int(m.data[37])<<8
	table := (reserved + sectors) * 512
	for _, at := range []int{table, table + 70_000, table + 400_001} {
		copy(m.data, good)
		m.ops = nil
		m.data[at] ^= 1
		edit(t, m)
		require.True(t, bytes.Equal(good, m.data), at)
		require.NotEmpty(t, m.ops)
	}
}

func TestWhatCannotBeDoneChangesNothing(t *testing.T) {
	m := makeDisk(t, fat.Options{Size: 64 * mib, Files: espFiles})
	before := bytes.Clone(m.data)
	e := edit(t, m)
	none := strings.NewReader("")
	for name, tt := range map[string]struct {
		do   func() error
		want error
	}{
		"a file that is there":        {func() error { return e.Create("/EFI/Linux", "SPORE_0123456789ab.efi", 0, none, time.Time{}) }, fs.ErrExist},
		"no directory":                {func() error { return e.Create("/nothing", "x", 0, none, time.Time{}) }, fs.ErrNotExist},
		"more than there is room":     {func() error { return e.Create("/EFI/Linux", "x.efi", 65*mib, none, time.Time{}) }, fat.ErrFull},
		"a source that is too short":  {func() error { return e.Create("/EFI/Linux", "x.efi", 9, none, time.Time{}) }, io.EOF},
		"a name with a slash":         {func() error { return e.Create("/EFI/Linux", "a/b", 0, none, time.Time{}) }, nil},
		"removing what is not there":  {func() error { return e.Remove("/EFI/Linux", "x") }, fs.ErrNotExist},
		"removing a directory":        {func() error { return e.Remove("/EFI", "Linux") }, nil},
		"replacing what is not there": {func() error { return e.Replace("/EFI/Linux", "x", 1, strings.NewReader("x"), time.Time{}) }, fs.ErrNotExist},
		"replacing a directory":       {func() error { return e.Replace("/EFI", "Linux", 1, strings.NewReader("x"), time.Time{}) }, nil},
		"replacing by nothing":        {func() error { return e.Replace("/EFI/Linux", "spore_0123456789ab.efi", 0, none, time.Time{}) }, nil},
		"replacing without room": {func() error {
			return e.Replace("/EFI/Linux", "spore_0123456789ab.efi", 65*mib, none, time.Time{})
		}, fat.ErrFull},
		"replacing by a short source": {func() error {
			return e.Replace("/EFI/Linux", "spore_0123456789ab.efi", 9, none, time.Time{})
		}, io.EOF},
		"renaming to another's name": {func() error { return e.Rename("/EFI/Linux", "spore_0123456789ab.efi", "spore_0123456789ab.efi/") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.do()
			require.Error(t, err)
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
			}
			require.Equal(t, content(t, before), content(t, m.data))
		})
	}
	require.NoError(t, e.Create("/EFI/Linux", "x.efi", 1, strings.NewReader("x"), time.Time{}))
	require.ErrorIs(t, e.Rename("/EFI/Linux", "x.efi", "spore_0123456789ab.efi"), fs.ErrExist)
}

// After a cut at any write each file is as it was or as it is to be, and the next Edit leaves nothing that fsck.fat
// finds.
func TestAfterAPowerCutEachFileIsOldOrNew(t *testing.T) {
	const counted, good = "spore_1000000000001_0123456789cd+2-1.efi", "spore_1000000000001_0123456789cd.efi"
	text := strings.Repeat("new kernel", 400)
	with := append([]fat.File{file("/EFI/Linux/"+counted, text)}, espFiles...)
	for i := range 5 { // So that the entries of a file lie in two sectors.
		with = append(with, file(fmt.Sprintf("/EFI/Linux/a file %d", i), "x"))
	}
	for name, tt := range map[string]struct {
		files    []fat.File
		do       func(*fat.Editor) error
		old, new string
	}{
		"make": {espFiles, func(e *fat.Editor) error {
			return e.Create("/EFI/Linux", counted, int64(len(text)), strings.NewReader(text), time.Time{})
		}, "", "/EFI/Linux/" + counted},
		"remove": {with, func(e *fat.Editor) error { return e.Remove("/EFI/Linux", counted) }, "/EFI/Linux/" + counted, ""},
		"rename": {with, func(e *fat.Editor) error { return e.Rename("/EFI/Linux", counted, good) }, "/EFI/Linux/" + counted, "/EFI/Linux/" + good},
	} {
		t.Run(name, func(t *testing.T) {
			m := makeDisk(t, fat.Options{Size: 64 * mib, Files: tt.files})
			before := bytes.Clone(m.data)
			others := content(t, before)
			delete(others, tt.old)
			require.NoError(t, tt.do(edit(t, m)))
			rng := rand.New(rand.NewPCG(1, 2))
			for n := range m.ops {
				for range 2 {
					data := cut(before, m.ops, n+1, rng)
					got := content(t, data)
					was, is := got[tt.old], got[tt.new]
					require.True(t, was == text || is == text || tt.old == "" && is == "" || tt.new == "" && was == "", "cut at %d", n)
					require.Contains(t, []string{"", text}, is)
					require.Contains(t, []string{"", text}, was)
					delete(got, tt.old)
					delete(got, tt.new)
					require.Equal(t, others, got, "cut at %d", n)

					again := &memory{data: data}
					err := tt.do(edit(t, again))
					if err != nil {
						require.True(t, errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist), "%v", err)
					}
					require.Equal(t, content(t, m.data), content(t, again.data), "cut at %d", n)
					if n%5 == 0 {
						requireSound(t, again.data)
					}
				}
			}
			faults.Tried(t, 2*len(m.ops))
		})
	}
}

// A directory with a file in it is made by two changes: a cut leaves neither, the empty directory, or both, and what was
// cut off is done again.
func TestAfterAPowerCutAFileInANewDirectoryIsThereWholeOrNotAtAll(t *testing.T) {
	do := func(e *fat.Editor) error {
		if err := e.MakeDirectory("/", "spore", time.Time{}); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return e.Create("/spore", "node", 7, strings.NewReader("edge-01"), time.Time{})
	}
	m := makeDisk(t, fat.Options{Size: 64 * mib, Files: espFiles})
	before, others := bytes.Clone(m.data), content(t, m.data)
	require.NoError(t, do(edit(t, m)))
	require.Equal(t, "edge-01", content(t, m.data)["/spore/node"])
	requireSound(t, m.data)
	require.ErrorIs(t, edit(t, m).MakeDirectory("/", "SPORE", time.Time{}), fs.ErrExist)
	require.ErrorIs(t, edit(t, m).MakeDirectory("/none", "x", time.Time{}), fs.ErrNotExist)
	require.NoError(t, edit(t, m).MakeDirectory("/spore", "a directory with a long name", time.Time{}))
	requireSound(t, m.data)
	ops := m.ops
	rng, seen := rand.New(rand.NewPCG(5, 6)), map[string]int{}
	for n := range ops {
		data := cut(before, ops, n+1, rng)
		got := content(t, data)
		require.Contains(t, []string{"", "edge-01"}, got["/spore/node"], "cut at %d", n)
		seen[got["/spore/node"]]++
		delete(got, "/spore/node")
		require.Equal(t, others, got, "cut at %d", n)
		again := &memory{data: data}
		if err := do(edit(t, again)); err != nil {
			require.ErrorIs(t, err, fs.ErrExist)
		}
		require.Equal(t, "edge-01", content(t, again.data)["/spore/node"], "cut at %d", n)
		requireSound(t, again.data)
	}
	require.Len(t, seen, 2)
	faults.Tried(t, len(ops))
}

// A file whose content is replaced has the one before or the new one after a cut at any write, and always one.
func TestAfterAPowerCutAReplacedFileHasOneContentWhole(t *testing.T) {
	before, after := strings.Repeat("old loader", 900), strings.Repeat("new loader", 1100)
	for name, path := range map[string]string{"short name": "/EFI/BOOT/BOOTX64.EFI", "long name": "/EFI/systemd/systemd-bootx64.efi"} {
		t.Run(name, func(t *testing.T) {
			m := makeDisk(t, fat.Options{Size: 64 * mib, Files: []fat.File{file(path, before), file("/loader/loader.conf", "timeout 0")}})
			disk, others := bytes.Clone(m.data), content(t, m.data)
			delete(others, path)
			free := edit(t, m).Free()
			do := func(m *memory) error {
				return edit(t, m).Replace(filepath.Dir(path), filepath.Base(path), int64(len(after)), strings.NewReader(after), time.Time{})
			}
			require.NoError(t, do(m))
			require.Equal(t, after, content(t, m.data)[path])
			require.Less(t, free-edit(t, m).Free(), int64(len(after)), "the room of the content before is free again")
			requireSound(t, m.data)
			rng, seen := rand.New(rand.NewPCG(3, 4)), map[string]int{}
			for n := range m.ops {
				for range 2 {
					data := cut(disk, m.ops, n+1, rng)
					got := content(t, data)
					require.Contains(t, []string{before, after}, got[path], "cut at %d", n)
					seen[got[path]]++
					delete(got, path)
					require.Equal(t, others, got, "cut at %d", n)
					again := &memory{data: data}
					require.NoError(t, do(again))
					require.Equal(t, content(t, m.data), content(t, again.data), "cut at %d", n)
					if n%5 == 0 {
						requireSound(t, again.data)
					}
				}
			}
			require.Len(t, seen, 2)
			faults.Tried(t, 2*len(m.ops))
		})
	}
}

func FuzzEdit(f *testing.F) {
	img, err := fat.New(fat.Options{Size: 64 * mib, Files: espFiles})
	if err != nil {
		f.Fatal(err)
	}
	data := make([]byte, img.Size())
	if _, err := img.ReadAt(data, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(44), uint32(2), "spore_1+3.efi")
	f.Add(uint32(32*512+8), uint32(0x0fffffff), "x")
	f.Fuzz(func(t *testing.T, at, value uint32, name string) {
		m := &memory{data: bytes.Clone(data)}
		copy(m.data[int(at)%(2<<20):], []byte{byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)})
		e, err := fat.Edit(m, int64(len(m.data)))
		if err != nil {
			return
		}
		_ = e.Create("/EFI/Linux", name, 5, strings.NewReader("12345"), time.Time{})
		_ = e.Rename("/EFI/Linux", name, name+"x")
		_ = e.Replace("/EFI/Linux", name+"x", 3, strings.NewReader("abc"), time.Time{})
		_ = e.Remove("/EFI/Linux", "spore_0123456789ab.efi")
	})
}
