package fat_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/storage/fat"
)

// foreign has mkfs.vfat make a volume, and mcopy fill it.
func foreign(t testing.TB, size int64, arguments []string, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	require.NoError(t, os.WriteFile(volume, nil, 0o600))
	require.NoError(t, os.Truncate(volume, size))
	out, err := exec.Command("mkfs.vfat", append(arguments, volume)...).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	for name, content := range files {
		file := filepath.Join(dir, "content")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		out, err := exec.Command("mcopy", "-o", "-i", volume, file, "::"+name).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	data, err := os.ReadFile(volume)
	require.NoError(t, err)
	return data
}

func TestVolumesOfMkfsAreReadWhateverKindOfFATTheyAre(t *testing.T) {
	files := map[string]string{
		"meta-data": "instance-id: i-1\n", "user-data": strings.Repeat("#cloud-config, of several clusters\n", 2000), "network-config": "", "OTHER.TXT": "short name",
	}
	for name, tc := range map[string]struct {
		size      int64
		arguments []string
		label     string
	}{
		"FAT12":                           {2 * mib, []string{"-n", "CIDATA"}, "CIDATA"},
		"FAT12 of a floppy disk":          {1440 << 10, []string{"-n", "cidata"}, "cidata"},
		"FAT16":                           {20 * mib, []string{"-F", "16", "-n", "CIDATA"}, "CIDATA"},
		"FAT16 with sectors of 2048 byte": {80 * mib, []string{"-F", "16", "-S", "2048", "-n", "CIDATA"}, "CIDATA"},
		"FAT32":                           {64 * mib, []string{"-F", "32", "-n", "CIDATA"}, "CIDATA"},
		"without a label":                 {2 * mib, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "2048") {
				t.Setenv("MTOOLS_SKIP_CHECK", "1")
			}
			data := foreign(t, tc.size, tc.arguments, files)
			fsys, err := fat.OpenAny(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			label, err := fsys.Label()
			require.NoError(t, err)
			require.Equal(t, tc.label, label)
			found, err := fsys.Walk()
			require.NoError(t, err)
			require.Len(t, found, len(files))
			for _, f := range found {
				got, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size))
				require.NoError(t, err)
				require.Equal(t, files[f.Path[1:]], string(got), f.Path)
			}
		})
	}
}

func TestWhatIsNoSmallFATIsRefused(t *testing.T) {
	data := foreign(t, 2*mib, []string{"-n", "CIDATA"}, nil)
	for name, tc := range map[string]struct {
		change func(b []byte)
		want   string
	}{
		"no signature":          {func(b []byte) { b[510] = 0 }, "no signature"},
		"no sectors of a size":  {func(b []byte) { b[11], b[12] = 1, 0 }, "describes no FAT"},
		"no room for a root":    {func(b []byte) { b[17], b[18] = 0, 0 }, "describes no FAT"},
		"larger than its place": {func(b []byte) { b[19], b[20] = 0xff, 0xff }, "larger than its partition"},
		"a root over the end":   {func(b []byte) { b[17], b[18] = 0xff, 0xff }, "it has 0 clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(data)
			tc.change(changed)
			_, err := fat.OpenAny(bytes.NewReader(changed), int64(len(changed)))
			require.ErrorIs(t, err, fat.ErrUnsound)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err := fat.Open(bytes.NewReader(data), int64(len(data)))
	require.ErrorIs(t, err, fat.ErrUnsound, "who changes a filesystem gets FAT32 alone")
	_, err = fat.OpenAny(bytes.NewReader(data[:100]), 100)
	require.Error(t, err)
}

// FuzzOpenAny walks whatever a small volume may hold.
func FuzzOpenAny(f *testing.F) {
	files := map[string]string{"meta-data": "instance-id: i-1\n", "user-data": strings.Repeat("x", 5000)}
	kinds := [][]byte{foreign(f, mib, []string{"-F", "12"}, files), foreign(f, 4*mib, []string{"-F", "16", "-s", "1"}, files)}
	f.Add(byte(0), uint32(0), byte(0))
	f.Add(byte(1), uint32(13), byte(255))
	f.Add(byte(0), uint32(515), byte(4))
	f.Add(byte(1), uint32(2050), byte(4))
	f.Fuzz(func(t *testing.T, kind byte, at uint32, value byte) {
		changed := bytes.Clone(kinds[int(kind)%len(kinds)])
		changed[int(at)%len(changed)] ^= value
		fsys, err := fat.OpenAny(bytes.NewReader(changed), int64(len(changed)))
		if err != nil {
			return
		}
		_, _ = fsys.Label()
		found, err := fsys.Walk()
		if err != nil {
			return
		}
		for _, file := range found {
			_, _ = io.Copy(io.Discard, io.LimitReader(io.NewSectionReader(file.Content, 0, file.Size), mib))
		}
	})
}
