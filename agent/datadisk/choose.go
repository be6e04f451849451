package datadisk

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"spore/agent/repart"
	"spore/cluster/spec"
	"spore/storage/blank"
	"spore/storage/disk"
	"spore/storage/gpt"
)

// device is an open disk.
type device interface {
	io.ReaderAt
	io.Closer
}

// request says which disk is looked at.
type request struct {
	use       use
	number    int
	clusterID string
	// owner is the cluster in messages, and node the node's name.
	owner    string
	node     string
	want     spec.Disk
	bootDisk string
	disks    []disk.Disk
	open     func(disk.Disk) (device, error)
}

// plan says what is to be done with it. Nothing has been written yet.
type plan struct {
	disk disk.Disk
	want gpt.GUID
	// fromScratch says that the disk is proved empty, or was when we began; it has our partition otherwise.
	fromScratch bool
	// repart says that systemd-repart has something to do, with the definitions.
	repart      bool
	definitions map[string]string
}

// made is what the marker says.
func (u use) made(want gpt.GUID) string { return "the " + u.what + " " + want.String() }

// choose decides what is done with a disk.
func choose(r request) (plan, error) {
	title := r.use.title(r.number)
	d, err := disk.Select(r.disks, r.want.Selector)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", title, err)
	}
	at := fmt.Sprintf("%s: the disk %s (serial %s)", title, d.Path(), d.Serial())
	p := plan{disk: d}
	ours := PartUUIDs(r.clusterID, r.use.name, d)
	switch {
	case d.Name == r.bootDisk:
		return p, fmt.Errorf("%s is the one that the machine was booted from; select another", at)
	case len(ours) == 0:
		return p, fmt.Errorf("%s reports neither serial number nor WWN, so it could not be known again", at)
	case d.ReadOnly:
		return p, fmt.Errorf("%s is read-only", at)
	}
	dev, err := r.open(d)
	if err != nil {
		return p, fmt.Errorf("%s cannot be read: %w", at, err)
	}
	defer dev.Close()
	for _, p.want = range ours {
		begun, err := blank.Marked(dev, r.use.made(p.want))
		if err != nil {
			return p, fmt.Errorf("%s cannot be read: %w", at, err)
		}
		if begun {
			// An earlier run proved the disk empty and was cut off while the partition was made; it was never used.
			return p.whole(r), nil
		}
	}
	table, err := gpt.Read(dev, d.Size, d.SectorSize)
	switch {
	case err == nil:
		return p.found(r, at, table, ours)
	case !errors.Is(err, gpt.ErrNone):
		return p, fmt.Errorf("%s: %w; nothing was changed. %s", at, err, resetHint(r.node, d))
	}
	what, err := blank.Content(dev, d.Size)
	switch {
	case err != nil:
		return p, fmt.Errorf("%s cannot be read: %w", at, err)
	case what != "":
		return p, fmt.Errorf("%s is not empty: %s; nothing was changed. %s", at, what, resetHint(r.node, d))
	case d.Size < r.use.minimum+4<<20:
		return p, fmt.Errorf("%s has only %d MiB, and %d are the least", at, d.Size>>20, r.use.minimum>>20+4)
	}
	p.want = ours[0]
	return p.whole(r), nil
}

// whole makes one partition of the whole disk.
func (p plan) whole(r request) plan {
	p.fromScratch, p.repart = true, true
	p.definitions = r.definition(p.want, r.use.minimum)
	return p
}

// found looks for our partition in a table that there is.
func (p plan) found(r request, at string, table gpt.Table, ours []gpt.GUID) (plan, error) {
	for _, part := range table.Partitions {
		if !slices.Contains(ours, part.GUID) {
			continue
		}
		if kind := r.use.kind(r.want.Encrypt); part.Type != kind {
			if part.Type == typeOSD || part.Type == typeLUKSOSD {
				return p, fmt.Errorf("%s was made with encrypt: %t, and the node's file says encrypt: %t; nothing was changed. Write back what it was, or have Ceph move its data away first (docs/disks.md)",
					at, part.Type == typeLUKSOSD, r.want.Encrypt)
			}
			return p, fmt.Errorf("%s: partition %d is ours, but its type is %s and not %s; nothing was changed. %s", at, part.Number, part.Type, kind, resetHint(r.node, p.disk))
		}
		if len(table.Partitions) > 1 {
			return p, fmt.Errorf("%s has %d partitions beside ours; nothing was changed. Remove them, or choose another disk", at, len(table.Partitions)-1)
		}
		p.want = part.GUID
		// BlueStore does not grow by itself, a file system does.
		if p.repart = !r.use.bare && repart.Grows(table, part.GUID, p.disk.Size); p.repart {
			p.definitions = r.definition(part.GUID, part.Size)
		}
		return p, nil
	}
	return p, fmt.Errorf("%s has a partition table with %d partitions, and none was made for it by %s; nothing was changed. %s",
		at, len(table.Partitions), r.owner, resetHint(r.node, p.disk))
}

// definition is the partition as systemd-repart makes it.
func (r request) definition(want gpt.GUID, minimum int64) map[string]string {
	lines := []string{"Type=" + r.use.kind(r.want.Encrypt).String(), "Label=" + r.use.label, "UUID=" + want.String(), fmt.Sprintf("SizeMinBytes=%d", minimum)}
	if !r.use.bare {
		lines = append(lines, "Format=ext4")
	}
	return map[string]string{"10-data.conf": repart.Partition(lines...)}
}

func resetHint(node string, d disk.Disk) string {
	return fmt.Sprintf("To delete everything on it and use it: spore reset %s --disk %s", node, d.Named())
}
