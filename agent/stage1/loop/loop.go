// Package loop makes block devices of files (Linux include/uapi/linux/loop.h), read-only, as verity wants them below it.
package loop

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// tries bounds the search for a device that nobody took meanwhile.
const tries = 8

// Attach makes a read-only device of an open file and returns its node below /dev, such as "loop0", and its number. The
// kernel keeps the file open. name is shown by losetup(8).
func Attach(f *os.File, name string) (node, number string, err error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", "", fmt.Errorf("%w; module loop is not loaded", err)
	}
	defer control.Close()
	for range tries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", "", fmt.Errorf("find a free loop device: %w", err)
		}
		node := fmt.Sprintf("loop%d", n)
		err = configure("/dev/"+node, f, name)
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("make /dev/%s of %s: %w", node, name, err)
		}
		var st unix.Stat_t
		if err := unix.Stat("/dev/"+node, &st); err != nil {
			return "", "", fmt.Errorf("make /dev/%s of %s: %w", node, name, err)
		}
		return node, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), nil
	}
	return "", "", fmt.Errorf("no loop device stays free for %s", name)
}

func configure(path string, f *os.File, name string) error {
	device, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	c := unix.LoopConfig{Fd: uint32(f.Fd())}
	c.Info.Flags = unix.LO_FLAGS_READ_ONLY
	copy(c.Info.File_name[:len(c.Info.File_name)-1], name)
	return unix.IoctlLoopConfigure(int(device.Fd()), &c)
}
