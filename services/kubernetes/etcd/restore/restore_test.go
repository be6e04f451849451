package restore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/agent/paths"
)

var when = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// machine is one whose etcd has data, or none, beside what restores were prepared.
func machine(t *testing.T, former bool) (Place, Committed) {
	t.Helper()
	root := paths.Root(t.TempDir())
	require.NoError(t, os.MkdirAll(root.At(paths.Etcd), 0o700))
	if former {
		write(t, root.At(paths.Etcd+"/member/snap/db"), "former")
	}
	return Place{root}, Committed{Cluster: "c", Node: "b", Initial: []string{"a", "b", "c"}, Nonce: formation.NewNonce(), Snapshot: "s", Time: when}
}

func prepare(t *testing.T, p Place) {
	t.Helper()
	write(t, p.Made()+"/member/snap/db", "restored")
	write(t, p.Made()+"/member/wal/0.wal", "log")
	write(t, p.Plain(), "database")
}

// restored requires that a restore is done, and that nothing of it is left over.
func restored(t *testing.T, p Place, c Committed, former bool) {
	t.Helper()
	data, err := os.ReadFile(p.Root.At(paths.Etcd + "/member/snap/db"))
	require.NoError(t, err)
	require.Equal(t, "restored", string(data))
	require.FileExists(t, p.Root.At(paths.Etcd+"/member/wal/0.wal"))
	if former {
		data, err := os.ReadFile(p.GivenUp(c) + "/snap/db")
		require.NoError(t, err)
		require.Equal(t, "former", string(data), "what was given up is kept")
	} else {
		require.NoDirExists(t, p.GivenUp(c))
	}
	s, err := formation.Read(p.Root.At(paths.Formation), Service)
	require.NoError(t, err)
	require.Equal(t, c.Nonce, s.Nonce)
	require.True(t, s.Made && s.Formed)
	require.Equal(t, map[string]string{"b": c.Nonce}, s.Record.Members)
	require.False(t, Pending(p.Root))
	left, err := os.ReadDir(p.Root.At(paths.EtcdRestore))
	require.NoError(t, err)
	for _, e := range left {
		require.Equal(t, ".lock", e.Name())
	}
}

func TestARestore(t *testing.T) {
	for _, former := range []bool{true, false} {
		p, c := machine(t, former)
		end, err := p.Begin()
		require.NoError(t, err)
		prepare(t, p)
		require.False(t, Pending(p.Root))
		require.NoError(t, p.Commit(c))
		require.True(t, Pending(p.Root))
		got, done, err := p.Resume()
		require.NoError(t, err)
		require.True(t, done)
		require.Equal(t, c, got)
		restored(t, p, c, former)
		end()
		_, done, err = p.Resume()
		require.NoError(t, err)
		require.False(t, done, "a second time there is nothing to do")
		restored(t, p, c, former)
	}
}

// Each cut leaves what was done before it; what follows has to come to the same end.
func TestARestoreGoesOnAfterAPowerCut(t *testing.T) {
	move := func(from, to string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.Rename(from, to)) }
	}
	for _, former := range []bool{true, false} {
		for cut := range 5 {
			p, c := machine(t, former)
			prepare(t, p)
			require.NoError(t, p.Commit(c))
			var steps []func(*testing.T)
			if former {
				steps = append(steps, move(p.data(member), p.GivenUp(c)))
			}
			steps = append(steps, move(p.Made()+"/member", p.data(member)), func(t *testing.T) {
				require.NoError(t, formation.Adopt(p.Root.At(paths.Formation), Service, c.Cluster, c.Node, c.Initial, c.Nonce))
			}, func(t *testing.T) { require.NoError(t, p.clean()) })
			for _, step := range steps[:min(cut, len(steps))] {
				step(t)
			}
			end, err := p.Begin()
			require.NoError(t, err, "what was committed is not cleaned away")
			end()
			_, done, err := p.Resume()
			require.NoError(t, err, "cut after %d steps", cut)
			require.True(t, done)
			restored(t, p, c, former)
		}
	}
}

func TestARestoreThatWasNotCommittedChangesNothing(t *testing.T) {
	p, c := machine(t, true)
	prepare(t, p)
	_, done, err := p.Resume()
	require.NoError(t, err)
	require.False(t, done)
	require.FileExists(t, p.Root.At(paths.Etcd+"/member/snap/db"))
	end, err := p.Begin()
	require.NoError(t, err)
	require.NoDirExists(t, p.Made(), "what was left is removed")
	require.NoFileExists(t, p.Plain())
	_, err = p.Begin()
	require.ErrorIs(t, err, ErrBusy)
	write(t, p.Plain(), "database")
	end()
	require.NoFileExists(t, p.Plain(), "no database is left readable")

	require.Error(t, p.Commit(c), "there is no data")
	require.False(t, Pending(p.Root))
	prepare(t, p)
	require.NoError(t, os.Symlink("/etc", p.Made()+"/member/link"))
	require.ErrorContains(t, p.Commit(c), "neither a file nor a directory")
	require.False(t, Pending(p.Root))
}

func TestWhatCannotGoOn(t *testing.T) {
	t.Run("all data is gone", func(t *testing.T) {
		p, c := machine(t, false)
		prepare(t, p)
		require.NoError(t, p.Commit(c))
		require.NoError(t, os.RemoveAll(p.Made()))
		_, _, err := p.Resume()
		require.ErrorContains(t, err, "restore again")
		require.True(t, Pending(p.Root), "etcd must not start as if it were new")
	})
	t.Run("the file is damaged", func(t *testing.T) {
		p, _ := machine(t, true)
		write(t, p.file(), "{")
		_, _, err := p.Resume()
		require.ErrorContains(t, err, "go on with a restore")
	})
	t.Run("the formation is that of another member", func(t *testing.T) {
		p, c := machine(t, true)
		require.NoError(t, formation.Adopt(p.Root.At(paths.Formation), Service, "c", "other", nil, formation.NewNonce()))
		prepare(t, p)
		require.NoError(t, p.Commit(c))
		_, _, err := p.Resume()
		require.ErrorContains(t, err, "member other")
		require.True(t, strings.Contains(err.Error(), "go on with a restore"))
	})
}

func FuzzCommitted(f *testing.F) {
	f.Add([]byte(`{"cluster":"c","node":"b","nonce":"00112233445566778899aabbccddeeff","time":"2026-11-22T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _ := machine(t, true)
		prepare(t, p)
		write(t, p.file(), string(data))
		_, done, err := p.Resume()
		require.True(t, done || err != nil)
		db, err := os.ReadFile(p.Root.At(paths.Etcd + "/member/snap/db"))
		require.NoError(t, err)
		require.Contains(t, []string{"former", "restored"}, string(db))
	})
}

func TestDataThatIsGivenUpIsKept(t *testing.T) {
	p := Place{Root: paths.Root(t.TempDir())}
	require.NoError(t, os.MkdirAll(p.data(member)+"/snap", 0o700))
	require.NoError(t, os.WriteFile(p.data(member)+"/snap/db", []byte("former"), 0o600))
	kept := p.Former(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	require.NoError(t, p.SetAside(kept))
	require.NoDirExists(t, p.data(member))
	require.FileExists(t, kept+"/snap/db")
	require.NoError(t, os.MkdirAll(p.data(member), 0o700))
	require.ErrorContains(t, p.SetAside(kept), "already")
	require.DirExists(t, p.data(member))
}
