package pause

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
)

// killedIn is the root in which a process of this test notes units, and is killed.
const killedIn = "PAUSE_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(killedIn); root != "" {
		if _, err := Units(paths.Root(root), "etcd.service", "kube-apiserver.service"); err != nil {
			os.Exit(3)
		}
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	os.Exit(m.Run())
}

// mended are the units that Mend starts.
func mended(t *testing.T, root paths.Root, fails ...string) (started []string, err error) {
	t.Helper()
	err = Mend(t.Context(), root, func(_ context.Context, unit string) error {
		for _, f := range fails {
			if f == unit {
				return errors.New("no bus")
			}
		}
		started = append(started, unit)
		return nil
	})
	return started, err
}

func notes(t *testing.T, root paths.Root) []string {
	t.Helper()
	list, err := filepath.Glob(root.At(paths.Paused) + "/units-*")
	require.NoError(t, err)
	return list
}

func TestWhatAKilledProcessHadStoppedStartsAgain(t *testing.T) {
	root := paths.Root(t.TempDir())
	started, err := mended(t, root)
	require.NoError(t, err)
	require.Empty(t, started, "nobody ever stopped anything")

	killed(t, root)
	require.Len(t, notes(t, root), 1)
	started, err = mended(t, root, "etcd.service")
	require.ErrorContains(t, err, "no bus")
	require.Equal(t, []string{"kube-apiserver.service"}, started)
	require.Len(t, notes(t, root), 1, "it is tried again")
	started, err = mended(t, root)
	require.NoError(t, err)
	require.Equal(t, []string{"etcd.service", "kube-apiserver.service"}, started)
	require.Empty(t, notes(t, root))
	started, err = mended(t, root)
	require.NoError(t, err)
	require.Empty(t, started)
}

func TestWhatSomebodyStillWorksOnStaysAsItIs(t *testing.T) {
	root := paths.Root(t.TempDir())
	end, err := Units(root, "kafka.service")
	require.NoError(t, err)
	started, err := mended(t, root)
	require.NoError(t, err)
	require.Empty(t, started)
	require.Len(t, notes(t, root), 1)
	end()
	require.Empty(t, notes(t, root))
	started, err = mended(t, root)
	require.NoError(t, err)
	require.Empty(t, started, "whoever stopped it has started it, too")
}

func TestANoteThatWasCutOffIsOfUnitsThatRun(t *testing.T) {
	root := paths.Root(t.TempDir())
	for _, text := range []string{"", `["etcd.ser`, `{}`, `[1]`} {
		require.NoError(t, os.MkdirAll(root.At(paths.Paused), 0o700))
		require.NoError(t, os.WriteFile(root.At(paths.Paused)+"/units-1", []byte(text), 0o600))
		started, err := mended(t, root)
		require.NoError(t, err, text)
		require.Empty(t, started)
		require.Empty(t, notes(t, root))
	}
}

// killed notes units in a process that is killed.
func killed(t *testing.T, root paths.Root) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedIn+"="+string(root))
	require.ErrorContains(t, cmd.Run(), "killed")
}

func TestWhatTheSameOrderWorksOnAgainIsLeftToIt(t *testing.T) {
	root := paths.Root(t.TempDir())
	killed(t, root)
	end, err := Units(root, "etcd.service")
	require.NoError(t, err)
	started, err := mended(t, root)
	require.NoError(t, err)
	require.Equal(t, []string{"kube-apiserver.service"}, started, "etcd would start on data that is being replaced")
	require.Len(t, notes(t, root), 1, "whoever works on it starts it")
	end()
	started, err = mended(t, root)
	require.NoError(t, err)
	require.Empty(t, started)
}

func TestWhatIsStoppedOnPurposeDoesNotStartAgain(t *testing.T) {
	root := paths.Root(t.TempDir())
	require.NoError(t, Forget(root, "etcd.service"), "nobody ever stopped anything")
	killed(t, root)
	end, err := Units(root, "etcd.service")
	require.NoError(t, err)
	require.NoError(t, Forget(root, "etcd.service", "kafka.service"))
	require.Len(t, notes(t, root), 2, "that of a process that lives is its own")
	end()
	started, err := mended(t, root)
	require.NoError(t, err)
	require.Equal(t, []string{"kube-apiserver.service"}, started)
	killed(t, root)
	require.NoError(t, Forget(root, "etcd.service", "kube-apiserver.service"))
	require.Empty(t, notes(t, root))
}
