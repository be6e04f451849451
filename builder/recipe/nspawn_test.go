//go:build nspawn

package recipe_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/recipe"
	"spore/builder/recipe/recipetest"
)

// TestTheRootBootsWithoutAFailedUnit boots the composed root in systemd-nspawn with a read-only root, a volatile /etc and an
// empty /var, as on a machine, but with the host's kernel and without our units. It needs root; SPORE_TEST_DEBS names a
// directory of packages:
//
//	SPORE_TEST_DEBS=/path go test -tags nspawn -run Boots ./builder/recipe
func TestTheRootBootsWithoutAFailedUnit(t *testing.T) {
	packages, err := recipetest.LoadDebs(os.Getenv("SPORE_TEST_DEBS"), t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, packages, "SPORE_TEST_DEBS must name a directory of packages")
	presets, err := os.ReadFile("../../units/50-spore.preset")
	require.NoError(t, err)
	composed, err := recipe.Compose(packages, recipe.Options{
		Units: fstest.MapFS{"50-spore.preset": {Data: presets}}, Overlay: os.DirFS("../../overlay"),
		Release: recipe.Release{Version: "0.1", Suite: "trixie"},
	})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, recipetest.WriteDir(composed.Tree, dir))

	var console bytes.Buffer
	cmd := exec.Command("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--read-only", "--overlay=+/etc::/etc",
		"--tmpfs=/var", "--timezone=off", "--resolv-conf=off", "-D", dir, "--private-network", "--console=read-only", "-b")
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	cmd.Stdout, cmd.Stderr = &console, &console
	require.NoError(t, cmd.Start(), "run make deps")
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		for i := 0; i < 20; i++ {
			_ = cmd.Process.Signal(syscall.SIGTERM) // a kill would leave the inner PID 1 behind
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
		}
	})
	leader := childOf(t, cmd.Process.Pid)
	in := func(args ...string) string {
		out, _ := exec.Command("nsenter", append([]string{"-t", leader, "-m", "-p", "-i", "-u", "-n", "--"}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	state := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if state = in("systemctl", "is-system-running"); state == "running" || state == "degraded" {
			break
		}
	}
	require.Equal(t, "running", state, "%s\n%s", in("systemctl", "--failed", "--no-pager"), console.String())
	require.Equal(t, "-- No entries --", in("journalctl", "-b", "-p", "warning", "--no-pager"))
	require.Contains(t, in("ls", "/var/lib/dpkg"), "status")
}

func childOf(t *testing.T, pid int) string {
	t.Helper()
	for i := 0; i < 100; i++ {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(pid), "children"))
		require.NoError(t, err)
		if f := strings.Fields(string(data)); len(f) > 0 {
			return f[0]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("systemd-nspawn started nothing")
	return ""
}
