package killat

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAProcessIsKilledBeforeEachOfItsChanges(t *testing.T) {
	var seen []string
	n := Each(t, func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "name"), []byte("old"), 0o600))
	}, func(t *testing.T, dir string) error {
		f, err := os.Create(filepath.Join(dir, "new"))
		if err != nil {
			return err
		}
		if _, err := f.WriteString("new"); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		return os.Rename(f.Name(), filepath.Join(dir, "name"))
	}, func(t *testing.T, dir string) {
		old, err := os.ReadFile(filepath.Join(dir, "name"))
		require.NoError(t, err)
		is := "name is " + string(old)
		if fresh, err := os.ReadFile(filepath.Join(dir, "new")); err == nil {
			is += ", new is " + string(fresh)
		}
		seen = append(seen, is)
	})
	require.Equal(t, 4, n, "open, write, sync and rename")
	require.Equal(t, []string{"name is old", "name is old, new is ", "name is old, new is new", "name is old, new is new"}, seen)
}

// forbids is the variable by which a process of this test knows that it forbids itself ptrace(2), as a sandbox does.
const forbids = "KILLAT_TEST_FORBIDS"

const noFilter = "this process may not have the kernel refuse calls (seccomp(2))"

func TestWhereNothingMayBeTracedTheTestIsSkippedAndSaysWhy(t *testing.T) {
	if os.Getenv(forbids) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), forbids+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		if strings.Contains(string(out), noFilter) {
			t.Skip(noFilter)
		}
		require.Contains(t, string(out), "this process may not trace another one (ptrace(2)")
		require.Contains(t, string(out), "--- SKIP: "+t.Name())
		return
	}
	forbid(t, unix.SYS_PTRACE)
	Each(t, func(*testing.T, string) {}, func(*testing.T, string) error { return nil }, func(*testing.T, string) {})
}

// forbid has a call fail with EPERM in all threads of this process, from now on (seccomp(2)).
func forbid(t *testing.T, call uint32) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		t.Skip(noFilter)
	}
}
