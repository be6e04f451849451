package fat_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
)

const mib = 1 << 20

func file(path, content string) fat.File {
	return fat.File{Path: path, Size: int64(len(content)), Content: strings.NewReader(content)}
}

// someFiles have what goes wrong easily: long names, names alike, empty files, several clusters, a directory of more than
// one cluster.
func someFiles() []fat.File {
	files := []fat.File{
		file("/EFI/BOOT/BOOTX64.EFI", strings.Repeat("loader", 70_000)),
		file("/EFI/Linux/spore_0123456789ab.efi", strings.Repeat("kernel!", 300_000)),
		file("/EFI/Linux/spore_0123456789cd.efi", "x"),
		file("/loader/loader.conf", "timeout 0\n"),
		file("/spore/node", "edge-01"),
		file("/loader/empty", ""),
		file("/exactly13char", "a long name that ends with its entry"),
		file("/Grüße.txt", "not ASCII"),
	}
	for i := range 200 {
		files = append(files, file(fmt.Sprintf("/many/file with a long name %03d", i), fmt.Sprint(i)))
	}
	return files
}

func write(t *testing.T, img *fat.Image) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fat.img")
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(img.Size()))
	require.NoError(t, img.WriteAll(f, 0))
	require.NoError(t, f.Close())
	return name
}

func TestForeignToolsFindNoFault(t *testing.T) {
	for name, o := range map[string]fat.Options{
		"small, a cluster a sector": {Size: 64 * mib},
		"as ESPs are":               {Size: 1024 * mib, Offset: mib},
		"sectors of 4096 bytes":     {Size: 512 * mib, Offset: mib, SectorSize: 4096},
		"an odd size":               {Size: 71*mib + 512*7},
	} {
		t.Run(name, func(t *testing.T) {
			o.Files, o.Label, o.Time = someFiles(), "SPORE ESP", time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
			img, err := fat.New(o)
			require.NoError(t, err)
			path := write(t, img)
			out, err := exec.Command("fsck.fat", "-n", "-V", path).CombinedOutput()
			require.NoError(t, err, "%s\nrun make deps", out)
			if o.SectorSize == 0 {
				out, err = exec.Command("mdir", "-i", path, "::/EFI/Linux").CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.Contains(t, string(out), "spore_0123456789ab.efi")
				require.Contains(t, string(out), "2026-01-02   3:04")
			}
			for _, f := range o.Files[:8] {
				want, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
				require.NoError(t, err)
				got, err := exec.Command("mtype", "-i", path, "::"+f.Path).Output()
				require.NoError(t, err, f.Path)
				require.True(t, bytes.Equal(want, got), f.Path)
			}
		})
	}
}

func TestWhatIsMadeIsRead(t *testing.T) {
	o := fat.Options{Size: 64 * mib, Files: someFiles()}
	img, err := fat.New(o)
	require.NoError(t, err)
	fsys, err := fat.Open(img, img.Size())
	require.NoError(t, err)
	found, err := fsys.Walk()
	require.NoError(t, err)
	require.Len(t, found, len(o.Files))
	byPath := map[string]fat.File{}
	for _, f := range found {
		byPath[f.Path] = f
	}
	for _, f := range o.Files {
		got, ok := byPath[f.Path]
		require.True(t, ok, f.Path)
		a, err := io.ReadAll(io.NewSectionReader(got.Content, 0, got.Size))
		require.NoError(t, err)
		b, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, b), f.Path)
	}
	again, err := fat.New(fat.Options{Size: o.Size, Files: found})
	require.NoError(t, err)
	require.Equal(t, len(o.Files), len(found))
	requireSame(t, write(t, img), write(t, again))
}

func requireSame(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	// The serial number depends on the order in which files are named.
	copy(x[67:71], y[67:71])
	copy(x[6*512+67:], y[6*512+67:6*512+71])
	require.True(t, bytes.Equal(x, y))
}

func TestWhatCannotBeAFilesystemIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		o    fat.Options
		want string
	}{
		"too small for FAT32":               {fat.Options{Size: 32 * mib}, "FAT32 has 65525"},
		"more than fits":                    {fat.Options{Size: 64 * mib, Files: []fat.File{{Path: "/big", Size: 65 * mib, Content: strings.NewReader("")}}}, "the files need more than the 64 MiB"},
		"a file too large for FAT":          {fat.Options{Size: 64 * mib, Files: []fat.File{{Path: "/big", Size: 1 << 32}}}, "more than a file can have"},
		"two names that differ in case":     {fat.Options{Size: 64 * mib, Files: []fat.File{file("/A", ""), file("/a", "")}}, "there is A already"},
		"a file that is a directory too":    {fat.Options{Size: 64 * mib, Files: []fat.File{file("/a", ""), file("/a/b", "")}}, "there is a already"},
		"the way up":                        {fat.Options{Size: 64 * mib, Files: []fat.File{file("/../a", "")}}, "not a file name"},
		"a character that FAT has not":      {fat.Options{Size: 64 * mib, Files: []fat.File{file("/a:b", "")}}, "not a file name"},
		"a long label":                      {fat.Options{Size: 64 * mib, Label: "twelve chars"}, "more than 11"},
		"sectors that do not fit":           {fat.Options{Size: 64*mib + 512, SectorSize: 4096}, "do not fit"},
		"more levels than anybody looks at": {fat.Options{Size: 64 * mib, Files: []fat.File{file("/1/2/3/4/5/6/7/8/9", "")}}, "levels"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fat.New(tc.o)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestASourceThatIsShorterThanItsFileIsAnError(t *testing.T) {
	img, err := fat.New(fat.Options{Size: 64 * mib, Files: []fat.File{{Path: "/a", Size: 100, Content: strings.NewReader("short")}}})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, io.NewSectionReader(img, 0, img.Size()))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// FuzzOpen walks whatever a stick may hold.
func FuzzOpen(f *testing.F) {
	img, err := fat.New(fat.Options{Size: 64 * mib, Files: someFiles()[:7]})
	require.NoError(f, err)
	head := make([]byte, 2*mib)
	_, err = img.ReadAt(head, 0)
	require.NoError(f, err)
	f.Add(uint32(0), byte(0))
	f.Add(uint32(13), byte(255))
	f.Add(uint32(32*512+20), byte(2))
	f.Fuzz(func(t *testing.T, at uint32, value byte) {
		changed := bytes.Clone(head)
		changed[int(at)%len(changed)] ^= value
		fsys, err := fat.Open(bytes.NewReader(changed), 64*mib)
		if err != nil {
			return
		}
		files, err := fsys.Walk()
		if err != nil {
			return
		}
		for _, file := range files {
			_, _ = io.Copy(io.Discard, io.LimitReader(io.NewSectionReader(file.Content, 0, file.Size), mib))
		}
	})
}
