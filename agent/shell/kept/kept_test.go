package kept

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/wire/shell"
)

var begun = time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)

func session(n int) shell.Session {
	return shell.Session{
		ID: fmt.Sprintf("%032x", n), User: "anna", Reason: "a test", Minutes: 60, Begun: begun.Add(time.Duration(n) * time.Second),
		Until: begun.Add(time.Hour),
	}
}

func TestAGrantIsTakenOnceAlsoByTheNextBoot(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, In(root).Begin(session(1), begun))
	require.NoError(t, os.RemoveAll(root.At("/run")), "the next boot")
	require.ErrorIs(t, In(root).Begin(session(1), begun), ErrUsed)
	require.ErrorIs(t, In(root).Used(session(1).ID), ErrUsed)
	require.NoError(t, In(root).Begin(session(2), begun))
	st, err := os.Stat(root.At(paths.Shells))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
}

func TestASessionThatCannotBeKeptDoesNotBegin(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(filepath.Dir(root.At(paths.Shells)), 0o755))
	require.NoError(t, os.WriteFile(root.At(paths.Shells), nil, 0o600))
	require.Error(t, In(root).Begin(session(1), begun))
}

func TestOneShellIsOpenAtOnce(t *testing.T) {
	b := In(paths.Root(t.TempDir()))
	one, other := session(1).ID, session(2).ID
	require.False(t, b.opened()(one))
	unlock, err := b.Lock(one)
	require.NoError(t, err)
	require.True(t, b.opened()(one))
	require.False(t, b.opened()(other))
	_, err = b.Lock(other)
	require.ErrorIs(t, err, ErrOpen)
	require.True(t, b.opened()(one))
	unlock()
	require.False(t, b.opened()(one))
	unlock, err = b.Lock(other)
	require.NoError(t, err)
	require.True(t, b.opened()(other))
	require.NoError(t, os.Truncate(b.root.At(paths.ShellLock), 0))
	require.True(t, b.opened()(one), "nobody knows whose it is")
	unlock()
}

func TestASessionIsShownUntilItIsAcknowledged(t *testing.T) {
	b := In(paths.Root(t.TempDir()))
	none, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Empty(t, none)
	unlock, err := b.Lock(session(1).ID)
	require.NoError(t, err)
	require.NoError(t, b.Begin(session(1), begun))
	_, err = b.Acknowledge(session(1).ID, "bert", begun)
	require.ErrorContains(t, err, "its shell is open")
	open, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Empty(t, open[0].Result)
	unlock()

	cut, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Equal(t, cutOff, cut[0].Result, "nobody holds the lock, and there is no end")
	require.NoError(t, b.Change(session(1).ID, func(s *shell.Session) error {
		s.Ended, s.Result, s.Shown = begun.Add(time.Minute), "exit status 0", 7
		return nil
	}))
	require.NoError(t, b.Begin(session(2), begun))
	both, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Len(t, both, 2)
	require.Equal(t, "exit status 0", both[0].Result)
	require.Equal(t, int64(7), both[0].Shown)
	few, err := b.Unacknowledged(1)
	require.NoError(t, err)
	require.Len(t, few, 1)

	_, err = b.Acknowledge(session(1).ID, "bert", begun.Add(time.Hour))
	require.NoError(t, err)
	_, err = b.Acknowledge(session(1).ID, "carl", begun)
	require.ErrorContains(t, err, "was acknowledged by bert at 2026-11-26T09:00:00Z")
	left, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, session(2).ID, left[0].ID)
	for _, none := range []string{session(3).ID, "", "../../../etc/passwd", strings.Repeat("/", 32)} {
		_, err = b.Acknowledge(none, "bert", begun)
		require.ErrorIs(t, err, ErrNone, none)
	}
}

func TestASessionThatWasCutOffIsNotTheOneThatIsOpen(t *testing.T) {
	b := In(paths.Root(t.TempDir()))
	unlock, err := b.Lock(session(1).ID)
	require.NoError(t, err)
	require.NoError(t, b.Begin(session(1), begun))
	unlock() // Its process was killed.
	unlock, err = b.Lock(session(2).ID)
	require.NoError(t, err)
	defer unlock()
	require.NoError(t, b.Begin(session(2), begun))
	all, err := b.Sessions()
	require.NoError(t, err)
	require.Equal(t, cutOff, all[0].Result)
	require.Empty(t, all[1].Result)
	_, err = b.Acknowledge(session(1).ID, "bert", begun)
	require.NoError(t, err)
	_, err = b.Acknowledge(session(2).ID, "bert", begun)
	require.ErrorContains(t, err, "its shell is open")
}

func TestAFileThatCannotBeReadIsASessionAllTheSame(t *testing.T) {
	b := In(paths.Root(t.TempDir()))
	require.NoError(t, b.Begin(session(1), begun))
	require.NoError(t, os.WriteFile(b.file(session(1).ID), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(b.file("notes"), []byte("{"), 0o600))
	all, err := b.Unacknowledged(10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Contains(t, all[0].Result, "read what is kept")
	require.ErrorIs(t, b.Begin(session(1), begun), ErrUsed)

	seen, err := b.Acknowledge(session(1).ID, "bert", begun)
	require.NoError(t, err)
	require.Contains(t, seen.Result, "read what is kept")
	all, err = b.Unacknowledged(10)
	require.NoError(t, err)
	require.Empty(t, all)
	require.ErrorIs(t, b.Begin(session(1), begun), ErrUsed, "its grant stays used")
	_, err = b.Acknowledge(session(1).ID, "carl", begun)
	require.ErrorContains(t, err, "was acknowledged by bert")
}

func TestThereIsRoomForSessionsThatWereAcknowledged(t *testing.T) {
	b := In(paths.Root(t.TempDir()))
	for n := range maxSessions {
		require.NoError(t, b.write(session(n)))
	}
	late := begun.Add(time.Hour + shell.MaxUse + time.Second)
	require.ErrorContains(t, b.Begin(session(9999), late), "500 sessions are kept already; acknowledge some")
	_, err := b.Acknowledge(session(7).ID, "bert", begun)
	require.NoError(t, err)
	require.Error(t, b.Begin(session(9999), begun), "its grant might be used again")
	require.NoError(t, b.Begin(session(9999), late))
	require.NoError(t, b.Used(session(7).ID), "it was the oldest that may go")
	require.ErrorIs(t, b.Used(session(8).ID), ErrUsed)
}
