package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// forgetErrors takes the mark of errors off a file system that is not mounted and was just looked at: e2fsck would look
// at all of it once more.
func forgetErrors(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, superblockSize)
	_, err = f.ReadAt(b, superblockAt)
	if err == nil {
		withoutErrors(b)
		_, err = f.WriteAt(b, superblockAt)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("mark its file system as one without errors: %w", err)
	}
	return nil
}

// withoutErrors takes the mark of errors (s_state) off a superblock, and renews its checksum where it has one: CRC32C
// without the last inversion (Linux, Documentation/filesystems/ext4/checksums.rst).
func withoutErrors(b []byte) {
	const checksums, checksumAt = 0x400, 0x3fc
	le := binary.LittleEndian
	le.PutUint16(b[0x3a:], le.Uint16(b[0x3a:])&^failed)
	if le.Uint32(b[0x64:])&checksums != 0 {
		le.PutUint32(b[checksumAt:], ^crc32.Checksum(b[:checksumAt], crc32.MakeTable(crc32.Castagnoli)))
	}
}
