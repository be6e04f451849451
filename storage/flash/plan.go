package flash

import (
	"errors"
	"fmt"
	"slices"

	"spore/storage/gpt"
)

// head is what lies in front of all partitions: boot code, the first partition table, the volume descriptors of an ISO image.
// All of it is written last.
const head = 64 << 10

// ErrState is in the error for a device with a state partition that is in the way.
var ErrState = errors.New("state that would be lost")

// target is what is done to a device.
type target struct {
	// without is the table that keeps the state alone, final the one with the layout.
	without, final gpt.Encoded
	kept           []gpt.Partition
	content        int64
	layout         Layout
	// done says that the device has the final partitions already, so that its table need not be written.
	done bool
}

// plan looks at a device. It writes nothing.
func plan(dev Device, o Options) (target, error) {
	l, size, sector := o.Layout, dev.Size(), dev.SectorSize()
	if l.SectorSize != 0 && l.SectorSize != sector {
		return target{}, fmt.Errorf("the disk has sectors of %d bytes, and the image is made for %d", sector, l.SectorSize)
	}
	end, content := int64(0), int64(0)
	for i, e := range l.Extents {
		if e.At < gpt.Reserved(sector) || e.At < end || e.Size <= 0 {
			return target{}, fmt.Errorf("internal error: extent %d: %d bytes at %d", i, e.Size, e.At)
		}
		end, content = e.At+e.Size, content+e.Size
	}
	for _, p := range l.Table.Partitions {
		end = max(end, p.Start+p.Size)
	}
	if need := end + gpt.Reserved(sector); need > size {
		return target{}, fmt.Errorf("it has %s, and the image needs %s: use a larger one", mib(size), mib(need))
	}
	old, err := gpt.Read(dev, size, sector)
	if err != nil && !errors.Is(err, gpt.ErrNone) && !o.EraseState {
		return target{}, fmt.Errorf("%w: its partition table is damaged (%w), so its state cannot be kept. To erase it: --erase-state with the serial number of the disk", ErrState, err)
	}
	t := target{layout: l, content: content, kept: keep(old, l, o.EraseState)}
	if err := t.fits(size, sector, end); err != nil {
		return target{}, err
	}
	disk := l.Table.Disk
	without := gpt.Table{Disk: disk, Partitions: t.kept}
	if t.without, err = without.Encode(size, sector); err != nil {
		return target{}, fmt.Errorf("%w: %w. To give it up: --erase-state with the serial number of the disk", ErrState, err)
	}
	final := gpt.Table{Disk: disk, Partitions: slices.Concat(l.Table.Partitions, t.kept)}
	if t.final, err = final.Encode(size, sector); err != nil {
		return target{}, fmt.Errorf("the new partition table: %w", err)
	}
	if l.MBR != nil {
		t.final.MBR = l.MBR
	}
	t.done = err == nil && t.complete(dev, old)
	return t, nil
}

// keep lists the state partitions, with numbers that the layout does not use.
func keep(old gpt.Table, l Layout, erase bool) []gpt.Partition {
	if erase {
		return nil
	}
	used := map[int]bool{}
	for _, p := range l.Table.Partitions {
		used[p.Number] = true
	}
	var out []gpt.Partition
	for _, p := range old.Partitions {
		if p.Type != typeState {
			continue
		}
		for used[p.Number] {
			p.Number = p.Number%128 + 1
		}
		used[p.Number] = true
		out = append(out, p)
	}
	return out
}

// fits refuses to write over what is kept.
func (t target) fits(size int64, sector int, end int64) error {
	tail := size - gpt.Reserved(sector) + int64(sector)
	for _, p := range t.kept {
		if p.Start >= max(end, head) && p.Start+p.Size <= tail {
			continue
		}
		return fmt.Errorf("%w: partition %d, the state %q of %s, begins at %s, and the new system reaches to %s: "+
			"build with smaller slots (image.yaml), or use another disk. To give the state up: --erase-state with the serial number of the disk",
			ErrState, p.Number, p.GUID, mib(p.Size), mib(p.Start), mib(end))
	}
	return nil
}

// complete tells whether the device has a sound table with all partitions of the layout, beside what was made on the machine
// and is to be kept: then the table is left alone as long as the content is.
func (t target) complete(dev Device, old gpt.Table) bool {
	if old.Backup || old.Disk != t.layout.Table.Disk {
		return false
	}
	for _, want := range t.layout.Table.Partitions {
		if p, ok := old.ByGUID(want.GUID); !ok || p != want {
			return false
		}
	}
	for _, p := range old.Partitions {
		if p.Type == typeState && !slices.ContainsFunc(t.kept, func(k gpt.Partition) bool { return k.GUID == p.GUID }) {
			return false // It is given up.
		}
	}
	mbr := make([]byte, len(t.final.MBR))
	if _, err := dev.ReadAt(mbr, 0); err != nil {
		return false
	}
	return slices.Equal(mbr, t.final.MBR)
}
