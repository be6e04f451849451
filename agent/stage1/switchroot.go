package main

import (
	"fmt"
	"os"

	"github.com/u-root/u-root/pkg/mount"
	"golang.org/x/sys/unix"
)

// switchRoot makes a mounted directory the root and becomes init, as switch_root(8) does. u-root's would give init no
// environment.
func switchRoot(root, init string, env []string) error {
	for _, at := range []string{"/dev", "/proc", "/sys", "/run"} {
		if same, err := mount.SameFilesystem("/", at); err != nil {
			return err
		} else if same {
			return fmt.Errorf("internal error: %s is not mounted", at)
		}
		if err := mount.MoveMount(at, root+at); err != nil {
			return fmt.Errorf("move %s: %w", at, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	old, err := os.Open("/")
	if err != nil {
		return err
	}
	if err := mount.MoveMount(root, "/"); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	freeInitramfs(old)
	return fmt.Errorf("start %s: %w", init, unix.Exec(init, []string{init}, env))
}

// freeInitramfs removes all that is in a directory of the initramfs, which has no name any more, and closes it: its
// files are memory. What stays costs memory alone. It goes into no other file system.
func freeInitramfs(dir *os.File) {
	defer dir.Close()
	var of unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &of); err != nil {
		return
	}
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil { // a file or a link
			_ = unix.Unlinkat(int(dir.Fd()), name, 0)
			continue
		}
		below := os.NewFile(uintptr(fd), name)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Dev != of.Dev {
			below.Close()
			continue
		}
		freeInitramfs(below)
		_ = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	}
}
