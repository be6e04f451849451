package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/blockdev"
	"spore/agent/bootdisk"
	"spore/agent/dm"
	"spore/storage/gpt"
)

// A hybrid ISO carries its partition table in the system area of the disc, in sectors of 512 bytes; the disc has those of
// 2048, and the kernel makes no partitions of it. So stage1 reads the table itself and maps the three partitions that it
// needs.

const (
	// isoSector is the size of a sector in the table of a hybrid ISO, in bytes.
	isoSector = 512
	// discSector is the alignment that a mapping on a disc needs, in bytes.
	discSector = 2048
	// discPoll is how often an empty drive is looked at again: the kernel sends no event when a disc has become ready.
	discPoll = time.Second
)

// lookAtDiscs reads the tables of what is in the drives. A drive is asked only where no disk was booted for certain: a disc
// may have to spin up, and an empty drive of a machine that boots from its disk must not cost anything.
func (b *boot) lookAtDiscs(drives []blockdev.Disk) {
	b.discPending = false
	for _, d := range drives {
		s := bootdisk.Seen{Disk: d, Verdict: b.firmware.Path.Match(b.sys, d)}
		var err error
		if s.Disk.Size, s.Table, err = readDisc("/dev/" + d.Name); err != nil {
			s.Problem = err.Error()
			b.discPending = b.discPending || !errors.Is(err, gpt.ErrNone)
		}
		b.seen = append(b.seen, s)
	}
}

// readDisc reads the table of the disc in a drive, and the disc's size.
func readDisc(node string) (int64, gpt.Table, error) {
	f, err := os.Open(node)
	if errors.Is(err, unix.ENOMEDIUM) {
		return 0, gpt.Table{}, errors.New("no disc")
	}
	if err != nil {
		return 0, gpt.Table{}, err
	}
	defer f.Close()
	// Only opening the drive lets the kernel know how large the disc is.
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, gpt.Table{}, err
	}
	t, err := gpt.Read(f, size, isoSector)
	return size, t, err
}

// patience shortens a wait while a disc may become ready.
func (b *boot) patience(wait time.Duration) time.Duration {
	if b.discPending {
		return min(wait, discPoll)
	}
	return wait
}

// mapOnDisc makes a device of a partition of a disc.
func (b *boot) mapOnDisc(d blockdev.Disk, p gpt.Partition) (part, error) {
	target, err := linear(blockdev.Text(b.sys, "class/block/"+d.Name+"/dev"), p)
	if err != nil {
		return part{}, fmt.Errorf("%s: %w", d, err)
	}
	control, err := os.OpenFile("/dev/mapper/control", os.O_RDWR, 0)
	if err != nil {
		return part{}, fmt.Errorf("%w; module dm-mod is not loaded", err)
	}
	defer control.Close()
	node, err := dm.Create(control, fmt.Sprintf("disc-%d", p.Number), "SPORE-DISC-"+p.GUID.String(), target)
	if err != nil {
		return part{}, err
	}
	return part{Partition: p, Node: "/dev/" + node, Dev: blockdev.Text(b.sys, "class/block/"+node+"/dev")}, nil
}

// linear is the mapping of a partition of the device with a number such as "11:0" (Linux Documentation/admin-guide/
// device-mapper/linear.rst).
func linear(dev string, p gpt.Partition) (dm.Target, error) {
	if p.Start%discSector != 0 || p.Size%discSector != 0 {
		return dm.Target{}, fmt.Errorf("partition %d, bytes %d to %d, does not lie on whole sectors of a disc", p.Number, p.Start, p.Start+p.Size)
	}
	return dm.Target{Type: "linear", Sectors: p.Size / 512, Params: fmt.Sprintf("%s %d", dev, p.Start/512)}, nil
}
