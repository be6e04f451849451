//go:build e2e

package nspawn

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/ext4"
	"spore/agent/node"
	"spore/agent/quota"
	"spore/agent/state"
)

// State that counts what projects fill is mounted by a kernel that counts, and a directory is held to its quota with
// what it had before. A kernel that cannot count mounts it without the counts, and with all that is in it. Images have
// the first kind (test/e2e, ownrole_test.go); this machine has either.
func TestStateWithQuotasIsMountedByEveryKernel(t *testing.T) {
	if os.Getenv(stageVariable) != stageTests {
		t.Skip("only root may mount a disk")
	}
	dir := t.TempDir()
	at, file := filepath.Join(dir, "at"), filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(at, 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 300<<20))
	require.NoError(t, run("mkfs.ext4", "-q", "-F", file))
	device, err := exec.Command("losetup", "--find", "--show", file).Output()
	require.NoError(t, err)
	info := state.Info{Kind: state.Partition, Device: strings.TrimSpace(string(device))}
	t.Cleanup(func() { require.NoError(t, run("losetup", "--detach", info.Device)) })

	kept := filepath.Join(at, "lib/recorder")
	limit := quota.Limit{Role: "recorder", Path: "/var/lib/recorder", Bytes: 8 << 20, Project: 1 << 30}
	how := state.Mounting{Dir: at, Binding: state.Binding{Cluster: "c", Node: "n"}, Exec: node.Exec, Say: func(s string) { t.Log(s) }}
	mount := func(limits ...quota.Limit) state.Info {
		t.Helper()
		how.Limits = limits
		got, err := state.Mount(t.Context(), info, how)
		require.NoError(t, err)
		require.Equal(t, state.Partition, got.Kind, got.Warning)
		return got
	}
	require.Empty(t, mount().Warning, "before it has to count")
	require.NoError(t, os.MkdirAll(filepath.Join(kept, "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(kept, "deep/before"), make([]byte, 4<<20), 0o600))
	require.NoError(t, run("umount", at))

	require.NoError(t, ext4.CountProjects(t.Context(), info.Device, node.Exec, how.Say))
	warning := mount(limit).Warning
	t.Cleanup(func() { require.NoError(t, run("umount", at)) })
	before, err := os.ReadFile(filepath.Join(kept, "deep/before"))
	require.NoError(t, err)
	require.Len(t, before, 4<<20)
	if warning != "" {
		require.Contains(t, warning, "the quotas of directories are off: ")
		require.NoError(t, run("umount", at))
		require.Empty(t, mount(limit).Warning, "nothing is left of the counts")
		t.Log("the kernel of this machine counts no projects: ", warning)
		return
	}
	opened, err := os.Open(kept)
	require.NoError(t, err)
	require.NoError(t, quota.Assign(opened, limit.Project))
	require.NoError(t, opened.Close())
	require.NoError(t, os.Chown(kept, 1000, 1000))
	fill := exec.Command("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "dd", "if=/dev/zero", "of="+kept+"/fill", "bs=1M", "count=32")
	out, err := fill.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Disk quota exceeded")
	full, err := os.Stat(kept + "/fill")
	require.NoError(t, err)
	require.LessOrEqual(t, full.Size(), int64(4<<20), "what was there before counts")
	require.NoError(t, quota.Set(at, nil))
	out, err = exec.Command(fill.Args[0], fill.Args[1:]...).CombinedOutput()
	require.NoError(t, err, "a quota that nobody names any more holds nobody: %s", out)
}
