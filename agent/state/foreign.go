package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/repart"
	"spore/blank"
	"spore/disk"
	"spore/gpt"
)

// Adopt makes a foreign state partition this node's: first the binding on it, then its PARTUUID. It can be cut off and
// called again.
func Adopt(o Options, d disk.Disk, partUUID string) error {
	want := PartUUID(o.ClusterID, o.Node)
	return withPartition(d, partUUID, func(f *os.File, p gpt.Partition) error {
		dir, err := os.MkdirTemp("", "spore-adopt-*")
		if err != nil {
			return err
		}
		defer os.Remove(dir)
		if err := unix.Mount(d.Partition(p.Number), dir, "ext4", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mount %s to adopt it: %w", d.Partition(p.Number), err)
		}
		err = WriteBinding(dir, Binding{Cluster: o.ClusterID, Node: o.Node, PartUUID: want.String()})
		if uerr := unix.Unmount(dir, 0); err == nil {
			err = uerr
		}
		if err != nil {
			return fmt.Errorf("adopt %s: %w", d.Partition(p.Number), err)
		}
		return editTable(f, d, p.Number, func(entry []byte) { copy(entry[16:32], want.OnDisk()) })
	})
}

// Reset deletes a foreign state partition (named by its PARTUUID), or marks a whole disk (named by its serial number) as
// this node's to use. What it leaves is made into state at the next boot.
func Reset(o Options, d disk.Disk, name string) error {
	if _, err := gpt.ParseGUID(name); err == nil {
		return withPartition(d, name, func(f *os.File, p gpt.Partition) error {
			return editTable(f, d, p.Number, func(entry []byte) { clear(entry) })
		})
	}
	if name != d.Serial() {
		return fmt.Errorf("the disk %s has the serial number %s, not %s; nothing was changed", d.Path(), d.Serial(), name)
	}
	if d.Name == o.BootDisk {
		return errors.New("this is the disk that the machine was booted from; nothing was changed")
	}
	return repart.OnDisk(d, func(w blank.Writer) error { return blank.Give(w, d.Size, made(PartUUID(o.ClusterID, o.Node))) })
}

// withPartition calls fn with a state partition that is not mounted.
func withPartition(d disk.Disk, partUUID string, fn func(*os.File, gpt.Partition) error) error {
	guid, err := gpt.ParseGUID(partUUID)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return fmt.Errorf("read the partition table of %s: %w", d.Path(), err)
	}
	p, ok := t.ByGUID(guid)
	if !ok || p.Type != typeVar {
		return fmt.Errorf("the disk %s has no state partition with the PARTUUID %s; nothing was changed", d.Path(), guid)
	}
	// A mounted partition cannot be opened exclusively.
	excl, err := os.OpenFile(d.Partition(p.Number), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("%s is in use: %w; nothing was changed", d.Partition(p.Number), err)
	}
	excl.Close()
	return fn(f, p)
}

// table is a writable view of a disk.
type table interface {
	ReadAt(b []byte, off int64) (int, error)
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
}

// editTable changes one entry in both copies of the partition table, the backup first and each synced, so that one of them
// is right whenever the power goes (UEFI specification 2.10, section 5.3.2).
func editTable(f table, d disk.Disk, number int, edit func(entry []byte)) error {
	sector := int64(d.SectorSize)
	primary := make([]byte, sector)
	if _, err := f.ReadAt(primary, sector); err != nil {
		return fmt.Errorf("read the partition table: %w", err)
	}
	if !bytes.HasPrefix(primary, []byte("EFI PART")) {
		return errors.New("the primary partition table is damaged; let systemd-repart put it right first")
	}
	backup := make([]byte, sector)
	backupAt := int64(binary.LittleEndian.Uint64(primary[32:])) * sector
	if _, err := f.ReadAt(backup, backupAt); err != nil || !bytes.HasPrefix(backup, []byte("EFI PART")) {
		return errors.New("the backup of the partition table is damaged; let systemd-repart put it right first")
	}
	for _, h := range []struct {
		header []byte
		at     int64
	}{{backup, backupAt}, {primary, sector}} {
		if err := editCopy(f, h.header, h.at, sector, number, edit); err != nil {
			return err
		}
	}
	return nil
}

// editCopy changes one copy: its entries, then its header with the checksums.
func editCopy(f table, header []byte, at, sector int64, number int, edit func([]byte)) error {
	le := binary.LittleEndian
	count, size := int(le.Uint32(header[80:])), int(le.Uint32(header[84:]))
	if count > 1024 || size < 128 || size > 4096 || number < 1 || number > count {
		return errors.New("the partition table is damaged")
	}
	entries := make([]byte, count*size)
	start := int64(le.Uint64(header[72:])) * sector
	if _, err := f.ReadAt(entries, start); err != nil {
		return fmt.Errorf("read the partition table: %w", err)
	}
	edit(entries[(number-1)*size : number*size])
	le.PutUint32(header[88:], crc32.ChecksumIEEE(entries))
	le.PutUint32(header[16:], 0)
	headerSize := min(int64(le.Uint32(header[12:])), sector)
	le.PutUint32(header[16:], crc32.ChecksumIEEE(header[:headerSize]))
	if err := blank.Write(f, entries, start); err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	if err := blank.Write(f, header, at); err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	return nil
}
