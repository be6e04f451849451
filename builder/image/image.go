// Package image makes the disk image: a GPT (UEFI 2.10, section 5.3) with the EFI system partition and one slot each of
// root, its hash tree and the cluster part; and the hybrid ISO, which has the same partitions (hybrid.go). It also takes
// such an image apart again.
//
// The file is sparse and ends with the backup GPT right after the last slot, so that it fits small media; the second
// slots and the state partition are made on the machine. The work is that of copying the content: only the partition
// table and the ESP come from memory.
//
// It leaves out network boot. Of the two, the ISO alone boots without UEFI.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"spore/storage/atomicfile"
	"spore/storage/fat"
)

// Options say what goes into an image.
type Options struct {
	// Root, Verity and Cluster are the content of the partitions: the root's squashfs, its hash tree, and the cluster
	// part, which holds its own hash tree.
	Root, Verity, Cluster Source
	// RootHash and ClusterHash are the root hashes of the hash trees: 64 hexadecimal digits. The partitions' UUIDs
	// derive from them.
	RootHash, ClusterHash string
	// UKI is the unified kernel image, SystemdBoot the boot loader (systemd-bootx64.efi).
	UKI, SystemdBoot []byte
	// UKISum is the SHA-256 of UKI, where the caller knows it already; the zero value has it computed.
	UKISum [sha256.Size]byte
	// Enroll has the boot loader enrol keys for Secure Boot; nil leaves the firmware's alone.
	Enroll *Enrolment
	// Node is this medium's choice of a node, or empty.
	Node string
	// Files are further files of the ESP by their path, such as those that Own found on another medium.
	Files map[string][]byte
	// Slots are the sizes of the partitions.
	Slots Slots
	// Time is the date of the files on the ESP. The zero time is FAT's first, 1980.
	Time time.Time
}

// Result tells what was written.
type Result struct {
	// Size is the length of the file in bytes; most of it are holes.
	Size       int64       `json:"size"`
	Partitions []Partition `json:"partitions"`
	// UKIPath is the place of the UKI on the ESP.
	UKIPath string `json:"ukiPath"`
}

// Write makes the image at a path. The file appears there whole or not at all; it is not flushed to the disk, since
// losing it costs a rebuild.
func Write(ctx context.Context, name string, o Options) (*Result, error) {
	res, err := write(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("make image %s: %w", name, err)
	}
	return res, nil
}

func write(ctx context.Context, name string, o Options) (*Result, error) {
	slots, err := o.Slots.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkHash("root", o.RootHash), checkHash("cluster", o.ClusterHash), o.checkESP(int64(slots.ESP)*mib)); err != nil {
		return nil, err
	}
	parts, size := layOut(slots, o.RootHash, o.ClusterHash)
	esp, err := makeESP(parts[0], o.espFiles(), o.Time)
	if err != nil {
		return nil, fmt.Errorf("ESP: %w", err)
	}
	disk := newSparse(size)
	if err := writeTable(disk, parts, derivedUUID("spore disk", o.RootHash, o.ClusterHash)); err != nil {
		return nil, fmt.Errorf("partition table: %w", err)
	}
	err = create(name, disk, func(f *os.File) error { return o.fillPartitions(ctx, f, parts, esp) })
	if err != nil {
		return nil, err
	}
	return &Result{Size: size, Partitions: parts, UKIPath: o.path()}, nil
}

// create makes a file of what a disk in memory holds and of what fill adds; it appears whole or not at all.
func create(name string, disk *sparse, fill func(*os.File) error) error {
	return atomicfile.Fill(name, 0o644, atomicfile.Unsynced, func(f *os.File) error {
		if err := f.Truncate(disk.size); err != nil {
			return err
		}
		if err := disk.writeTo(f); err != nil {
			return err
		}
		return fill(f)
	})
}

// fillPartitions writes the ESP, and copies the content of root, verity and cluster into their partitions, which come after it.
func (o *Options) fillPartitions(ctx context.Context, f *os.File, parts []Partition, esp *fat.Image) error {
	if err := esp.WriteAll(f, parts[0].Offset); err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	for i, src := range []Source{o.Root, o.Verity, o.Cluster} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fill(ctx, f, parts[1+i], src); err != nil {
			return err
		}
	}
	return nil
}

// fill copies content into a partition.
func fill(ctx context.Context, dst *os.File, p Partition, src Source) error {
	f, size, err := src.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if size > p.Size {
		key := strings.TrimSuffix(p.Name, "-a")
		return fmt.Errorf("%s has %d MiB and its slot %d MiB: raise slots.%s in image.yaml to %d or more, or leave out packages",
			key, (size+mib-1)/mib, p.Size/mib, key, (size+mib-1)/mib)
	}
	if size == 0 {
		return fmt.Errorf("internal error: %s, the content of %s, is empty", src.Path, p.Name)
	}
	if err := copyRange(ctx, dst, p.Offset, f, src.Offset, size); err != nil {
		return fmt.Errorf("copy %s into %s: %w", src.Path, p.Name, err)
	}
	return nil
}

// writeTable writes both copies of the GPT and the protective MBR.
func writeTable(disk *sparse, parts []Partition, id string) error {
	table := &gpt.Table{GUID: id, ProtectiveMBR: true, LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize}
	for _, p := range parts {
		table.Partitions = append(table.Partitions, &gpt.Partition{
			Index: p.Number, Name: p.Name, Type: gpt.Type(strings.ToUpper(p.Type)), GUID: p.UUID, Attributes: p.Attributes,
			Start: uint64(p.Offset / sectorSize), End: uint64((p.Offset+p.Size)/sectorSize) - 1, Size: uint64(p.Size),
		})
	}
	if err := table.Write(disk, disk.size); err != nil {
		return err
	}
	// go-diskfs leaves the cylinders, heads and sectors of the protective entry at zero; UEFI 2.10, table 5.4, wants the
	// first sector as 0,0,2 and an end that says "too large".
	const entry = 446
	if _, err := disk.WriteAt([]byte{0x00, 0x00, 0x02, 0x00}, entry); err != nil {
		return err
	}
	if _, err := disk.WriteAt([]byte{0xff, 0xff, 0xff}, entry+5); err != nil {
		return err
	}
	// The length of a disk of 2 TiB or more does not fit and is written as all ones.
	length := uint32(min(disk.size/sectorSize-1, 0xffffffff))
	_, err := disk.WriteAt(binary.LittleEndian.AppendUint32(nil, length), entry+12)
	return err
}
