package file

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/give/parcel"
)

func entries(t *testing.T, from, to int) []parcel.Entry {
	t.Helper()
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"_msg":"%04d"}`, i))
	}
	got, malformed := parcel.Parse([]byte(strings.Join(lines, "\n")))
	require.Zero(t, malformed)
	return got
}

// line is how long one line of entries is.
const line = len(`{"_msg":"0000"}`) + 1

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "{\"_msg\":\"%04d\"}\n", i)
	}
	return b.String()
}

func has(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func give(t *testing.T, r *Receiver, e []parcel.Entry) {
	t.Helper()
	out, err := r.Give(t.Context(), e)
	require.NoError(t, err)
	require.Empty(t, out.Left)
	require.Zero(t, out.Refused)
}

func TestLinesOfAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "give")
	r := New(dir, "plant", 1<<20, 0)
	give(t, r, entries(t, 0, 3))
	give(t, r, nil)
	give(t, r, entries(t, 3, 5))
	has(t, filepath.Join(dir, "plant.log"), lines(0, 5))
	info, err := os.Stat(filepath.Join(dir, "plant.log"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
}

func TestAFileHasABound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plant.log")
	r := New(dir, "plant", int64(20*line), 0)
	give(t, r, entries(t, 0, 10))
	require.NoFileExists(t, path+".1")
	give(t, r, entries(t, 10, 11))
	has(t, path+".1", lines(0, 10))
	has(t, path, lines(10, 11))
	give(t, r, entries(t, 11, 45)) // More than both hold.
	has(t, path+".1", lines(30, 40))
	has(t, path, lines(40, 45))

	long, _ := parcel.Parse([]byte(`{"_msg":"` + strings.Repeat("x", 10*line) + `"}`))
	out, err := r.Give(t.Context(), append(long, entries(t, 45, 46)...))
	require.NoError(t, err)
	require.Equal(t, 1, out.Refused)
	has(t, path, lines(40, 46))
}

func TestAPowerCutLeavesWholeLinesOnce(t *testing.T) {
	for name, torn := range map[string]string{"whole": "", "half a line": `{"_msg":"00`, "zeros": "\x00\x00\x00"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "plant.log")
		r := New(dir, "plant", int64(20*line), 0)
		give(t, r, entries(t, 0, 10))
		give(t, r, entries(t, 10, 15))
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(torn)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		r = New(dir, "plant", int64(20*line), 0)
		give(t, r, entries(t, 8, 12)) // The queue's position was that of entry 8.
		give(t, r, entries(t, 12, 16))
		has(t, path+".1", lines(0, 10))
		has(t, path, lines(10, 16))
		require.NotNil(t, r.there, name)
		give(t, r, entries(t, 16, 17))
		require.Nil(t, r.there, name)
		give(t, r, entries(t, 16, 17))
		has(t, path, lines(10, 17)+lines(16, 17))
	}
}

// A bound of the process's files is what a full disk is to it: a part of what is written arrives.
func TestADiskThatIsFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	r := New(t.TempDir(), "plant", 1<<20, 0)
	give(t, r, entries(t, 0, 10))
	full := before
	full.Cur = uint64(100*line + 5)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	many := entries(t, 10, 2000)
	out, err := r.Give(t.Context(), many)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	require.ErrorContains(t, err, "write the file of logs: ")
	require.ErrorIs(t, err, syscall.EFBIG)
	require.Len(t, out.Left, len(many))
	has(t, r.path, lines(0, 10))
	give(t, r, out.Left)
	has(t, r.path, lines(0, 2000))
}

func TestWhatIsNoFile(t *testing.T) {
	for name, lay := range map[string]func(string) error{
		"a link":   func(p string) error { return os.Symlink("/etc/passwd", p) },
		"a pipe":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"a folder": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		dir := t.TempDir()
		require.NoError(t, lay(filepath.Join(dir, "plant.log")))
		r := New(dir, "plant", 1<<20, 0)
		out, err := r.Give(t.Context(), entries(t, 0, 1))
		require.ErrorContains(t, err, "open the file of logs: ", name)
		require.Len(t, out.Left, 1, name)
	}
}

func TestAFileLeavesTheStoreItsDisk(t *testing.T) {
	r := New(t.TempDir(), "plant", 1<<20, 1000)
	free := int64(1000 + 2*line)
	r.free = func(string) (int64, error) { return free, nil }
	give(t, r, entries(t, 0, 2))
	free = int64(1000 + line)
	out, err := r.Give(t.Context(), entries(t, 2, 4))
	require.ErrorContains(t, err, "bytes free, and 1000 stay so; give the file a smaller size")
	require.Len(t, out.Left, 2)
	has(t, r.path, lines(0, 2))
	free = 1 << 20
	give(t, r, out.Left)
	has(t, r.path, lines(0, 4))
}
