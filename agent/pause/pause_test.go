package pause

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
)

// killedIn is the root in which a process of this test notes units, and is killed.
const killedIn = "PAUSE_TEST_ROOT"

// livesOn has that process not be killed before its test does it.
const livesOn = "PAUSE_TEST_LIVES"

func TestMain(m *testing.M) {
	if root := os.Getenv(killedIn); root != "" {
		if _, err := Units(paths.Root(root), "etcd.service", "kube-apiserver.service"); err != nil {
			os.Exit(3)
		}
		if os.Getenv(livesOn) != "" {
			fmt.Println("noted")
			select {}
		}
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	_ = os.Unsetenv(invocation) // The tests may run in a unit.
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
	for _, text := range []string{"", `{"units": ["etcd.ser`, `{}`, `{"units": [1]}`, `[1]`} {
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

func TestTheEndOfAProcessOfTheSameStartOfAUnitIsWaitedFor(t *testing.T) {
	root := paths.Root(t.TempDir())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedIn+"="+string(root), livesOn+"=1", invocation+"=that")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	for _, other := range []string{"", "another"} {
		t.Setenv(invocation, other)
		started, err := mended(t, root)
		require.NoError(t, err)
		require.Empty(t, started, "it works on them")
	}
	t.Setenv(invocation, "that")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Mend(ctx, root, nil), context.Canceled)
	killed := time.AfterFunc(200*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	started, err := mended(t, root)
	require.NoError(t, err)
	require.Equal(t, []string{"etcd.service", "kube-apiserver.service"}, started)
	require.ErrorContains(t, cmd.Wait(), "killed")
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
