package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"spore/agent/stage1/gpt"
)

const mib = 1 << 20

// content says what makes a disk not empty; it is empty when it returns "". A disk counts as empty when its first and last
// MiB, where all tables and most file systems have their signatures, and 64 places between are all zero.
func content(dev io.ReaderAt, size int64) (string, error) {
	buf, zero := make([]byte, mib), make([]byte, mib)
	places := []struct{ start, length int64 }{{0, min(mib, size)}, {max(0, size-mib), min(mib, size)}}
	for i := int64(1); i <= 64; i++ {
		places = append(places, struct{ start, length int64 }{size / 65 * i / 4096 * 4096, min(64<<10, size)})
	}
	for _, p := range places {
		b := buf[:min(p.length, size-p.start)]
		if n, err := dev.ReadAt(b, p.start); n < len(b) {
			return "", fmt.Errorf("read %d bytes at %d: %w", len(b), p.start, err)
		}
		if !bytes.Equal(b, zero[:len(b)]) {
			if s := signature(dev); s != "" {
				return s, nil
			}
			return fmt.Sprintf("there is data at byte %d", p.start+int64(len(b)-len(bytes.TrimLeft(b, "\x00")))), nil
		}
	}
	return "", nil
}

// signatures are the commonest things that people have on disks, so that the message can name them. What is not listed is
// refused all the same.
var signatures = []struct {
	at    int64
	magic string
	what  string
}{
	{1024 + 0x38, "\x53\xef", "it holds an ext2, ext3 or ext4 file system"},
	{0, "XFSB", "it holds an XFS file system"},
	{65536 + 64, "_BHRfS_M", "it holds a Btrfs file system"},
	{0, "LUKS\xba\xbe", "it is encrypted with LUKS"},
	{512, "LABELONE", "it is an LVM physical volume"},
	{4096, "\xfc\x4e\x2b\xa9", "it is a member of a Linux RAID"},
	{0, "bluestore block device", "it is a Ceph OSD"},
	{0, "hsqs", "it holds a squashfs file system"},
	{32769, "CD001", "it holds an ISO 9660 file system"},
	{3, "NTFS    ", "it holds an NTFS file system"},
	{510, "\x55\xaa", "it has an MBR partition table or a FAT file system"},
}

func signature(dev io.ReaderAt) string {
	for _, s := range signatures {
		b := make([]byte, len(s.magic))
		if n, _ := dev.ReadAt(b, s.at); n == len(b) && string(b) == s.magic {
			return s.what
		}
	}
	return ""
}

// The marker says that a disk was proved empty and its state partition is being made, so that a power cut in the middle
// does not leave a disk that looks as if it held somebody's data. It lies before the first MiB, where no partition begins
// and neither the table nor its entries reach, and is gone once the partition is there.
const (
	markerAt   = mib - 4096
	markerSize = 4096
)

func marker(want gpt.GUID) []byte {
	b := make([]byte, markerSize)
	copy(b, "spore: the state partition "+want.String()+" is being made on this disk\n")
	return b
}

// markedFor tells whether the disk carries this node's marker.
func markedFor(dev io.ReaderAt, want gpt.GUID) (bool, error) {
	b := make([]byte, markerSize)
	if n, err := dev.ReadAt(b, markerAt); n < len(b) {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}
	return bytes.Equal(b, marker(want)), nil
}

// Writer is a disk that is open for writing.
type Writer interface {
	io.WriterAt
	Sync() error
}

func writeMarker(dev Writer, want gpt.GUID) error { return writeSynced(dev, marker(want), markerAt) }

func clearMarker(dev Writer) error { return writeSynced(dev, make([]byte, markerSize), markerAt) }

func writeSynced(dev Writer, b []byte, at int64) error {
	if _, err := dev.WriteAt(b, at); err != nil {
		return err
	}
	return dev.Sync()
}
