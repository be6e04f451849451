package slot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"spore/storage/gpt"
)

// Disk is the disk with the partition table.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Size() int64
	SectorSize() int
}

// setGUIDs gives partitions other GUIDs, by their numbers. The backup of the table is written and flushed before the
// primary, so that one of the two is sound at any time; both name the same partitions in the same places, before and
// after. All else in the table stays as it is, as other tools made it.
func setGUIDs(d Disk, guids map[int]gpt.GUID) error {
	t, err := gpt.Read(d, d.Size(), d.SectorSize())
	if err != nil {
		return err
	}
	if t.Backup {
		return repair(d, t, guids)
	}
	header, entries, err := primary(d)
	if err != nil {
		return err
	}
	le, sector := binary.LittleEndian, int64(d.SectorSize())
	for number, guid := range guids {
		copy(entries[int64(number-1)*int64(le.Uint32(header[84:]))+16:], guid.OnDisk())
	}
	backup := int64(le.Uint64(header[32:]))
	array := backup - (int64(len(entries))+sector-1)/sector
	if array <= int64(le.Uint64(header[48:])) || (backup+1)*sector > d.Size() {
		return fmt.Errorf("the partition table has no room for its backup in front of sector %d", backup)
	}
	for _, c := range []struct{ own, other, array int64 }{{backup, 1, array}, {1, backup, int64(le.Uint64(header[72:]))}} {
		le.PutUint64(header[24:], uint64(c.own))
		le.PutUint64(header[32:], uint64(c.other))
		le.PutUint64(header[72:], uint64(c.array))
		if err := writeCopy(d, header, entries, c.own*sector, c.array*sector); err != nil {
			return fmt.Errorf("write the partition table: %w", err)
		}
	}
	return nil
}

// primary reads the first copy, which is known to be sound.
func primary(d Disk) (header, entries []byte, err error) {
	header = make([]byte, d.SectorSize())
	if _, err := d.ReadAt(header, int64(d.SectorSize())); err != nil {
		return nil, nil, fmt.Errorf("read the partition table: %w", err)
	}
	le := binary.LittleEndian
	entries = make([]byte, int64(le.Uint32(header[80:]))*int64(le.Uint32(header[84:])))
	if _, err := d.ReadAt(entries, int64(le.Uint64(header[72:]))*int64(d.SectorSize())); err != nil {
		return nil, nil, fmt.Errorf("read the partition table: %w", err)
	}
	return header, entries, nil
}

func writeCopy(d Disk, header, entries []byte, at, array int64) error {
	le := binary.LittleEndian
	le.PutUint32(header[88:], crc32.ChecksumIEEE(entries))
	le.PutUint32(header[16:], 0)
	le.PutUint32(header[16:], crc32.ChecksumIEEE(header[:le.Uint32(header[12:])]))
	if _, err := d.WriteAt(entries, array); err != nil {
		return err
	}
	if _, err := d.WriteAt(header, at); err != nil {
		return err
	}
	return d.Sync()
}

// repair writes the table anew where a cut left only its backup: the primary first, since the backup is what is sound.
func repair(d Disk, t gpt.Table, guids map[int]gpt.GUID) error {
	for i := range t.Partitions {
		if guid, ok := guids[t.Partitions[i].Number]; ok {
			t.Partitions[i].GUID = guid
		}
	}
	e, err := t.Encode(d.Size(), d.SectorSize())
	if err != nil {
		return fmt.Errorf("repair the partition table: %w", err)
	}
	for _, c := range []struct {
		at   int64
		data []byte
	}{{int64(d.SectorSize()), e.Primary}, {e.BackupAt, e.Backup}} {
		if _, err := d.WriteAt(c.data, c.at); err != nil {
			return fmt.Errorf("repair the partition table: %w", err)
		}
		if err := d.Sync(); err != nil {
			return fmt.Errorf("repair the partition table: %w", err)
		}
	}
	return nil
}
