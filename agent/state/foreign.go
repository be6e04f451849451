package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"golang.org/x/sys/unix"

	"spore/agent/luks"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Adopt makes a foreign state partition this node's: first the binding on it, then its PARTUUID. It can be cut off and
// called again.
func Adopt(o Options, d disk.Disk, partUUID string) error {
	want := PartUUID(o.ClusterID, o.Node)
	return withPartition(d, partUUID, func(f *os.File, p gpt.Partition) error {
		if _, err := encryption(d.Partition(p.Number)); !errors.Is(err, luks.ErrNone) {
			return fmt.Errorf("%s is encrypted, and belongs to the node whose keys open it; nothing was changed", d.Partition(p.Number))
		}
		if o.Lock.Wanted() {
			return fmt.Errorf("%s is not encrypted, and the configuration asks for encrypted state: it would be refused at the next boot; nothing was changed", d.Partition(p.Number))
		}
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

// Reset gives up what state is on a disk: of the disk that the machine was booted from, every state partition, whosever
// it is; all of the disk that the node names for state. What it leaves is made into state at the next boot. A disk that
// is in use is refused, unless force is set: then the machine must be restarted at once. Wherever it is cut off, the
// state is as it was, or the next boot ends what was begun (finishReset).
func Reset(o Options, d disk.Disk, force bool) error {
	if d.Name == o.BootDisk {
		return resetPartitions(d, force)
	}
	disks, err := o.List()
	if err != nil {
		return err
	}
	if o.Named == nil {
		return fmt.Errorf("the file of node %s names no disk for state, and the machine was not booted from %s; nothing was changed", o.Node, d.Path())
	}
	if named, err := disk.Select(disks, *o.Named); err != nil || named.Name != d.Name {
		return fmt.Errorf("the file of node %s does not name %s (serial %s) for state; nothing was changed", o.Node, d.Path(), d.Serial())
	}
	f, err := os.OpenFile(d.Path(), os.O_RDWR|exclusive(force), 0)
	if err != nil {
		return inUse(d.Path(), err)
	}
	defer f.Close()
	return giveUpDisk(f, d, PartUUID(o.ClusterID, o.Node))
}

// resetPartitions deletes the state partitions of a disk and leaves what else it has.
func resetPartitions(d disk.Disk, force bool) error {
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return fmt.Errorf("read the partition table of %s: %w", d.Path(), err)
	}
	var state []gpt.Partition
	for _, p := range t.Partitions {
		if p.Type != typeVar {
			continue
		}
		// A partition that is mounted, or opened as an encrypted one, cannot be opened exclusively.
		excl, err := os.OpenFile(d.Partition(p.Number), os.O_RDONLY|exclusive(force), 0)
		if err != nil {
			return inUse(d.Partition(p.Number), err)
		}
		excl.Close()
		state = append(state, p)
	}
	if len(state) == 0 {
		return fmt.Errorf("the disk %s (serial %s) has no state partition; nothing was changed", d.Path(), d.Serial())
	}
	return giveUpPartitions(f, d, state)
}

func exclusive(force bool) int {
	if force {
		return 0
	}
	return unix.O_EXCL
}

func inUse(path string, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%s is in use; nothing was changed. With --restart it is deleted all the same, and the machine restarted at once", path)
	}
	return fmt.Errorf("%w; nothing was changed", err)
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

// editTable changes one entry in both copies of the partition table, the backup first and each synced, so that one of
// them is right whenever the power goes (UEFI specification 2.10, section 5.3.2).
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
