package restore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/agent/paths"
	"spore/test/faults"
	"spore/test/killat"
)

// placed is a machine in a folder, and what it is restored to.
func placed(dir string) (Place, Committed) {
	p := Place{paths.Root(dir)}
	nonce := "00112233445566778899aabbccddeeff"
	return p, Committed{Cluster: "c", Node: "b", Initial: []string{"a", "b", "c"}, Nonce: nonce, Snapshot: "s", Time: when}
}

// with gives a machine data of etcd.
func with(t *testing.T, dir string) {
	t.Helper()
	write(t, dir+paths.Etcd+"/member/snap/db", "former")
}

// restoreIn does what the command does, but for stopping and starting etcd.
func restoreIn(t *testing.T, dir string) error {
	t.Helper()
	p, c := placed(dir)
	end, err := p.Begin()
	if err != nil {
		return err
	}
	defer end()
	if !Pending(p.Root) {
		prepare(t, p)
		if err := p.Commit(c); err != nil {
			return err
		}
	}
	_, _, err = p.Resume()
	return err
}

// has reads the database that etcd would start with.
func has(t *testing.T, p Place) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.data(member), "snap", "db"))
	require.NoError(t, err)
	return string(data)
}

func TestARestoreThatIsKilledAnywhereIsNotBegunOrGoesOn(t *testing.T) {
	before, done := 0, 0
	n := killat.Each(t, with, restoreIn, func(t *testing.T, dir string) {
		p, c := placed(dir)
		committed := Pending(p.Root)
		// The next start of etcd.
		end, err := p.Begin()
		require.NoError(t, err)
		_, went, err := p.Resume()
		require.NoError(t, err)
		end()
		require.Equal(t, committed, went)
		switch has(t, p) {
		case "former":
			require.False(t, committed)
			require.NoDirExists(t, p.GivenUp(c))
			require.NoDirExists(t, p.Made())
			require.NoFileExists(t, p.Plain(), "no database is left readable")
			before++
		default:
			restored(t, p, c, true)
			done++
			return
		}
		// The same order again.
		require.NoError(t, restoreIn(t, dir))
		restored(t, p, c, true)
	})
	require.Positive(t, before)
	require.Positive(t, done)
	require.Equal(t, n, before+done)
	faults.Tried(t, n)
}

func TestWhatIsForgottenIsThereOrKeptWhereverItIsKilled(t *testing.T) {
	forget := func(t *testing.T, dir string) error {
		t.Helper()
		p, _ := placed(dir)
		end, err := p.Begin()
		if err != nil {
			return err
		}
		defer end()
		if _, err := os.Lstat(p.data(member)); errors.Is(err, fs.ErrNotExist) {
			return nil // The master joins by itself.
		}
		return p.SetAside(p.Former(when))
	}
	n := killat.Each(t, with, forget, func(t *testing.T, dir string) {
		p, c := placed(dir)
		if _, err := os.Lstat(p.data(member)); err == nil {
			require.Equal(t, "former", has(t, p))
			require.NoDirExists(t, p.GivenUp(c))
		}
		require.NoError(t, forget(t, dir))
		require.NoDirExists(t, p.data(member))
		data, err := os.ReadFile(filepath.Join(p.GivenUp(c), "snap", "db"))
		require.NoError(t, err)
		require.Equal(t, "former", string(data))
		s, err := formation.Read(p.Root.At(paths.Formation), Service)
		require.NoError(t, err)
		require.Nil(t, s, "what etcd knows of its formation is its own to change")
	})
	require.GreaterOrEqual(t, n, 3)
	faults.Tried(t, n)
}
