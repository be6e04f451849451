//go:build linux && amd64

// Program clock runs a program that believes in another time:
//
//	clock 87600h date
//
// It traces the program and all that it starts (ptrace(2)), and adds the duration to what the kernel answers when it is asked
// for the time of day. Programs ask the kernel because clock hides from them the vDSO, by which they would know without
// asking. The monotonic clock, timers and the dates of files stay those of the machine.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: clock DURATION PROGRAM [ARGUMENT ...]")
		os.Exit(2)
	}
	offset, err := time.ParseDuration(os.Args[1])
	if err == nil {
		var code int
		if code, err = run(exec.Command(os.Args[2], os.Args[3:]...), offset); err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, "clock:", err)
	os.Exit(2)
}

// options have every thread and child traced, tell system calls from signals, and leave nothing behind.
const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

// run runs the command and returns its exit code. It waits for children of any kind, so that it is the work of a process of
// its own.
func run(cmd *exec.Cmd, offset time.Duration) (int, error) {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	main := cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(main, &status, unix.WALL, nil); err != nil {
		return 0, fmt.Errorf("wait for the program's start: %w", err)
	}
	if err := unix.PtraceSetOptions(main, options); err != nil {
		return 0, fmt.Errorf("trace: %w", err)
	}
	if err := hideVDSO(main); err != nil {
		return 0, err
	}
	known := map[int]bool{main: true}
	code := 0
	for pid, deliver := main, 0; ; {
		// One that was killed meanwhile is told by Wait4.
		if err := unix.PtraceSyscall(pid, deliver); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("go on with %d: %w", pid, err)
		}
		var err error
		if pid, deliver, err = next(known, &status, offset); err != nil {
			return 0, err
		}
		for status.Exited() || status.Signaled() {
			if pid == main {
				code = status.ExitStatus()
				if status.Signaled() {
					code = 128 + int(status.Signal())
				}
			}
			delete(known, pid)
			pid, deliver, err = next(known, &status, offset)
			if errors.Is(err, unix.ECHILD) {
				return code, nil
			}
			if err != nil {
				return 0, err
			}
		}
	}
}

// next waits until a thread stops or ends, does what a stop is for, and says which signal the thread is to be given.
func next(known map[int]bool, status *unix.WaitStatus, offset time.Duration) (pid, deliver int, err error) {
	for {
		pid, err = unix.Wait4(-1, status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || !status.Stopped() {
		return pid, 0, err
	}
	fresh := !known[pid]
	known[pid] = true
	switch s := status.StopSignal(); {
	case s == unix.SIGTRAP|0x80:
		err = answer(pid, offset)
	case s == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		err = hideVDSO(pid)
	case s == unix.SIGTRAP && status.TrapCause() > 0, s == unix.SIGSTOP && fresh:
	default:
		deliver = int(s)
	}
	if errors.Is(err, unix.ESRCH) {
		err = nil // it was killed
	}
	return pid, deliver, err
}

// answer changes what a system call has answered.
func answer(pid int, offset time.Duration) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &r); err != nil {
		return err
	}
	// On the way in, rax is -ENOSYS (syscall(2) of the x86-64 kernel).
	if int64(r.Rax) == -int64(unix.ENOSYS) {
		return nil
	}
	seconds := uint64(offset / time.Second)
	switch {
	case r.Orig_rax == unix.SYS_TIME:
		r.Rax += seconds
		return unix.PtraceSetRegs(pid, &r)
	case r.Rax != 0:
	case r.Orig_rax == unix.SYS_GETTIMEOFDAY && r.Rdi != 0:
		return addTo(pid, uintptr(r.Rdi), seconds)
	case r.Orig_rax == unix.SYS_CLOCK_GETTIME && (r.Rdi == unix.CLOCK_REALTIME || r.Rdi == unix.CLOCK_REALTIME_COARSE || r.Rdi == unix.CLOCK_TAI):
		return addTo(pid, uintptr(r.Rsi), seconds)
	}
	return nil
}

// addTo adds to a word of the program's memory.
func addTo(pid int, at uintptr, n uint64) error {
	v, err := word(pid, at)
	if err != nil {
		return err
	}
	return setWord(pid, at, v+n)
}

// hideVDSO takes the vDSO out of the auxiliary vector (getauxval(3)), which is on the stack above arguments and environment.
func hideVDSO(pid int) error {
	const (
		atNull, atIgnore = 0, 1
		atSysinfoEhdr    = 33
	)
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &r); err != nil {
		return err
	}
	at := uintptr(r.Rsp)
	argc, err := word(pid, at)
	if err != nil {
		return err
	}
	at += 8 * (uintptr(argc) + 2) // argc, the arguments, and a null
	for v := uint64(1); v != 0; at += 8 {
		if v, err = word(pid, at); err != nil {
			return err
		}
	}
	for ; ; at += 16 {
		switch v, err := word(pid, at); {
		case err != nil:
			return err
		case v == atNull:
			return nil
		case v == atSysinfoEhdr:
			return setWord(pid, at, atIgnore)
		}
	}
}

func word(pid int, at uintptr) (uint64, error) {
	var b [8]byte
	if _, err := unix.PtracePeekData(pid, at, b[:]); err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func setWord(pid int, at uintptr, v uint64) error {
	if _, err := unix.PtracePokeData(pid, at, binary.LittleEndian.AppendUint64(nil, v)); err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	return nil
}
