package store

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// put keeps text under a key that is the text, and returns it.
func put(t *testing.T, s *Store, text string) Key {
	t.Helper()
	k := KeyOf(text)
	require.NoError(t, s.Put(k, func(w *os.File) error { _, err := io.WriteString(w, text); return err }))
	return k
}

// age makes a file older.
func age(t *testing.T, name string, by time.Duration) {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(name, time.Time{}, info.ModTime().Add(-by)))
}

// TestKilledSession is not a test but the process that others start and kill.
func TestKilledSession(t *testing.T) {
	dir := os.Getenv("SPORE_TEST_STORE")
	if dir == "" {
		t.Skip("elsewhere: another test runs it as a process, which it kills")
	}
	s, err := Open(dir)
	require.NoError(t, err)
	err = s.Put(KeyOf("half"), func(w *os.File) error {
		_, _ = io.WriteString(w, "half")
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGKILL))
		select {}
	})
	require.NoError(t, err)
}

func TestWhatAKilledSessionLeftGoesWithTheNext(t *testing.T) {
	s := open(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run", "^TestKilledSession$")
	cmd.Env = append(os.Environ(), "SPORE_TEST_STORE="+s.Dir())
	require.ErrorContains(t, cmd.Run(), "killed")
	require.Len(t, entries(filepath.Join(s.Dir(), "tmp")), 2, "this session, and the dead one")
	require.False(t, s.Has(KeyOf("half")))

	mine := filepath.Join(s.TempDir(), "mine")
	require.NoError(t, os.WriteFile(mine, nil, 0o644))
	next, err := Open(s.Dir())
	require.NoError(t, err)
	require.Len(t, entries(filepath.Join(s.Dir(), "tmp")), 2, "this session, and the next one")
	require.FileExists(t, mine, "this session lives")
	require.NoError(t, next.Close())
	require.NoError(t, s.Close())
	require.Empty(t, entries(filepath.Join(s.Dir(), "tmp")))
}

func TestStrayFilesGoAfterADay(t *testing.T) {
	s := open(t)
	old, young := filepath.Join(s.PartialDir(), "old"), filepath.Join(s.PartialDir(), "young")
	grows := filepath.Join(s.PartialDir(), "grows")
	unknown := filepath.Join(s.Dir(), "tmp", "go-123")
	require.NoError(t, os.Mkdir(unknown, 0o755))
	for _, name := range []string{old, young, grows} {
		require.NoError(t, os.WriteFile(name, nil, 0o644))
	}
	f, err := os.Open(grows)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, flock(f, unix.LOCK_EX))
	for _, name := range []string{old, grows, unknown} {
		age(t, name, 25*time.Hour)
	}
	age(t, young, 23*time.Hour)
	next, err := Open(s.Dir())
	require.NoError(t, err)
	require.NoError(t, next.Close())
	require.NoFileExists(t, old)
	require.NoDirExists(t, unknown)
	require.FileExists(t, young, "it can be resumed")
	require.FileExists(t, grows)
}

func TestAStoreThatCannotBeWrittenSaysWhatToDo(t *testing.T) {
	require.ErrorContains(t, unwritable("/c", unix.EROFS), "a build writes into its cache folder /c; make it writable, or name another folder with --cache")
	require.ErrorContains(t, unwritable("/c", unix.ENOSPC), "the disk of the cache folder /c is full; free some of it")
	require.ErrorContains(t, unwritable("/c", unix.ENOLCK), "the filesystem of the cache folder /c has no file locks")
	dir := t.TempDir()
	s, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.Chmod(filepath.Join(dir, "tmp"), 0o555))
	asUser(t, func() { _, err = Open(dir) })
	require.ErrorContains(t, err, "make it writable")
}

// asUser does something as who may not write everything: for root, this thread turns into another user towards file
// systems (setfsuid(2)).
func asUser(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before, err := unix.SetfsuidRetUid(nobody)
		require.NoError(t, err)
		defer func() {
			_, err := unix.SetfsuidRetUid(before)
			require.NoError(t, err)
		}()
	}
	do()
}
