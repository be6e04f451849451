package flash

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fileOf makes a file of the size of the tests' disks in a folder.
func fileOf(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "disk.img")
	require.NoError(t, os.WriteFile(name, noise(3, 1000), 0o600))
	require.NoError(t, os.Truncate(name, diskSize))
	return name
}

func TestAFileIsWrittenAndReadBack(t *testing.T) {
	name := fileOf(t, t.TempDir())
	f, err := Open(name)
	require.NoError(t, err)
	defer f.Close()
	l := someLayout(2)
	r, err := Write(context.Background(), f, Options{Layout: l})
	require.NoError(t, err)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, whole(t, data, l))
	t.Log("note:", r.Note)
}

func TestReadsPastTheHostsMemoryAreOfAnyPlaceAndLength(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk.img")
	want := noise(4, 3*mebi+512)
	require.NoError(t, os.WriteFile(name, want, 0o600))
	f, err := OpenRead(name)
	require.NoError(t, err)
	defer f.Close()
	fresh, note := f.Fresh()
	t.Log("note:", note)
	for _, r := range [][2]int{{0, 512}, {512, 512}, {1000, 5000}, {0, 3 * mebi}, {3 * mebi, 512}, {2*mebi + 17, mebi}} {
		b := make([]byte, r[1])
		require.NoError(t, readFull(fresh, b, int64(r[0])), "%v", r)
		require.True(t, bytes.Equal(want[r[0]:r[0]+r[1]], b), "%v", r)
	}
	n, err := fresh.ReadAt(make([]byte, 1024), 3*mebi)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 512, n)
	require.Error(t, readFull(fresh, make([]byte, 1), 4*mebi))
}

func TestWritesPastTheHostsMemoryAreOfAnyPlaceAndLength(t *testing.T) {
	dirs := map[string]string{"on a disk": t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "spore-flash-*"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		dirs["where the file system may have none"] = shm
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			name := filepath.Join(dir, "disk.img")
			want := noise(4, 3*mebi+512)
			require.NoError(t, os.WriteFile(name, want, 0o600))
			f, err := Open(name)
			require.NoError(t, err)
			defer f.Close()
			content := noise(5, 2*mebi+1)
			for i, w := range [][2]int{
				{0, 512}, {512, 512}, {1000, 5000}, {4096, 4096}, {0, mebi}, {17, mebi}, {4096, mebi + 1},
				{8191, 2}, {2*mebi + 17, mebi}, {9, 0},
			} {
				from := i % 2 // Memory that is aligned, and some that is not.
				b := content[from : from+w[1]]
				n, err := f.Through().WriteAt(b, int64(w[0]))
				require.NoError(t, err, "%v", w)
				require.Equal(t, len(b), n)
				copy(want[w[0]:], b)
				if i == 4 { // What was written through the memory is not lost.
					_, err = f.WriteAt([]byte("here"), 4090)
					require.NoError(t, err)
					copy(want[4090:], "here")
				}
			}
			require.NoError(t, f.Sync())
			fresh, _ := f.Fresh()
			got := make([]byte, len(want))
			require.NoError(t, readFull(fresh, got, 0))
			require.True(t, bytes.Equal(want, got))
			require.NoError(t, readFull(f, got, 0))
			require.True(t, bytes.Equal(want, got))
		})
	}
	f, err := OpenRead(fileOf(t, t.TempDir()))
	require.NoError(t, err)
	defer f.Close()
	for _, size := range []int{10, 8192} {
		_, err := f.Through().WriteAt(make([]byte, size), 0)
		require.Error(t, err, "it was opened to be read")
	}
}

func TestWhereThereIsNoDirectReadingItIsSaid(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "spore-flash-*")
	if err != nil {
		t.Skip("there is no tmpfs in /dev/shm: " + err.Error())
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := fileOf(t, dir)
	probe, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err == nil {
		probe.Close()
		t.Skip("this kernel's tmpfs has O_DIRECT")
	}
	f, err := Open(name)
	require.NoError(t, err)
	defer f.Close()
	r, err := Write(context.Background(), f, Options{Layout: someLayout(2)})
	require.NoError(t, err)
	require.Contains(t, r.Note, "through the host's memory")
	require.Contains(t, r.Note, "O_DIRECT")
}

func TestWhatIsNeitherDiskNorFileIsNotOpened(t *testing.T) {
	_, err := Open(t.TempDir())
	require.ErrorContains(t, err, "neither a disk nor a file")
	_, err = Open("/dev/null")
	require.ErrorContains(t, err, "neither a disk nor a file")
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTheMeterTellsRateAndTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	m := Meter{Now: func() time.Time { return now }}
	require.Equal(t, "writing 0 %: 4 of 1024 MiB", m.Line(Progress{Writing, 4 * mebi, 1024 * mebi, 0}))
	now = now.Add(10 * time.Second)
	require.Equal(t, "writing 25 %: 256 of 1024 MiB, 26 MiB/s, 30s left", m.Line(Progress{Writing, 256 * mebi, 1024 * mebi, 0}))
	require.Equal(t, "verifying 0 %: 4 of 1024 MiB", m.Line(Progress{Verifying, 4 * mebi, 1024 * mebi, 0}), "another phase has a rate of its own")
}
