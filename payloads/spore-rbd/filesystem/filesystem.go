// Package filesystem makes, checks and mounts the ext4 file systems of volumes by Debian's programs (mke2fs, e2fsck, blkid,
// mount, umount). mount(8) keeps options such as _netdev, by which systemd unmounts before it stops the network.
package filesystem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Type is the one file system that is made and mounted.
const Type = "ext4"

// maxOutput bounds how much of a program's words go into an error, in bytes.
const maxOutput = 1024

// run runs a program and returns its output, and its exit status when it has one other than 0.
func run(ctx context.Context, name string, args ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	err := cmd.Run()
	if err == nil {
		return out.String(), 0, nil
	}
	said := bytes.TrimSpace(append(out.Bytes(), words.Bytes()...))
	said = said[max(0, len(said)-maxOutput):]
	err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.ReplaceAll(string(said), "\n", "; "))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return out.String(), exit.ExitCode(), err
	}
	return "", -1, err
}

// Probe says what lies on a device by its signatures: a type of file system, partition table or member of something larger
// as blkid(8) calls it. It is empty when there is none, which does not say that the device is empty.
func Probe(ctx context.Context, device string) (string, error) {
	// blkid has one exit status for a device that it cannot open and for one on which it finds nothing.
	f, err := os.Open(device)
	if err != nil {
		return "", err
	}
	f.Close()
	out, status, err := run(ctx, "blkid", "--probe", "--output", "export", device)
	switch status {
	case 0:
	case 2: // nothing found
		return "", nil
	case 8:
		return "", fmt.Errorf("%s has signatures of more than one kind, which contradict each other: %w", device, err)
	default:
		return "", err
	}
	found := ""
	for _, line := range strings.Split(out, "\n") {
		key, value, _ := strings.Cut(line, "=")
		if key == "TYPE" || key == "PTTYPE" && found == "" {
			found = value
		}
	}
	if found == "" {
		return "", fmt.Errorf("blkid found something on %s and did not say what: %.200q", device, out)
	}
	return found, nil
}

// Make makes a file system. Whatever is on the device is lost: the caller has made sure that nothing is.
func Make(ctx context.Context, device string) error {
	// Without a reserve for root, since pods are not root; -F because a device that holds an unfinished one would be asked about.
	if _, _, err := run(ctx, "mkfs."+Type, "-q", "-F", "-m", "0", device); err != nil {
		return err
	}
	return sync(device)
}

// sync waits until all that was written to a device is stored.
func sync(device string) error {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sync %s: %w", device, err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		return fmt.Errorf("sync %s: %w", device, err)
	}
	return nil
}

// Check replays the journal and repairs what can be repaired without a person (e2fsck(8), -p).
func Check(ctx context.Context, device string) error {
	_, status, err := run(ctx, "e2fsck", "-p", device)
	if status == 0 || status == 1 { // 1: errors were corrected
		return nil
	}
	return fmt.Errorf("the file system needs a person; nothing was changed that e2fsck -p does not change: %w", err)
}

// Mount mounts a file system of Type.
func Mount(ctx context.Context, device, target string, options []string) error {
	// A link at the end of the path would lead elsewhere; mount(8) resolves it unless it is told not to.
	_, _, err := run(ctx, "mount", "--no-canonicalize", "--types", Type, "--options", strings.Join(append([]string{"_netdev"}, options...), ","), device, target)
	return err
}

// Bind shows what is at source at target too.
func Bind(ctx context.Context, source, target string, readOnly bool) error {
	if _, _, err := run(ctx, "mount", "--no-canonicalize", "--bind", "--options", "_netdev", source, target); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	// The kernel ignores "ro" when it binds (mount(8), "Bind mount operation").
	if _, _, err := run(ctx, "mount", "--no-canonicalize", "--options", "remount,bind,ro", target); err != nil {
		return errors.Join(err, Unmount(ctx, target))
	}
	return nil
}

// Mounted describes what is mounted at a path.
type Mounted struct {
	// Device is the block device of the file system.
	Device   uint64
	ReadOnly bool
}

// At returns what is mounted at a path; nil when nothing is, or when there is no such path. A link is not followed.
func At(path string) (*Mounted, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return nil, fmt.Errorf("look at %s: the kernel does not say what is mounted", path)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return nil, nil
	}
	var vfs unix.Statfs_t
	if err := unix.Statfs(path, &vfs); err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	return &Mounted{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), ReadOnly: vfs.Flags&unix.ST_RDONLY != 0}, nil
}

// DeviceNumber is that of a block device's file, as Mounted has it.
func DeviceNumber(device string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return 0, fmt.Errorf("look at %s: %w", device, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, fmt.Errorf("%s is no block device", device)
	}
	return st.Rdev, nil
}

// Unmount unmounts whatever is mounted at a path, all of it when there are several.
func Unmount(ctx context.Context, path string) error {
	for {
		m, err := At(path)
		if m == nil || err != nil {
			return err
		}
		if _, _, err := run(ctx, "umount", "--no-canonicalize", path); err != nil {
			return err
		}
	}
}

// Usage is what a file system has and what is left of it, in bytes and inodes.
type Usage struct {
	Bytes, FreeBytes, Inodes, FreeInodes int64
	// AvailableBytes is what is left to those who are not root.
	AvailableBytes int64
}

// UsageOf returns the usage of the file system that a path lies in.
func UsageOf(path string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", filepath.Clean(path), err)
	}
	size := st.Bsize
	return Usage{
		Bytes: int64(st.Blocks) * size, FreeBytes: int64(st.Bfree) * size, AvailableBytes: int64(st.Bavail) * size,
		Inodes: int64(st.Files), FreeInodes: int64(st.Ffree),
	}, nil
}
