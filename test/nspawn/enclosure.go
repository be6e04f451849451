package nspawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stageVariable says which of the three processes of a test program this one is; none is the first.
	stageVariable = "SPORE_NSPAWN_STAGE"
	stageInit     = "init"
	stageTests    = "tests"
	// groupVariable is the control group of the nodes, as a folder.
	groupVariable = "SPORE_NSPAWN_GROUP"
	// groupPrefix begins its name.
	groupPrefix = "spore-nspawn-"
	// hostNetwork is the file descriptor of the network namespace that the test program was started in.
	hostNetwork = 3
	// cgroups is where the second process mounts the control groups.
	cgroups = "/sys/fs/cgroup"
)

// Main runs the tests of a package inside an enclosure: a namespace each for network, mounts and processes, and a control
// group for the nodes. It returns the exit code. Three processes stand behind each other, all of them this very program:
//
//   - the first waits, and removes the folder that holds everything the tests write;
//   - the second is PID 1 of the enclosure. It reaps what loses its parent, and when the tests end, however they do, it ends
//     what they left. The kernel ends it with the first, and everything else with it;
//   - the third runs the tests.
//
// So nothing is left of a test that fails, is killed or runs out of time, but the folder and an empty control group where the
// first process itself was killed; the next run removes the group.
func Main(m *testing.M) int {
	var code int
	var err error
	switch stage := os.Getenv(stageVariable); {
	case stage == stageTests:
		return m.Run()
	case stage == stageInit:
		code, err = runInit()
	case os.Geteuid() != 0:
		return m.Run() // New skips.
	default:
		code, err = enclose()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enclosure of the tests:", err)
		return max(code, 1)
	}
	return code
}

// enclose runs this program again in namespaces of its own.
func enclose() (int, error) {
	dir, err := os.MkdirTemp("", "spore-nspawn-*")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	network, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return 1, err
	}
	defer network.Close()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVariable+"="+stageInit, "TMPDIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{network}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	// The kernel takes the death of the thread that started a process for that of its parent (prctl(2), PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// runInit is PID 1 of the enclosure.
func runInit() (code int, err error) {
	if err := mountAPI(); err != nil {
		return 1, err
	}
	group, lock, err := makeGroup()
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	defer func() { err = errors.Join(err, removeGroup(group)) }()
	if err := errors.Join(os.Setenv(stageVariable, stageTests), os.Setenv(groupVariable, group)); err != nil {
		return 1, err
	}
	tests, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(hostNetwork, "network namespace")},
	})
	if err != nil {
		return 1, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the tests: %w", err)
		case pid == tests.Pid && status.Signaled():
			return 128 + int(status.Signal()), fmt.Errorf("the tests were ended by: %s", status.Signal())
		case pid == tests.Pid:
			return status.ExitStatus(), nil
		}
	}
}

// mountAPI makes /proc, /sys and the control groups those of the enclosure. /sys is read-only: by that systemd-nspawn knows that
// there is no udev to wait for, which does not see the cards of another network namespace.
func mountAPI() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	const common = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, at string
		flags    uintptr
	}{
		{"proc", "/proc", common}, {"sysfs", "/sys", common | unix.MS_RDONLY}, {"cgroup2", cgroups, common},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// makeGroup makes the control group of the nodes below our own, and removes those of runs that were killed. Whoever
// holds the lock uses the group.
func makeGroup() (group string, lock *os.File, err error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", nil, err
	}
	own := ""
	for line := range strings.Lines(string(data)) {
		// cgroups(7): the line of version 2 begins so, also where version 1 is in use beside it.
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return "", nil, errors.New("the kernel has no control groups of version 2")
	}
	// Another run may begin at the same time: a group of its is not to be taken for one that was left before it is locked.
	beginning, err := os.Open(filepath.Join(cgroups, own))
	if err != nil {
		return "", nil, err
	}
	defer beginning.Close()
	if err := unix.Flock(int(beginning.Fd()), unix.LOCK_EX); err != nil {
		return "", nil, fmt.Errorf("wait for another run of these tests to begin: %w", err)
	}
	groups, _ := filepath.Glob(filepath.Join(cgroups, own, groupPrefix+"*"))
	for _, g := range groups {
		if lock, err := lockGroup(g); err == nil {
			_ = removeGroup(g)
			lock.Close()
		}
	}
	if group, err = os.MkdirTemp(filepath.Join(cgroups, own), groupPrefix); err != nil {
		return "", nil, err
	}
	lock, err = lockGroup(group)
	return group, lock, err
}

// lockGroup takes the lock of a control group; the kernel gives it up with the process.
func lockGroup(group string) (*os.File, error) {
	f, err := os.Open(group)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", group, err)
	}
	return f, nil
}

func populated(group string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
	return strings.Contains(string(data), "populated 1"), err
}

// killGroup ends all processes of a control group at once and returns when there are none any more.
func killGroup(group string) error {
	if err := kill(group); err != nil {
		return err
	}
	return awaitEmpty(group)
}

// kill has the kernel end all processes of a control group.
func kill(group string) error {
	if err := os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill the processes of %s: %w", group, err)
	}
	return nil
}

// awaitEmpty waits until a control group has no processes.
func awaitEmpty(group string) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		alive, err := populated(group)
		if err != nil || !alive {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes of %s do not end", group)
		}
	}
}

// removeGroup removes a control group with those below it and all of their processes.
func removeGroup(group string) error {
	if err := killGroup(group); err != nil {
		return err
	}
	return removeGroups(group)
}

func removeGroups(group string) error {
	below, err := os.ReadDir(group)
	if err != nil {
		return err
	}
	for _, b := range below {
		if b.IsDir() {
			if err := removeGroups(filepath.Join(group, b.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(group)
}
