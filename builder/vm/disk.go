package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"golang.org/x/sys/unix"
)

// sectorSize is that of every image here, in bytes.
const sectorSize = 512

// Overlay makes a qcow2 disk of the given size in bytes whose content is the base image until it is written to; the base
// stays as it is.
func Overlay(ctx context.Context, base, path string, size int64) error {
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, path, fmt.Sprint(size)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make overlay of %s: %w: %s; run make deps if qemu-img is missing", base, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Blank makes an empty qcow2 disk of the given size in bytes.
func Blank(ctx context.Context, path string, size int64) error {
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", path, fmt.Sprint(size)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make a disk: %w: %s; run make deps if qemu-img is missing", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Copy copies an image and leaves its holes; the copy is at least size bytes long.
func Copy(src, dst string, size int64) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := out.Truncate(max(size, info.Size())); err != nil {
		return err
	}
	if err := copyData(in, out, info.Size()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", src, dst, err)
	}
	return out.Close()
}

// copyData copies what is not a hole (lseek(2), SEEK_DATA).
func copyData(in, out *os.File, size int64) error {
	for pos := int64(0); pos < size; {
		data, err := unix.Seek(int(in.Fd()), pos, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, hole-data)); err != nil {
			return err
		}
		pos = hole
	}
	return nil
}

// Partition is one entry of a GPT, in bytes.
type Partition struct {
	Name, Type, UUID string
	Start, Size      int64
}

// Partitions reads the partition table of a raw image.
func Partitions(path string) ([]Partition, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table, err := gpt.Read(f, sectorSize, sectorSize)
	if err != nil {
		return nil, fmt.Errorf("partition table of %s: %w", path, err)
	}
	var out []Partition
	for _, p := range table.Partitions {
		if p.Type == gpt.Unused {
			continue
		}
		out = append(out, Partition{
			Name: p.Name, Type: strings.ToLower(string(p.Type)), UUID: strings.ToLower(p.GUID),
			Start: int64(p.Start) * sectorSize, Size: int64(p.End-p.Start+1) * sectorSize,
		})
	}
	return out, nil
}

// FindPartition is the one partition of the image with the name.
func FindPartition(path, name string) (Partition, error) {
	parts, err := Partitions(path)
	if err != nil {
		return Partition{}, err
	}
	var found []Partition
	for _, p := range parts {
		if p.Name == name {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return Partition{}, fmt.Errorf("%s has %d partitions named %s", path, len(found), name)
	}
	return found[0], nil
}

// Flip inverts every bit of one byte.
func Flip(path string, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		return fmt.Errorf("flip byte %d of %s: %w", offset, path, err)
	}
	b[0] = ^b[0]
	if _, err := f.WriteAt(b[:], offset); err != nil {
		return fmt.Errorf("flip byte %d of %s: %w", offset, path, err)
	}
	return f.Close()
}

// HashRange is the SHA-256 of a range of a file, in hexadecimal.
func HashRange(path string, offset, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, offset, size))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("%s ends %d bytes early", path, size-n)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
