// Package blank tells whether a disk holds anything, and marks one that was proved empty while it is being made into
// something. Nothing is ever made on a disk that is neither.
//
// It proves by sampling: what lies between the places that it reads goes unseen, and a disk that was only zapped at its
// ends is found out by where partitions begin.
package blank

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const mib = 1 << 20

// Content says what makes a disk not empty; it is empty when it returns "". A disk counts as empty when its first 4 MiB and
// its last MiB, where all tables, the first partition and most file systems have their signatures, and 64 places between
// are all zero.
func Content(dev io.ReaderAt, size int64) (string, error) {
	buf, zero := make([]byte, 4*mib), make([]byte, 4*mib)
	places := []struct{ start, length int64 }{{0, min(4*mib, size)}, {max(0, size-mib), min(mib, size)}}
	for i := int64(1); i <= 64; i++ {
		places = append(places, struct{ start, length int64 }{size / 65 * i / 4096 * 4096, min(64<<10, size)})
	}
	for _, p := range places {
		b := buf[:min(p.length, size-p.start)]
		if n, err := dev.ReadAt(b, p.start); n < len(b) {
			return "", fmt.Errorf("read %d bytes at %d: %w", len(b), p.start, err)
		}
		if !bytes.Equal(b, zero[:len(b)]) {
			if s := Signature(dev); s != "" {
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

// Signature names what begins a disk or partition; "" when it is nothing that is known.
func Signature(dev io.ReaderAt) string {
	for _, s := range signatures {
		b := make([]byte, len(s.magic))
		if n, _ := dev.ReadAt(b, s.at); n == len(b) && string(b) == s.magic {
			return s.what
		}
	}
	return ""
}

// The marker says that a disk was proved empty and something is being made of it, so that a power cut in the middle does
// not leave a disk that looks as if it held somebody's data. It lies before the first MiB, where no partition begins and
// neither the table nor its entries reach, and is gone once what was made is whole.
const (
	MarkerAt   = mib - 4096
	MarkerSize = 4096
)

// Marker is the marker that says that what is being made, such as "the state partition PARTUUID".
func Marker(what string) []byte {
	b := make([]byte, MarkerSize)
	copy(b, "spore: "+what+" is being made on this disk\n")
	return b
}

// Marked tells whether the disk carries the marker.
func Marked(dev io.ReaderAt, what string) (bool, error) {
	b := make([]byte, MarkerSize)
	if n, err := dev.ReadAt(b, MarkerAt); n < len(b) {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}
	return bytes.Equal(b, Marker(what)), nil
}

// Writer is a disk that is open for writing.
type Writer interface {
	io.WriterAt
	Sync() error
}

// Mark writes the marker.
func Mark(dev Writer, what string) error { return Write(dev, Marker(what), MarkerAt) }

// Unmark takes it away.
func Unmark(dev Writer) error { return Write(dev, make([]byte, MarkerSize), MarkerAt) }

// Give marks a disk of size bytes, and then clears its ends: from the first write on it is free to be made into what the
// marker says, wherever this is cut off.
func Give(dev Writer, size int64, what string) error {
	if err := Mark(dev, what); err != nil {
		return err
	}
	if err := Write(dev, make([]byte, MarkerAt), 0); err != nil {
		return err
	}
	return Write(dev, make([]byte, mib), size-mib)
}

// Write writes and syncs.
func Write(dev Writer, b []byte, at int64) error {
	if _, err := dev.WriteAt(b, at); err != nil {
		return err
	}
	return dev.Sync()
}
