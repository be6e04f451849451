package rotated

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const maxLine = 1 << 10

// series are files log.1, log.2 and log, from the oldest on. They were written an hour ago.
type series struct {
	t    *testing.T
	dir  string
	tree *Tree
	now  time.Time
}

func newSeries(t *testing.T) *series {
	s := &series{t: t, dir: t.TempDir(), now: time.Now()}
	tree, err := OpenTree(s.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tree.Close()) })
	s.tree = tree
	return s
}

func (s *series) path(name string) string { return filepath.Join(s.dir, name) }

func (s *series) write(name, text string) {
	f, err := os.OpenFile(s.path(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = f.WriteString(text)
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
	s.age(name, time.Hour)
}

// age sets how long ago a file was written.
func (s *series) age(name string, ago time.Duration) {
	require.NoError(s.t, os.Chtimes(s.path(name), s.now, s.now.Add(-ago)))
}

func (s *series) rename(from, to string) { require.NoError(s.t, os.Rename(s.path(from), s.path(to))) }

func (s *series) compress(name string) {
	data, err := os.ReadFile(s.path(name))
	require.NoError(s.t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(data)
	require.NoError(s.t, err)
	require.NoError(s.t, z.Close())
	require.NoError(s.t, os.WriteFile(s.path(name)+".gz", b.Bytes(), 0o600))
	require.NoError(s.t, os.Remove(s.path(name)))
}

func (s *series) see(f *Follower) {
	files, err := s.tree.Files(".", func(name string) bool { return strings.HasPrefix(name, "log") })
	require.NoError(s.t, err)
	slices.SortFunc(files, func(a, b File) int {
		switch { // What is written to is the last.
		case a.Name == "log":
			return 1
		case b.Name == "log":
			return -1
		}
		return strings.Compare(a.Name, b.Name)
	})
	f.See(files)
}

func (s *series) follow(at *Position) *Follower {
	f := Follow(s.tree, at)
	f.Now, f.MaxLine = func() time.Time { return s.now }, maxLine
	s.t.Cleanup(f.Close)
	s.see(f)
	return f
}

// lines reads all that is there now.
func lines(f *Follower) (out []string, at Position) {
	buf := make([]byte, 2*maxLine)
	for more := true; more; {
		more = f.Read(buf, maxLine, func(l Line) {
			text := string(l.Data)
			if l.Cut > 0 {
				text = fmt.Sprintf("%d bytes and %d", len(l.Data), l.Cut)
			}
			out, at = append(out, text), l.After
		})
	}
	return out, f.Place(at)
}

func TestFilesAreReadFromTheOldestOn(t *testing.T) {
	s := newSeries(t)
	s.write("log.1", "a\nb\n")
	s.compress("log.1")
	s.write("log.2", "c\n")
	s.write("log", "d\ne")
	f := s.follow(nil)
	got, at := lines(f)
	require.Equal(t, []string{"a", "b", "c", "d"}, got, "a line without an end is not given while more may come")
	s.write("log", "E\nf\n")
	got, _ = lines(f)
	require.Equal(t, []string{"eE", "f"}, got)
	require.Zero(t, f.Lost)

	again := s.follow(&at)
	got, _ = lines(again)
	require.Equal(t, []string{"eE", "f"}, got)
	require.Zero(t, again.Lost)
}

func TestAPlaceIsFoundUnderAnyName(t *testing.T) {
	for name, turn := range map[string]func(*series){
		"the same":                  func(*series) {},
		"put aside":                 func(s *series) { s.rename("log", "log.3"); s.write("log", "new\n") },
		"put aside, and compressed": func(s *series) { s.rename("log", "log.3"); s.compress("log.3"); s.write("log", "new\n") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, restart := range []bool{false, true} {
				s := newSeries(t)
				s.write("log", "a\nb\n")
				f := s.follow(nil)
				got, at := lines(f)
				require.Equal(t, []string{"a", "b"}, got)
				s.write("log", "c\n")
				turn(s)
				if restart {
					f = s.follow(&at)
				}
				s.see(f)
				got, _ = lines(f)
				want := []string{"c"}
				if name != "the same" {
					want = append(want, "new")
				}
				require.Equal(t, want, got)
				require.Zero(t, f.Lost)
			}
		})
	}
}

func TestWhatIsWrittenToIsNotLeft(t *testing.T) {
	for name, c := range map[string]struct {
		ago  time.Duration
		want []string
	}{
		"a moment ago":   {ago: Settle / 2},
		"long ago":       {ago: Settle, want: []string{"b"}},
		"ahead a little": {ago: -Settle / 2},
		"ahead by a year, before the clock was set back": {ago: -365 * 24 * time.Hour, want: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeries(t)
			s.write("log", "a\n")
			f := s.follow(nil)
			got, _ := lines(f)
			require.Equal(t, []string{"a"}, got)
			s.rename("log", "log.1")
			s.write("log", "b\n")
			s.age("log.1", c.ago)
			s.see(f)
			got, _ = lines(f)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAnEndlessLineFillsNoMemory(t *testing.T) {
	s := newSeries(t)
	s.write("log", strings.Repeat("x", 50*maxLine)+"\nb\n")
	f := s.follow(nil)
	got, at := lines(f)
	require.Equal(t, []string{fmt.Sprintf("%d bytes and %d", maxLine, 49*maxLine), "b"}, got)
	require.EqualValues(t, 50*maxLine+3, at.Offset)
	s.write("log", strings.Repeat("y", 50*maxLine))
	got, _ = lines(f)
	require.Empty(t, got)
	require.LessOrEqual(t, len(f.now.rest), maxLine)
	s.write("log", "\nc\n")
	got, at = lines(f)
	require.Equal(t, []string{fmt.Sprintf("%d bytes and %d", maxLine, 49*maxLine), "c"}, got)
	require.EqualValues(t, 100*maxLine+6, at.Offset)
}

func TestWhatWentUnreadIsCounted(t *testing.T) {
	s := newSeries(t)
	s.write("log.1", "a\n")
	s.write("log.2", "bb\n")
	s.write("log", "c\n")
	f := s.follow(nil)
	require.NoError(t, os.Remove(s.path("log.2")))
	got, _ := lines(f)
	require.Equal(t, []string{"a"}, got, "it is looked for again before another one is read")
	s.see(f)
	got, _ = lines(f)
	require.Equal(t, []string{"c"}, got)
	require.Equal(t, Lost{Files: 1, Bytes: 3}, f.Lost)

	f = s.follow(&Position{Head: Head([]byte("gone")), Offset: 5})
	got, _ = lines(f)
	require.Equal(t, []string{"a", "c"}, got)
	require.EqualValues(t, 1, f.Lost.Files)
	f = s.follow(&Position{Head: Head([]byte("gone")), Offset: 5, End: true})
	got, _ = lines(f)
	require.Equal(t, []string{"a", "c"}, got)
	require.Zero(t, f.Lost, "it was read to its end")
}

func TestAFileThatIsOpenIsReadWhenItIsRemoved(t *testing.T) {
	s := newSeries(t)
	s.write("log", "a\n")
	f := s.follow(nil)
	lines(f)
	s.write("log", "b\n")
	require.NoError(t, os.Remove(s.path("log")))
	s.see(f)
	require.False(t, f.Done())
	got, _ := lines(f)
	require.Equal(t, []string{"b"}, got)
	require.True(t, f.Done())
	f.Close()
	require.Zero(t, f.Lost)
}

func TestAFileThatWasEmptiedIsReadFromItsBeginning(t *testing.T) {
	s := newSeries(t)
	s.write("log", "a\nb\nunfinis")
	f := s.follow(nil)
	lines(f)
	require.NoError(t, os.Truncate(s.path("log"), 0))
	s.see(f)
	got, _ := lines(f)
	require.Empty(t, got)
	s.write("log", "c\nd\nand what is longer than before\n")
	s.see(f)
	got, at := lines(f)
	require.Equal(t, []string{"c", "d", "and what is longer than before"}, got)
	require.Equal(t, Head([]byte("c")), at.Head)
}

func TestAFileThatIsDamagedIsLeft(t *testing.T) {
	s := newSeries(t)
	s.write("log.1.gz", "no gzip")
	s.write("log.2", strings.Repeat("a line\n", 1000))
	s.compress("log.2")
	require.NoError(t, os.Truncate(s.path("log.2.gz"), 30))
	s.write("log", "c\n")
	f := s.follow(nil)
	got, _ := lines(f)
	require.Equal(t, "c", got[len(got)-1])
	require.EqualValues(t, 2, f.Lost.Files)
}

func TestWhatHasNoRoomIsTriedAgain(t *testing.T) {
	var f Follower
	for _, err := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR, unix.ENOENT, unix.EACCES, errStale} {
		require.True(t, f.later(&fs.PathError{Op: "openat2", Path: "log", Err: err}), err)
	}
	for _, err := range []error{nil, gzip.ErrHeader, unix.ELOOP, unix.EIO} {
		require.False(t, f.later(err))
	}
}

func TestNothingLeadsOutOfATree(t *testing.T) {
	s := newSeries(t)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hunter2\n"), 0o600))
	require.NoError(t, os.Symlink(secret, s.path("log.1")))
	require.NoError(t, os.Symlink(filepath.Dir(secret), s.path("folder")))
	require.NoError(t, syscall.Mkfifo(s.path("log.2"), 0o600))
	s.write("log", "a\n")
	got, _ := lines(s.follow(nil))
	require.Equal(t, []string{"a"}, got)
	for _, name := range []string{"log.1", "log.2", "folder/secret", "../" + filepath.Base(s.dir) + "/log", secret, "folder"} {
		_, err := s.tree.Open(name)
		require.Error(t, err, name)
	}
	_, err := s.tree.Folders("folder")
	require.Error(t, err)
	folders, err := s.tree.Folders(".")
	require.NoError(t, err)
	require.Empty(t, folders)
	_, err = OpenTree(s.path("nothing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
