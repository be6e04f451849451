// Package squashfs reads the size of a squashfs from its superblock (Linux Documentation/filesystems/squashfs.rst, version
// 4.0). It reads nothing else: the kernel does.
package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// superblockSize is in bytes.
const superblockSize = 96

// Size returns the number of bytes that the file system at the start of a partition of partSize bytes uses. What it reads
// is not verified yet and is bounded by the partition.
func Size(r io.ReaderAt, partSize int64) (int64, error) {
	b := make([]byte, superblockSize)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return 0, fmt.Errorf("reading squashfs superblock: %w", err)
	}
	return Parse(b, partSize)
}

// Parse is Size for a superblock in memory.
func Parse(b []byte, partSize int64) (int64, error) {
	if len(b) < superblockSize {
		return 0, fmt.Errorf("squashfs superblock: %d bytes of %d", len(b), superblockSize)
	}
	le := binary.LittleEndian
	if string(b[:4]) != "hsqs" {
		return 0, errors.New("squashfs superblock: wrong magic")
	}
	if major, minor := le.Uint16(b[28:]), le.Uint16(b[30:]); major != 4 || minor != 0 {
		return 0, fmt.Errorf("squashfs superblock: version %d.%d; only 4.0 is known", major, minor)
	}
	blockSize, blockLog := le.Uint32(b[12:]), le.Uint16(b[22:])
	if blockLog < 12 || blockLog > 20 || blockSize != 1<<blockLog {
		return 0, fmt.Errorf("squashfs superblock: blocks of %d bytes, 2^%d", blockSize, blockLog)
	}
	used := le.Uint64(b[40:])
	if used < superblockSize || used > uint64(max(partSize, 0)) {
		return 0, fmt.Errorf("squashfs superblock: %d bytes used in a partition of %d", used, partSize)
	}
	return int64(used), nil
}
