package iso

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/stretchr/testify/require"
)

var when = time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)

// content is what a file of the tests holds.
func content(f File) []byte {
	return bytes.Repeat([]byte(f.Path+"\n"), int(f.Size)/(len(f.Path)+1)+1)[:f.Size]
}

// testVolume is a small volume with directories, some of them longer than a sector.
func testVolume() Volume {
	v := Volume{Label: "TEST", Time: when, Boot: []Entry{{Platform: BIOS, Sector: 200, Load: 4}, {Platform: UEFI, Sector: 201}}}
	at := int64(200)
	add := func(path string, size int64) {
		v.Files = append(v.Files, File{Path: path, Sector: at, Size: size})
		at += size/SectorSize + 1
	}
	add("isolinux/isolinux.bin", 5000)
	add("EFI/BOOT/BOOTX64.EFI", 3000)
	add("EFI/Linux/spore_0123456789ab.efi", 4096)
	add("README.TXT", 10)
	add("boot/vmlinuz", 2048)
	for i := range 90 {
		add(fmt.Sprintf("many/file_number_%02d.data", i), int64(i))
	}
	for i := range 70 {
		add(fmt.Sprintf("d%02d/e/f", i), 1)
	}
	v.Sectors = at
	return v
}

func image(t testing.TB, v Volume) []byte {
	t.Helper()
	meta, err := v.Marshal()
	require.NoError(t, err)
	require.LessOrEqual(t, len(meta)+SystemArea, 200*SectorSize, "the content begins behind it")
	out := make([]byte, v.Sectors*SectorSize)
	copy(out[SystemArea:], meta)
	for _, f := range v.Files {
		copy(out[f.Sector*SectorSize:], content(f))
	}
	return out
}

func TestAVolumeIsReadAsItWasWritten(t *testing.T) {
	v := testVolume()
	b := image(t, v)
	info, err := Read(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.Equal(t, "TEST", info.Label)
	require.Equal(t, v.Sectors, info.Sectors)
	require.Equal(t, v.Boot, info.Boot)
	require.Len(t, info.Files, len(v.Files))
	for _, want := range v.Files {
		got, ok := Find(info.Files, want.Path)
		require.True(t, ok, want.Path)
		require.Equal(t, File{strings.ToUpper(want.Path), want.Sector, want.Size}, got)
	}
}

func TestTheSameVolumeHasTheSameBytesInAnyOrderOfItsFiles(t *testing.T) {
	v := testVolume()
	a := image(t, v)
	for i := range v.Files {
		j := (i * 7) % len(v.Files)
		v.Files[i], v.Files[j] = v.Files[j], v.Files[i]
	}
	require.True(t, bytes.Equal(a, image(t, v)))
}

func TestGoDiskfsReadsTheSame(t *testing.T) {
	v := testVolume()
	name := filepath.Join(t.TempDir(), "x.iso")
	require.NoError(t, os.WriteFile(name, image(t, v), 0o644))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	fsys, err := iso9660.Read(file.New(f, true), v.Sectors*SectorSize, 0, SectorSize)
	require.NoError(t, err)
	require.Equal(t, "TEST", strings.TrimRight(fsys.Label(), " \x00"))
	for _, want := range v.Files {
		r, err := fsys.OpenFile(strings.ToUpper(want.Path), os.O_RDONLY)
		require.NoError(t, err, want.Path)
		got, err := io.ReadAll(r)
		require.NoError(t, err, want.Path)
		require.Equal(t, content(want), got, want.Path)
	}
}

func TestAFileOverFourGiBHasSeveralExtents(t *testing.T) {
	const size = 9<<30 + 5
	v := Volume{Label: "BIG", Sectors: 6 << 20, Files: []File{{"root.squashfs", 512, size}, {"z", 300, 1}, {"a", 301, 1}}}
	meta, err := v.Marshal()
	require.NoError(t, err)
	b := append(make([]byte, SystemArea), meta...)
	info, err := Read(sparse{b}, v.Sectors*SectorSize)
	require.NoError(t, err)
	require.Equal(t, []File{{"A", 301, 1}, {"ROOT.SQUASHFS", 512, size}, {"Z", 300, 1}}, info.Files)
}

// sparse is b with zeros behind it.
type sparse struct{ b []byte }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.b)) {
		copy(p, s.b[off:])
	}
	return len(p), nil
}

func TestWhatTheFormatCannotSayIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Volume)
		err    string
	}{
		"a label in lower case":     {func(v *Volume) { v.Label = "spore" }, "label"},
		"a label that is too long":  {func(v *Volume) { v.Label = strings.Repeat("A", 33) }, "label"},
		"no label":                  {func(v *Volume) { v.Label = "" }, "label"},
		"a name with a hyphen":      {func(v *Volume) { v.Files[0].Path = "root-a" }, "not a name"},
		"a name with two dots":      {func(v *Volume) { v.Files[0].Path = "a.b.c" }, "not a name"},
		"a long name":               {func(v *Volume) { v.Files[0].Path = strings.Repeat("a", 31) }, "not a name"},
		"a directory with a dot":    {func(v *Volume) { v.Files[0].Path = "a.b/c" }, "not a name"},
		"an empty part":             {func(v *Volume) { v.Files[0].Path = "a//c" }, "not a name"},
		"the same name twice":       {func(v *Volume) { v.Files[0].Path = "Readme.txt" }, "twice"},
		"a file that is a folder":   {func(v *Volume) { v.Files[4].Path = "readme.txt/x" }, "not a name"},
		"a folder that is a file":   {func(v *Volume) { v.Files[1].Path, v.Files[2].Path = "x", "x/y" }, "a file and a directory"},
		"a file that is a folder 2": {func(v *Volume) { v.Files[2].Path, v.Files[1].Path = "x", "x/y" }, "twice"},
		"nine directories":          {func(v *Volume) { v.Files[0].Path = "a/b/c/d/e/f/g/h/i" }, "deep"},
		"content behind the end":    {func(v *Volume) { v.Files[0].Sector = v.Sectors }, "outside"},
		"content over the end":      {func(v *Volume) { v.Files[0].Size = v.Sectors * SectorSize }, "outside"},
		"a negative size":           {func(v *Volume) { v.Files[0].Size = -1 }, "outside"},
		"a boot image behind it":    {func(v *Volume) { v.Boot[0].Sector = v.Sectors }, "outside"},
		"no sectors":                {func(v *Volume) { v.Sectors = 0 }, "cannot be"},
		"too many sectors":          {func(v *Volume) { v.Sectors = 1 << 32 }, "cannot be"},
		"too many boot entries":     {func(v *Volume) { v.Boot = make([]Entry, 32) }, "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			v := testVolume()
			c.change(&v)
			_, err := v.Marshal()
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestAVolumeThatLiesIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte)
		err    string
	}{
		"no descriptor":                {func(b []byte) { b[primarySector*SectorSize+1] = 'X' }, ErrNone.Error()},
		"only an end":                  {func(b []byte) { b[primarySector*SectorSize] = kindEnd }, ErrNone.Error()},
		"blocks of another size":       {func(b []byte) { b[primarySector*SectorSize+129] = 2 }, "blocks of"},
		"a catalog outside":            {func(b []byte) { b[bootSector*SectorSize+74] = 0xff }, "boot catalog"},
		"a catalog with a wrong sum":   {func(b []byte) { b[catalogSector*SectorSize+5] ^= 1 }, "no validation entry"},
		"a root outside":               {func(b []byte) { b[primarySector*SectorSize+156+5] = 0xff }, "the directory /"},
		"a root without an end":        {func(b []byte) { b[primarySector*SectorSize+156+13] = 0xff }, "bytes"},
		"a directory inside of itself": {loop, "do not end"},
		"a record over the end":        {func(b []byte) { rootDir(b)[0] = 255; rootDir(b)[32] = 230 }, "a record of"},
	} {
		t.Run(name, func(t *testing.T) {
			b := image(t, testVolume())
			c.change(b)
			_, err := Read(bytes.NewReader(b), int64(len(b)))
			require.ErrorContains(t, err, c.err)
		})
	}
}

// rootDir is the directory of the root.
func rootDir(b []byte) []byte {
	r := b[primarySector*SectorSize+156:]
	return b[(int(r[2])|int(r[3])<<8)*SectorSize:]
}

// loop makes the first directory of the root the root itself.
func loop(b []byte) {
	d := rootDir(b)
	at := 34 * 2
	for d[at+25]&flagDir == 0 {
		at += int(d[at])
	}
	copy(d[at+2:at+18], d[2:18])
}

func FuzzRead(f *testing.F) {
	b := image(f, testVolume())
	f.Add(b[SystemArea : 60*SectorSize])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, tail []byte) {
		b := append(make([]byte, SystemArea), tail...)
		info, err := Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, file := range info.Files {
			if file.Sector < 0 || file.Size < 0 || file.Sector*SectorSize+file.Size > int64(len(b)) {
				t.Fatalf("%+v is outside", file)
			}
		}
	})
}
