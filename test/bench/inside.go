package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideCommand is the subcommand that runs a program in a tools tree; it is not for people.
const insideCommand = "inside"

// insideArgs are the arguments of this program that run argv inside a tools tree, with folder at its own path.
func insideArgs(tree, folder string, argv ...string) []string {
	return append([]string{insideCommand, tree, folder}, argv...)
}

// inside makes the tree the root of the mount namespace that it was started in, mounts what programs expect there and the folder at its own
// path, and runs argv. It returns the exit code of argv. A chroot would not do: mkosi makes namespaces of mounts itself, and
// pivots.
//
// It is process 1 of a namespace, so that all processes end with it, and waits for what argv leaves behind, too: the processor
// time of the whole tree of processes is in what whoever started it is told by wait4(2).
func inside(tree, folder string, argv []string) (int, error) {
	if err := enter(tree, folder); err != nil {
		return 1, err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 1, err
	}
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Dir: folder, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// As a terminal of root in Debian has it. HOME is in the folder, so that no cache is but there.
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + folder, "TERM=dumb"},
	})
	if err != nil {
		return 1, err
	}
	code := 1
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return code, nil
		case err != nil:
			return 1, fmt.Errorf("wait for %s: %w", argv[0], err)
		case pid == p.Pid && status.Signaled():
			code = 128 + int(status.Signal())
		case pid == p.Pid:
			code = status.ExitStatus()
		}
	}
}

// enter changes the root of this process, which has a mount namespace of its own.
func enter(tree, folder string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	// pivot_root(2) wants a mount.
	if err := unix.Mount(tree, tree, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", tree, err)
	}
	for _, m := range []struct {
		from, kind, at string
		flags          uintptr
		options        string
	}{
		{"proc", "proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/sys", "", "sys", unix.MS_BIND | unix.MS_REC, ""},
		{"/dev", "", "dev", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "tmpfs", "run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"/etc/resolv.conf", "", "etc/resolv.conf", unix.MS_BIND, ""},
		{"/etc/hosts", "", "etc/hosts", unix.MS_BIND, ""},
		{folder, "", folder, unix.MS_BIND | unix.MS_REC, ""},
	} {
		at := filepath.Join(tree, m.at)
		if err := mountpoint(at, m.flags&unix.MS_BIND != 0 && isFile(m.from)); err != nil {
			return err
		}
		if err := unix.Mount(m.from, at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s in the tools tree: %w", m.at, err)
		}
	}
	if err := os.Chdir(tree); err != nil {
		return err
	}
	// The old root stacked on the new one, and gone with the next call: pivot_root(2), "pivot_root(".", ".")".
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make the tools tree the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the root of the host: %w", err)
	}
	return os.Chdir(folder)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// mountpoint makes an empty folder or file where there is none.
func mountpoint(at string, file bool) error {
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if !file {
		return os.MkdirAll(at, 0o755)
	}
	// A link that leads nowhere, such as Debian's resolv.conf of systemd-resolved.
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(at, nil, 0o644)
}
