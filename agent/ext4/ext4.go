// Package ext4 looks at an ext4 file system, has it checked where it says that something is wrong, and lets it grow
// with its device. It reads no more than the superblock; repairs are e2fsck's and growing is the kernel's.
package ext4

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// superblock is what of an ext4 superblock matters here (Linux, Documentation/filesystems/ext4/super.rst).
type superblock struct {
	clean     bool
	projects  bool
	changing  bool
	blocks    int64
	blockSize int64
}

// Where the superblock is, and its size, in bytes.
const superblockAt, superblockSize = 1024, 1024

// Bits of s_state: it was unmounted, and the kernel found errors.
const valid, failed = 1, 2

func readSuperblock(r io.ReaderAt) (superblock, error) {
	b := make([]byte, superblockSize)
	if n, err := r.ReadAt(b, superblockAt); n < len(b) {
		return superblock{}, fmt.Errorf("read its superblock: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint16(b[0x38:]) != 0xef53 {
		return superblock{}, errors.New("it holds no ext4 file system")
	}
	const incompat64, quotas, projects = 0x80, 0x100, 0x2000
	state, shift := le.Uint16(b[0x3a:]), le.Uint32(b[0x18:])
	if shift > 6 {
		return superblock{}, fmt.Errorf("its superblock is damaged: block size 2^%d KiB", shift)
	}
	sb := superblock{clean: state&valid != 0 && state&failed == 0, blocks: int64(le.Uint32(b[4:])), blockSize: 1024 << shift}
	sb.projects = le.Uint32(b[0x64:])&(quotas|projects) == quotas|projects && le.Uint32(b[0x26c:]) != 0
	last := b[0x88 : 0x88+64] // s_last_mounted
	sb.changing = bytes.HasPrefix(last, append([]byte(changing), 0))
	if le.Uint32(b[0x60:])&incompat64 != 0 {
		sb.blocks |= int64(le.Uint32(b[0x150:])) << 32
	}
	if sb.blocks < 0 {
		return superblock{}, errors.New("its superblock is damaged: no sensible number of blocks")
	}
	return sb, nil
}

// Size reads how many blocks a file system has, and how many bytes a block.
func Size(r io.ReaderAt) (blocks, blockSize int64, err error) {
	sb, err := readSuperblock(r)
	return sb.blocks, sb.blockSize, err
}

// resizeFS is EXT4_IOC_RESIZE_FS, _IOW('f', 16, __u64) (Linux, include/uapi/linux/ext4.h).
const resizeFS = 0x40086610

// Grow makes the mounted file system as large as its device.
func Grow(device, dir string) error {
	dev, err := os.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	sb, err := readSuperblock(dev)
	if err != nil {
		return err
	}
	size, err := dev.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	blocks := uint64(size / sb.blockSize)
	if blocks <= uint64(sb.blocks) {
		return nil
	}
	mount, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer mount.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, mount.Fd(), resizeFS, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return fmt.Errorf("grow the file system of %s from %d to %d blocks: %w", device, sb.blocks, blocks, errno)
	}
	return nil
}

// Check looks at the superblock and runs e2fsck where it says that something is wrong. A journal that only has to be
// replayed is left to the kernel. One that was whole when CountProjects began to change it, and was cut off there, is
// repaired without a question.
func Check(ctx context.Context, device string, run Runner, say func(string)) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	sb, err := readSuperblock(f)
	f.Close()
	if err != nil {
		return err
	}
	if sb.clean {
		return nil
	}
	say("checking the file system of " + device)
	if sb.changing {
		return repaired(run(ctx, nil, "e2fsck", "-f", "-y", device))
	}
	return repaired(run(ctx, nil, "e2fsck", "-p", device))
}
