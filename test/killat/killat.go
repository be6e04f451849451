// Package killat runs something in a process of its own again and again, and kills that before each of its system calls
// that change a file: what a process leaves behind that is killed, at each point at which that can make a difference.
//
// It cuts processes, and not the power: what was not synced stays (package powercut is about that). Programs that the
// process starts are not traced, and are killed with it.
package killat

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// folder is the variable by which a process of this package knows that it is one, and where it works.
	folder = "SPORE_KILLAT"
	// most bounds how many calls are cut.
	most = 1000
	// getSyscallInfo is PTRACE_GET_SYSCALL_INFO, and atEntry what it says of a call that begins (linux/ptrace.h).
	getSyscallInfo = 0x420e
	atEntry        = 1
	// syscallStop is what PTRACE_O_TRACESYSGOOD adds to the signal of a stop at a call.
	syscallStop = 0x80
	// begin is a signal number that no kernel has: kill(0, begin) fails, and marks where the counting begins.
	begin = 4711
)

// errForbidden is the error where a process cannot be traced here: a sandbox, a setting of the kernel, or an old one.
var errForbidden = errors.New("this process may not trace another one (ptrace(2), which needs Linux 5.3)")

// changes are the calls that change a file or make it last.
var changes = map[uint64]bool{
	unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true, unix.SYS_UNLINKAT: true, unix.SYS_MKDIRAT: true, unix.SYS_LINKAT: true,
	unix.SYS_SYMLINKAT: true, unix.SYS_FSYNC: true, unix.SYS_FDATASYNC: true, unix.SYS_FTRUNCATE: true, unix.SYS_FCHMOD: true,
	unix.SYS_FCHOWN: true,
}

// writes are those whose first argument is a file that may be something else than a file on a disk.
var writes = map[uint64]bool{unix.SYS_WRITE: true, unix.SYS_PWRITE64: true, unix.SYS_WRITEV: true}

// Each prepares a folder, has do work there in a process of its own that is killed before the nth change, and then has
// what is left looked at, for each n from 1 on; it returns how often. do runs to its end once, which must be without an
// error. The process is the same test again up to this call, which must be its only one. Where this process may not
// trace another one, the test is skipped.
func Each(t *testing.T, prepare func(t *testing.T, dir string), do func(t *testing.T, dir string) error, then func(t *testing.T, dir string)) int {
	t.Helper()
	if dir := os.Getenv(folder); dir != "" {
		_ = unix.Kill(0, begin)
		if err := do(t, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	for n := 1; n <= most; n++ {
		dir := t.TempDir()
		prepare(t, dir)
		killed, err := cut(t.Name(), dir, n)
		if errors.Is(err, errForbidden) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("cut at change %d: %v", n, err)
		}
		if !killed {
			return n - 1
		}
		if t.Run(fmt.Sprint(n), func(t *testing.T) { then(t, dir) }); t.Failed() {
			t.FailNow()
		}
	}
	t.Fatalf("it does not end within %d changes", most)
	return 0
}

// cut runs the process and kills it before its nth change; killed is false where it ended before that.
func cut(test, dir string, n int) (killed bool, err error) {
	// All calls of ptrace(2) come from the thread that is the tracer.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+part+"$")
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.v")
	cmd.Env = append(os.Environ(), folder+"="+dir, "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	said, err := os.CreateTemp("", "killat-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return false, fmt.Errorf("%w: %w", errForbidden, err)
	} else if err != nil {
		return false, err
	}
	status, killed, err := trace(cmd.Process.Pid, n)
	if err != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
		return false, err
	}
	if !killed && status.ExitStatus() != 0 {
		text, _ := os.ReadFile(said.Name())
		return false, fmt.Errorf("the process ended with %d before it was cut:\n%s", status.ExitStatus(), text)
	}
	return killed, nil
}

// trace follows a process and its threads.
func trace(pid, n int) (status unix.WaitStatus, killed bool, err error) {
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	counts, begun := 0, false
	for first := true; ; first = false {
		thread, err := unix.Wait4(-pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return status, killed, fmt.Errorf("wait: %w", err)
		}
		if first {
			if err := unix.PtraceSetOptions(thread, options); err != nil {
				return status, killed, fmt.Errorf("%w: %w", errForbidden, err)
			}
		}
		if status.Exited() || status.Signaled() {
			if thread == pid {
				return status, killed, nil
			}
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); {
		case stop == unix.SIGTRAP|syscallStop:
			call, args, entry, err := info(thread)
			switch {
			case err != nil && err != unix.ESRCH:
				return status, killed, fmt.Errorf("%w: look at a call: %w", errForbidden, err)
			case !entry:
			case call == unix.SYS_KILL && args[1] == begin:
				begun = true
			case begun && isChange(thread, call, args):
				counts++
			}
			if counts == n && !killed {
				killed = true
				if err := unix.Kill(-pid, unix.SIGKILL); err != nil {
					return status, killed, fmt.Errorf("kill: %w", err)
				}
				continue
			}
		case stop == unix.SIGTRAP, stop == unix.SIGSTOP: // an event, and the first stop of a thread
		default:
			signal = int(stop)
		}
		// A thread that is gone meanwhile is waited for.
		_ = unix.PtraceSyscall(thread, signal)
	}
}

// info is the call at which a thread stands.
func info(thread int) (call uint64, args [6]uint64, entry bool, err error) {
	var i struct {
		op   uint8
		_    [3]uint8
		arch uint32
		_    [2]uint64
		nr   uint64
		args [6]uint64
		_    [4]uint64
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(i), uintptr(unsafe.Pointer(&i)), 0, 0)
	if errno != 0 {
		return 0, args, false, errno
	}
	return i.nr, i.args, i.op == atEntry, nil
}

// isChange tells whether a call changes a file.
func isChange(thread int, call uint64, args [6]uint64) bool {
	switch {
	case changes[call]:
		return true
	case call == unix.SYS_OPENAT:
		return args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case writes[call]:
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, args[0]))
		return err == nil && strings.HasPrefix(path, os.TempDir()) && !strings.Contains(path, "killat-")
	}
	return false
}
