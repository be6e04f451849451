package squashfs_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/format/squashfs"
)

// mksquashfs makes a small file system, not padded, so that its file is as long as what it uses.
func mksquashfs(t testing.TB, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath("mksquashfs"); err != nil {
		t.Fatal("mksquashfs is missing: run make deps")
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "file"), bytes.Repeat([]byte("spore "), 5000), 0o644))
	out := filepath.Join(dir, "out")
	text, err := exec.Command("mksquashfs", append([]string{filepath.Join(dir, "in"), out, "-nopad", "-noappend", "-no-progress"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	return b
}

func TestMksquashfsSizeIsRead(t *testing.T) {
	for _, args := range [][]string{{"-comp", "zstd"}, {"-comp", "gzip", "-b", "4096"}, {"-comp", "xz", "-b", "1048576"}} {
		b := mksquashfs(t, args...)
		size, err := squashfs.Size(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err, "%v", args)
		require.Equal(t, int64(len(b)), size, "%v", args)
	}
}

func TestBadSuperblocksAreRefused(t *testing.T) {
	good := mksquashfs(t)
	set := func(at int, value any) []byte {
		b := bytes.Clone(good)
		var w bytes.Buffer
		_ = binary.Write(&w, binary.LittleEndian, value)
		copy(b[at:], w.Bytes())
		return b
	}
	for _, c := range []struct {
		name, message string
		b             []byte
	}{
		{"magic", "wrong magic", set(0, []byte("sqsh"))},
		{"version", "version 3.0", set(28, uint16(3))},
		{"minor version", "version 4.1", set(30, uint16(1))},
		{"block size", "blocks of 4096 bytes, 2^17", set(12, uint32(4096))},
		{"block log", "2^40", set(22, uint16(40))},
		{"empty", "0 bytes used", set(40, uint64(0))},
		{"larger than the partition", "bytes used in a partition", set(40, uint64(len(good)+1))},
		{"huge", "18446744073709551615 bytes used", set(40, ^uint64(0))},
		{"short", "reading squashfs superblock", good[:95]},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := squashfs.Size(bytes.NewReader(c.b), int64(len(good)))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzParse(f *testing.F) {
	good := mksquashfs(f)
	f.Add(good[:96], int64(len(good)))
	f.Add(good[:96], int64(-1))
	f.Add([]byte("hsqs"), int64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, part int64) {
		if size, err := squashfs.Parse(b, part); err == nil {
			require.LessOrEqual(t, size, part)
			require.Positive(t, size)
		}
	})
}
