package apart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"spore/builder/media"
)

// nobody is the account and the group without rights that every Linux has.
const nobody = 65534

// confine takes off what it can and starts the program again. Both the bit and the rules belong to a thread; exec makes
// them those of the whole process.
func confine(say func(format string, args ...any)) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("take rights off the server's own process: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	apart, err := restrict(exe)
	if err != nil {
		return fmt.Errorf("take files off the server's own process: %w", err)
	}
	if !apart {
		say("this kernel has no Landlock (Linux 5.13, and switched on): whoever takes over what answers the network reads all files that its account may read; " +
			"keep the folder with the keys on another machine")
	}
	err = syscall.Exec("/proc/self/exe", []string{exe, Command, Confined}, nil)
	return fmt.Errorf("start the server's own process: %w", err)
}

// Rights of landlock(7) to read, and to use a file in any way but to execute it, by the version of the interface that
// has them. What is started is this program alone, and libraries that are read as well.
const (
	readFile = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readAny  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	version1 = readAny | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	version2 = version1 | unix.LANDLOCK_ACCESS_FS_REFER
	version3 = version2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// ruleset is struct landlock_ruleset_attr of version 6, and what follows are its scopes: no abstract sockets of
// processes outside, no signals to them.
type ruleset struct{ files, network, scoped uint64 }

const (
	scopeAbstract = 1 << 0
	scopeSignal   = 1 << 1
)

// landlockVersion asks the kernel which version of the interface it has.
var landlockVersion = func() (uintptr, syscall.Errno) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return version, errno
}

// restrict leaves this thread the working directory, which is the output folder, to read, and what a program needs to
// start. A kernel without landlock leaves it everything, and the answer is false.
func restrict(exe string) (bool, error) {
	version, errno := landlockVersion()
	if errno == unix.ENOSYS || errno == unix.EOPNOTSUPP {
		return false, nil
	}
	if errno != 0 {
		return false, errno
	}
	// The kernel wants the size of those fields that its version knows.
	rules := ruleset{files: version3}
	size := unsafe.Sizeof(rules.files)
	switch {
	case version < 3:
		rules.files = []uint64{version1, version1, version2}[version]
	case version >= 6:
		rules.scoped = scopeAbstract | scopeSignal
		size = unsafe.Sizeof(rules)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return false, errno
	}
	defer unix.Close(int(set))
	for _, r := range []struct {
		path   string
		rights uint64
	}{{".", readAny}, {exe, readFile}, {"/usr", readAny}, {"/lib", readAny}, {"/lib64", readAny}, {"/etc/ld.so.cache", readFile}, {"/proc/sys/net/core/somaxconn", readFile}} {
		if err := allow(set, r.path, r.rights); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, &os.PathError{Op: "allow", Path: r.path, Err: err}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return false, errno
	}
	return true, nil
}

func allow(set uintptr, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// dropRoot makes root nobody, for good, and makes sure that nobody can read the folder.
func dropRoot(folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := setAccount(nobody, nobody); err != nil {
		return fmt.Errorf("give up root: %w", err)
	}
	f, err := os.Open(filepath.Join(folder, media.NetbootCmdline))
	if err != nil {
		return fmt.Errorf("the server runs as nobody, who cannot read the output folder: %w; make it readable for everybody: chmod o+rx on it", err)
	}
	return f.Close()
}

// setAccount gives up root. The kernel takes the capabilities with it.
func setAccount(uid, gid int) error {
	return errors.Join(syscall.Setgroups([]int{gid}), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid))
}

// BecomeOperator makes a root that sudo(8) made the one who typed it: what this process does from then on, above all
// with the operator's keys, it does without root. owned are files that become his.
func BecomeOperator(owned ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, ok := operatorOf(os.Getenv)
	if !ok {
		return nil // It is root's own login, and root's keys.
	}
	for _, name := range owned {
		if err := os.Lchown(name, uid, gid); err != nil {
			return err
		}
	}
	if err := setAccount(uid, gid); err != nil {
		return fmt.Errorf("give up root: %w", err)
	}
	return nil
}

// operatorOf is who typed sudo.
func operatorOf(env func(string) string) (uid, gid int, ok bool) {
	uid, err1 := strconv.Atoi(env("SUDO_UID"))
	gid, err2 := strconv.Atoi(env("SUDO_GID"))
	return uid, gid, err1 == nil && err2 == nil && uid > 0 && gid >= 0
}
