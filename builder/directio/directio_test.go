package directio

import (
	"context"
	"io"
	"math/rand"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func noise(seed int64, n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(b)
	return b
}

func create(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(dir, "")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// opened is a File by both ways, of a filesystem with O_DIRECT and as of one without.
func opened(t *testing.T, f *os.File, direct bool) *File {
	t.Helper()
	d := New(f)
	if !direct {
		require.NoError(t, d.Close())
		d.direct = nil
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestABufferIsAligned(t *testing.T) {
	for _, n := range []int{0, 1, Align, 3*Align + 1} {
		b := Buffer(n)
		require.Len(t, b, n)
		require.Equal(t, n, cap(b))
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Align)
	}
}

func TestWhatIsCopiedIsTheSame(t *testing.T) {
	const size = 2*copyPiece + 3*Align + 77
	content := noise(1, size)
	for name, c := range map[string]struct{ from, to, n int64 }{
		"all":                            {0, 0, size},
		"whole blocks":                   {Align, 7 * Align, copyPiece + 2*Align},
		"less than a block":              {0, Align, 100},
		"a block and a byte":             {Align, 0, Align + 1},
		"the end":                        {size - 5*Align - 77, Align, 5*Align + 77},
		"a source that is not aligned":   {3, 0, 2 * copyPiece},
		"a target that is not aligned":   {0, 5, 2 * copyPiece},
		"neither, and by the same bytes": {9, 9, copyPiece + 11},
		"nothing":                        {0, 0, 0},
	} {
		for _, direct := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				src, dst := create(t, dir), create(t, dir)
				_, err := src.Write(content)
				require.NoError(t, err)
				before := noise(2, int(c.to+c.n)+3*Align)
				_, err = dst.Write(before)
				require.NoError(t, err)
				require.NoError(t, Copy(t.Context(), opened(t, dst, direct), c.to, opened(t, src, direct), c.from, c.n))
				want := append(append(append([]byte{}, before[:c.to]...), content[c.from:c.from+c.n]...), before[c.to+c.n:]...)
				got, err := os.ReadFile(dst.Name())
				require.NoError(t, err)
				require.Equal(t, want, got)
			})
		}
	}
}

// resident is how many pages of a file are in the page cache.
func resident(t *testing.T, f *os.File) (pages int) {
	t.Helper()
	info, err := f.Stat()
	require.NoError(t, err)
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mapped)) }()
	in := make([]byte, (len(mapped)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&in[0])))
	require.Zero(t, errno)
	for _, b := range in {
		pages += int(b & 1)
	}
	return pages
}

func TestWhatIsCopiedLeavesNothingInThePageCache(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("all of a tmpfs is in the page cache")
	}
	const size = 2*copyPiece + 5*Align
	src, dst := create(t, dir), create(t, dir)
	from, to := opened(t, src, true), opened(t, dst, true)
	if !from.Direct() {
		t.Skip("the filesystem of " + dir + " has no O_DIRECT")
	}
	_, err := src.Write(noise(6, size))
	require.NoError(t, err)
	require.NotZero(t, resident(t, src))
	require.NoError(t, src.Sync())
	require.NoError(t, unix.Fadvise(int(src.Fd()), 0, 0, unix.FADV_DONTNEED))
	require.NoError(t, Copy(t.Context(), to, 0, from, 0, size))
	require.True(t, to.Direct() && from.Direct(), "the filesystem refused")
	require.Zero(t, resident(t, src))
	require.Zero(t, resident(t, dst))
}

func TestASourceThatIsTooShort(t *testing.T) {
	for _, direct := range []bool{true, false} {
		for _, size := range []int{0, 100, Align, copyPiece + Align} {
			src, dst := create(t, t.TempDir()), create(t, t.TempDir())
			_, err := src.Write(noise(3, size))
			require.NoError(t, err)
			err = Copy(t.Context(), opened(t, dst, direct), 0, opened(t, src, direct), 0, int64(size)+1)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	src := create(t, t.TempDir())
	_, err := src.Write(noise(4, copyPiece))
	require.NoError(t, err)
	readOnly, err := os.Open(src.Name())
	require.NoError(t, err)
	defer readOnly.Close()
	require.ErrorIs(t, Copy(t.Context(), opened(t, readOnly, true), 0, opened(t, src, true), 0, copyPiece), unix.EBADF)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := create(t, t.TempDir())
	require.ErrorIs(t, Copy(ctx, opened(t, dst, true), 0, opened(t, src, true), 0, copyPiece), context.Canceled)
	info, err := dst.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
}

// A file of /proc is of a filesystem without O_DIRECT on every kernel.
func TestAFilesystemWithoutDirectIO(t *testing.T) {
	f, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer f.Close()
	d := New(f)
	defer d.Close()
	require.False(t, d.Direct())
	b := Buffer(Align)
	n, err := d.ReadAt(b, 0)
	require.ErrorIs(t, err, io.EOF)
	require.Contains(t, string(b[:n]), "Name:")
}

// refusing is a filesystem that opens a file with O_DIRECT and then refuses each access.
type refusing struct{ calls *int }

func (r refusing) ReadAt([]byte, int64) (int, error)  { *r.calls++; return 0, unix.EINVAL }
func (r refusing) WriteAt([]byte, int64) (int, error) { *r.calls++; return 0, unix.EINVAL }
func (r refusing) Close() error                       { return nil }

func TestAFilesystemThatRefusesIsAskedOnce(t *testing.T) {
	d, calls := opened(t, create(t, t.TempDir()), false), 0
	d.direct = refusing{&calls}
	want := Buffer(2 * Align)
	copy(want, noise(5, 2*Align))
	for off := range int64(3) {
		_, err := d.WriteAt(want, off*2*Align)
		require.NoError(t, err)
	}
	got := Buffer(2 * Align)
	_, err := d.ReadAt(got, 4*Align)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, 1, calls)

	d, calls = opened(t, d.file, false), 0
	d.direct = refusing{&calls}
	for range 2 {
		_, err = d.ReadAt(got, 0)
		require.NoError(t, err)
	}
	require.Equal(t, want, got)
	require.Equal(t, 1, calls)
}

func TestRoomIsReserved(t *testing.T) {
	f := create(t, t.TempDir())
	require.NoError(t, Reserve(f, 8*Align, 100*Align))
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 108*Align, info.Size())
	require.ErrorIs(t, Reserve(f, 0, 1<<62), unix.EFBIG)
}
