package rotated

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFilesAreReadInAUnitThatHasNoOpenat2 has the filter of systemd.exec(5), RestrictSUIDSGID=, in one thread.
func TestFilesAreReadInAUnitThatHasNoOpenat2(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lab_pod_1", "main"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lab_pod_1", "main", "0.log"), []byte("x"), 0o644))
	require.NoError(t, os.Symlink("lab_pod_1", filepath.Join(dir, "link")))
	type found struct {
		folders []string
		files   []File
		errs    [4]error
	}
	done := make(chan found)
	go func() {
		runtime.LockOSThread() // The thread ends with the goroutine.
		var f found
		defer func() { done <- f }()
		if f.errs[0] = without(unix.SYS_OPENAT2); f.errs[0] != nil {
			return
		}
		tree, err := OpenTree(dir)
		if f.errs[1] = err; err != nil {
			return
		}
		defer tree.Close()
		f.folders, f.errs[1] = tree.Folders("lab_pod_1")
		f.files, f.errs[2] = tree.Files("lab_pod_1/main", func(string) bool { return true })
		file, err := tree.Open("lab_pod_1/main/0.log")
		if f.errs[3] = err; err == nil {
			_ = file.Close()
		}
	}()
	f := <-done
	require.NoError(t, f.errs[0], "the filter")
	require.NoError(t, f.errs[1])
	require.NoError(t, f.errs[2])
	require.NoError(t, f.errs[3])
	require.Equal(t, []string{"main"}, f.folders)
	require.Len(t, f.files, 1)

	tree, err := OpenTree(dir)
	require.NoError(t, err)
	defer tree.Close()
	for _, out := range []string{"link/main/0.log", "..", "../x", "lab_pod_1/../lab_pod_1/main/0.log", "/etc/passwd", "", "lab_pod_1//main/0.log", "link"} {
		_, err := tree.Open(out)
		require.Error(t, err, out)
	}
}

// without has a system call fail with ENOSYS in this thread (seccomp(2), SECCOMP_SET_MODE_FILTER).
func without(call uint32) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // The number of the call is first in seccomp_data.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.ENOSYS)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                       // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
