package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"spore/agent/luks"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// givenUp is the attribute of a state partition whose reset has begun: a bit that is the partition type's own (UEFI
// specification 2.10, table 5-8), of which systemd uses only the last five.
const givenUp = 1 << 48

// attributesAt is where an entry of the table has its attributes (UEFI specification 2.10, table 5-6).
const attributesAt = 48

// giveUpPartitions deletes state partitions in three steps: it marks them, overwrites their key slots, and takes them
// out of the table. What is cut off before a mark is there has changed nothing; from then on finishReset goes on.
func giveUpPartitions(f table, d disk.Disk, state []gpt.Partition) error {
	for _, p := range state {
		mark := func(entry []byte) {
			at := entry[attributesAt:]
			binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)|givenUp)
		}
		if err := editTable(f, d, p.Number, mark); err != nil {
			return err
		}
	}
	if err := luks.DestroyAll(f, state); err != nil {
		return err
	}
	for _, p := range state {
		if err := editTable(f, d, p.Number, func(entry []byte) { clear(entry) }); err != nil {
			return err
		}
	}
	return nil
}

// giveUpDisk gives all of a disk to new state. The marker comes first, so that what is cut off goes on (shred): but for
// a LUKS volume that is the whole disk, which is never ours, and whose key slots lie where the marker does.
func giveUpDisk(f table, d disk.Disk, want gpt.GUID) error {
	if err := blank.Mark(f, made(want)); err != nil {
		return err
	}
	if err := luks.DestroyDisk(f, d.Size, d.SectorSize); err != nil {
		return err
	}
	return blank.Give(f, d.Size, made(want))
}

// finishReset ends a reset of state partitions of the boot disk that was cut off.
func finishReset(f table, d disk.Disk) (found bool, err error) {
	t, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return false, nil // Who looks for state there says so.
	}
	var state []gpt.Partition
	for _, p := range t.Partitions {
		if p.Type == typeVar && p.Attributes&givenUp != 0 {
			state = append(state, p)
		}
	}
	if len(state) == 0 {
		return false, nil
	}
	return true, giveUpPartitions(f, d, state)
}

// endReset opens the boot disk and ends a reset on it that was cut off.
func (o Options) endReset(disks []disk.Disk) error {
	for _, d := range disks {
		if d.Name != o.BootDisk || d.Optical || d.ReadOnly {
			continue
		}
		f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
		if err != nil {
			return nil // Choose says it.
		}
		found, err := finishReset(f, d)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("end the reset of the state on %s (serial %s): %w", d.Path(), d.Serial(), err)
		}
		if found {
			o.Say(fmt.Sprintf("ended a reset of the state on %s (serial %s) that had been cut off", d.Path(), d.Serial()))
		}
	}
	return nil
}

// shred overwrites what key slots are left on a disk that is made into state from scratch: a reset may have been cut
// off.
func shred(d disk.Disk) error {
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(luks.DestroyDisk(f, d.Size, d.SectorSize), f.Close())
}
