package state

import (
	"errors"
	"fmt"
	"io"

	"spore/agent/repart"
	"spore/cluster/spec"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// Request says whose state is looked for, and where.
type Request struct {
	// Want is the PARTUUID of this node's state partition.
	Want gpt.GUID
	// Owner is this node, for messages: node NAME of cluster NAME. Node is its name alone.
	Owner, Node string
	// Named is the node's disk for state; nil when it names none.
	Named *spec.DiskSelector
	// BootDisk is the name of the disk that the machine was booted from, such as sda; empty when it has none.
	BootDisk string
	Disks    []disk.Disk
	// Open opens a disk for reading.
	Open func(disk.Disk) (Device, error)
}

// Device is an open disk.
type Device interface {
	io.ReaderAt
	io.Closer
}

// Plan says what is to be done. Nothing has been written yet.
type Plan struct {
	Disk disk.Disk
	// Found is this node's state partition, when it is there already.
	Found bool
	// FromScratch says that the disk is proved empty, or was when we began, and gets a table of its own.
	FromScratch bool
	// Repart says that systemd-repart has something to do.
	Repart bool
	// Definitions are the files for systemd-repart, by name.
	Definitions map[string]string
	// Warning says what does not fit.
	Warning string
}

// Choose decides where the state is or will be. A Refusal means that something is in the way that was not made for this
// node; any other error that there is no place.
func Choose(r Request) (Plan, error) {
	if r.Named != nil {
		d, err := disk.Select(r.Disks, *r.Named)
		if err != nil {
			return Plan{}, refuse("the disk for state: %v", err)
		}
		if d.Name != r.BootDisk {
			return chooseData(r, d)
		}
	}
	for _, d := range r.Disks {
		if d.Name == r.BootDisk {
			return chooseBoot(r, d)
		}
	}
	return Plan{}, errors.New("this node names no disk for state, and it was not booted from a disk")
}

// chooseBoot looks on the boot disk: beside the image's own partitions there may only be state of this node, or free
// space.
func chooseBoot(r Request, d disk.Disk) (Plan, error) {
	if d.Optical {
		return Plan{}, fmt.Errorf("the machine was booted from the disc in %s, which can keep nothing: give the node a disk for state", d.Path())
	}
	dev, err := r.Open(d)
	if err != nil {
		return Plan{}, refuse("the boot disk %s cannot be read: %v", d.Path(), err)
	}
	defer dev.Close()
	table, err := gpt.Read(dev, d.Size, d.SectorSize)
	if err != nil {
		return Plan{}, fmt.Errorf("the boot disk %s (serial %s) has no partition table that could take state: %w", d.Path(), d.Serial(), err)
	}
	_, found := table.ByGUID(r.Want)
	if !found {
		if err := foreignState(r, d, table); err != nil {
			return Plan{}, err
		}
	}
	if d.ReadOnly {
		return Plan{}, fmt.Errorf("the boot disk %s (serial %s) is read-only", d.Path(), d.Serial())
	}
	p := Plan{Disk: d, Found: found}
	free := repart.Gaps(table, d.Size)
	slots := missingSlots(table)
	p.Warning = fit(&slots, free, found)
	if !found && repart.Largest(free) < MinSize {
		return Plan{}, fmt.Errorf("the boot disk %s (serial %s) has no free space of %d MiB for state", d.Path(), d.Serial(), MinSize>>20)
	}
	p.Repart = !found || len(slots) > 0 || repart.Grows(table, r.Want, d.Size)
	p.Definitions = definitions(table, r.Want, slots)
	return p, nil
}

// chooseData looks on a disk that the node names: there may be nothing at all, or state of this node.
func chooseData(r Request, d disk.Disk) (Plan, error) {
	if d.Optical {
		return Plan{}, refuse("the disk for state %s (serial %s) is a drive for discs", d.Path(), d.Serial())
	}
	dev, err := r.Open(d)
	if err != nil {
		return Plan{}, refuse("the disk for state %s (serial %s) cannot be read: %v", d.Path(), d.Serial(), err)
	}
	defer dev.Close()
	p := Plan{Disk: d, Repart: true}
	begun, err := blank.Marked(dev, made(r.Want))
	if err != nil {
		return Plan{}, refuse("the disk for state %s (serial %s) cannot be read: %v", d.Path(), d.Serial(), err)
	}
	if begun {
		// An earlier boot proved the disk empty and was cut off while the partition was made; it was never mounted.
		p.FromScratch = true
		p.Definitions = definitions(gpt.Table{}, r.Want, nil)
		return p, writable(d)
	}
	table, err := gpt.Read(dev, d.Size, d.SectorSize)
	switch {
	case err == nil:
		_, p.Found = table.ByGUID(r.Want)
		if !p.Found {
			if err := foreignState(r, d, table); err != nil {
				return Plan{}, err
			}
			return Plan{}, refuse("the disk for state %s (serial %s) has a partition table with %d partitions that are not state of %s; nothing was changed. %s",
				d.Path(), d.Serial(), len(table.Partitions), r.Owner, resetDisk(r.Node, d))
		}
		p.Repart = repart.Grows(table, r.Want, d.Size)
		p.Definitions = definitions(table, r.Want, nil)
		return p, writable(d)
	case !errors.Is(err, gpt.ErrNone):
		return Plan{}, refuse("the disk for state %s (serial %s): %v; nothing was changed. %s", d.Path(), d.Serial(), err, resetDisk(r.Node, d))
	}
	what, err := blank.Content(dev, d.Size)
	if err != nil {
		return Plan{}, refuse("the disk for state %s (serial %s) cannot be read: %v", d.Path(), d.Serial(), err)
	}
	if what != "" {
		return Plan{}, refuse("the disk for state %s (serial %s) is not empty: %s; nothing was changed. %s", d.Path(), d.Serial(), what, resetDisk(r.Node, d))
	}
	if d.Size < MinSize+4<<20 {
		return Plan{}, refuse("the disk for state %s (serial %s) has only %d MiB", d.Path(), d.Serial(), d.Size>>20)
	}
	p.FromScratch = true
	p.Definitions = definitions(table, r.Want, nil)
	return p, writable(d)
}

func writable(d disk.Disk) error {
	if d.ReadOnly {
		return refuse("the disk for state %s (serial %s) is read-only", d.Path(), d.Serial())
	}
	return nil
}

// foreignState refuses a disk with state that is not this node's.
func foreignState(r Request, d disk.Disk, t gpt.Table) error {
	for _, p := range t.Partitions {
		if p.Type == typeVar {
			return refuse("the disk %s (serial %s) has state of another cluster or node: partition %d has the PARTUUID %s, and %s has %s; it was not changed. "+
				"To use what is on it: spore adopt %s --partition %s. To delete it: %s",
				d.Path(), d.Serial(), p.Number, p.GUID, r.Owner, r.Want, r.Node, p.GUID, resetCommand(r.Node, d))
		}
	}
	return nil
}

func resetDisk(node string, d disk.Disk) string {
	return "To delete everything on it and use it: " + resetCommand(node, d)
}

// resetCommand is what a person types to give the disk up.
func resetCommand(node string, d disk.Disk) string {
	return fmt.Sprintf("spore reset %s --disk %s", node, d.Named())
}
