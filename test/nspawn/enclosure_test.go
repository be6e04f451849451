//go:build e2e

package nspawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// messVariable has TestMess leave a process with that argument behind.
const messVariable = "SPORE_NSPAWN_MESS"

// mess is what the process runs; the colon keeps the shell there.
const mess = "sleep 3600; :"

// TestMess is what TestNothingIsLeft runs.
func TestMess(t *testing.T) {
	how := os.Getenv(messVariable)
	if how == "" {
		t.Skip("elsewhere: TestNothingIsLeft runs it as a process")
	}
	require.NoError(t, os.Mkdir(filepath.Join(os.TempDir(), "left"), 0o700))
	group := filepath.Join(os.Getenv(groupVariable), "node", "payload")
	require.NoError(t, os.MkdirAll(group, 0o755))
	// In a session of its own, with no parent, as a container whose systemd-nspawn was killed.
	script := fmt.Sprintf("echo 0 > %s/cgroup.procs && (setsid sh -c '%s' %s &)", group, mess, how)
	require.NoError(t, exec.Command("sh", "-c", script).Run())
	require.Eventually(t, func() bool { return len(processes(t, how)) == 1 }, time.Minute, 10*time.Millisecond)
	fmt.Println("mess made")
	switch {
	case strings.HasPrefix(how, "fail"):
		t.FailNow()
	case strings.HasPrefix(how, "panic"):
		panic("as planned")
	case strings.HasPrefix(how, "hang"):
		time.Sleep(time.Hour)
	}
}

func TestNothingIsLeft(t *testing.T) {
	if os.Getenv(stageVariable) != stageTests {
		t.Skip("only root may make the namespaces of containers")
	}
	for _, c := range []struct {
		name, how string
		args      []string
		kill      bool
	}{
		{name: "of a test that succeeds", how: "pass"},
		{name: "of a test that fails", how: "fail"},
		{name: "of a test that panics", how: "panic"},
		{name: "of a test that runs out of time", how: "hang-long", args: []string{"-test.timeout=2s"}},
		{name: "running of a test that is killed", how: "hang-killed", kill: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			temp := t.TempDir()
			before := groups(t)
			cmd := exec.Command("/proc/self/exe", append([]string{"-test.run=^TestMess$"}, c.args...)...)
			cmd.Env = append(os.Environ(), stageVariable+"=", "TMPDIR="+temp, messVariable+"="+c.how)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.WaitDelay = time.Minute
			if c.kill {
				require.NoError(t, cmd.Start())
				require.Eventually(t, func() bool { return len(processes(t, c.how)) == 1 }, time.Minute, 10*time.Millisecond)
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait() // It was killed.
				require.Eventually(t, func() bool { return len(processes(t, c.how)) == 0 }, time.Minute, 10*time.Millisecond)
				// Nobody was left to remove the group; the next run does.
				require.Greater(t, len(groups(t)), len(before))
				next := exec.Command("/proc/self/exe", "-test.run=^$")
				next.Env = append(os.Environ(), stageVariable+"=", "TMPDIR="+temp)
				text, err := next.CombinedOutput()
				require.NoError(t, err, "%s", text)
				require.Equal(t, before, groups(t))
				return
			}
			err := cmd.Run()
			if strings.HasPrefix(c.how, "pass") {
				require.NoError(t, err, out.String())
			} else {
				var exit *exec.ExitError
				require.True(t, errors.As(err, &exit), "%v", err)
				require.True(t, exit.Sys().(syscall.WaitStatus).Exited(), out.String())
			}
			require.Contains(t, out.String(), "mess made")
			require.Empty(t, processes(t, c.how))
			require.Equal(t, before, groups(t))
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// processes are those that TestMess left with an argument.
func processes(t *testing.T, argument string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range all {
		data, err := os.ReadFile(name)
		if err == nil && string(data) == "sh\x00-c\x00"+mess+"\x00"+argument+"\x00" {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// groups are the control groups beside and below ours that nobody uses: those of other runs are theirs.
func groups(t *testing.T) (left []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.Dir(os.Getenv(groupVariable)), groupPrefix+"*"))
	require.NoError(t, err)
	for _, group := range list {
		if lock, err := lockGroup(group); err == nil {
			lock.Close()
			left = append(left, group)
		}
	}
	return left
}
