package slot

import (
	"cmp"
	"errors"
	"fmt"

	"spore/agent/bootdisk"
	"spore/storage/fat"
	"spore/storage/gpt"
	"spore/wire/update"
)

// Before is what a node goes back to.
type Before struct {
	// Serial is that of what runs and is given up, 0 where the image brought it.
	Serial uint64
	// ClusterHash and Entry are of what the next start takes.
	ClusterHash, Entry string
	// Change says what is another one then.
	Change *update.Change
}

// Back has the boot loader start the system before at the next start: the entry that runs is marked as bad, by one
// write. It can be cut off at any point and run again.
func Back(m Machine, wish Wish) (Before, error) {
	r, err := ReadRecord(m.Record)
	if err != nil {
		return Before{}, refuse("%v; so it is not known whether the system before reads this node's data: push its "+
			"folder and image with --force instead", err)
	}
	if err := m.fitsBack(); err != nil {
		return Before{}, err
	}
	disk, err := m.Open(m.Boot.BootDisk.Path, true)
	if err != nil {
		return Before{}, fmt.Errorf("open the boot disk: %w", err)
	}
	defer disk.Close()
	w := &writer{m: m, disk: disk}
	if w.table, err = gpt.Read(disk, disk.Size(), disk.SectorSize()); err != nil {
		return Before{}, fmt.Errorf("the boot disk %s: %w", m.Boot.BootDisk.Path, err)
	}
	if w.espDevice, err = m.Open(m.Boot.ESP, false); err != nil {
		return Before{}, fmt.Errorf("open the ESP: %w", err)
	}
	defer w.espDevice.Close()
	f, err := fat.Open(w.espDevice, w.espDevice.Size())
	if err == nil {
		w.entries, err = m.readEntries(f)
	}
	if err != nil {
		return Before{}, fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	target, err := w.target()
	if err != nil {
		return Before{}, err
	}
	out := Before{
		ClusterHash: target.cluster, Entry: target.file.Name,
		Change: &update.Change{Root: !sameHash(target.root, m.Boot.RootHash), UKI: true, From: m.Versions, To: m.Versions},
	}
	if r.Is(m.Boot.RootHash, m.Boot.ClusterHash) {
		out.Serial = r.Serial
	}
	if out.Change.Root {
		// What is not the record's is of an image that nobody pushed, and not known.
		if out.Change.To = nil; r.Is(m.Boot.RootHash, m.Boot.ClusterHash) && r.Follows(target.root, target.cluster) {
			out.Change.To = r.PreviousVersions
		}
		if err := m.readsData(out.Change); err != nil {
			return Before{}, err
		}
	}
	if wish.DryRun {
		return out, nil
	}
	return out, w.markBad(r, wish)
}

// readsData refuses the way back to programs that do not read what those that run have written.
func (m Machine) readsData(c *update.Change) error {
	if m.Unsafe == nil || c.To == nil {
		return nil
	}
	if why := m.Unsafe(c.From, c.To); why != "" {
		return refuse("the programs of the system before would not read this node's data: %s; push an image with "+
			"the versions that run or newer ones", why)
	}
	return nil
}

// fitsBack refuses on a machine that has no entries of its own.
func (m Machine) fitsBack() error {
	b := m.Boot
	switch {
	case b.NetworkURL != "":
		return refuse("this machine was started from the network (%s): it starts what that server has", b.NetworkURL)
	case b.BootDisk.Path == "" || b.BootDisk.Optical:
		return refuse("this machine was not started from a disk of its own")
	case !b.EFI || b.ESP == "":
		return refuse("this machine was not started by UEFI firmware from an EFI partition, which has no other " +
			"entry to start")
	}
	return nil
}

// target is the entry that the loader starts when the one that runs is bad, where that is the system before and all
// of it is there.
func (w *writer) target() (onESP, error) {
	running := w.entries.running
	switch {
	case running.content == nil:
		return onESP{}, refuse("the ESP %s has no entry that starts what runs", w.m.Boot.ESP)
	case running.bad():
		return onESP{}, refuse("the entry that runs, %s, is marked as bad already: it was started by hand, and "+
			"the next start takes another one", running.File())
	case running.Counted:
		return onESP{}, refuse("the entry that runs, %s, is on trial: the node goes back by itself when its roles "+
			"do not come up, or after three restarts by the power switch", running.File())
	}
	var best onESP
	for _, e := range w.entries.others {
		switch {
		case e.bad():
		case e.newerThan(running.Entry):
			return onESP{}, refuse("the next start takes a newer system, %s: push what runs, which takes that "+
				"back", e.file.Name)
		case best.content == nil || e.newerThan(best.Entry):
			best = e
		}
	}
	if best.content == nil {
		return onESP{}, refuse("there is no system before this one on the ESP: push the earlier folder and image " +
			"instead")
	}
	if !w.startable(best) {
		return onESP{}, refuse("what %s starts is not on the disk any more (%s): push the earlier folder and "+
			"image instead", best.file.Name, w.missing(best))
	}
	return best, nil
}

// missing says which partitions an entry would not find.
func (w *writer) missing(e onESP) string {
	wanted, err := bootdisk.WantedFor(e.root, e.cluster)
	if err != nil {
		return "its command line names no system"
	}
	return wanted.String()
}

// markBad records that what runs is given up, and marks its entry. In this order a cut leaves a node that runs what
// it ran and can be asked again.
func (w *writer) markBad(r Record, wish Wish) error {
	b := w.m.Boot
	fresh := r
	if !r.Is(b.RootHash, b.ClusterHash) {
		// What runs came with the image, or was given up before.
		fresh.ClusterHash, fresh.RootHash, fresh.Entry = b.ClusterHash, b.RootHash, w.entries.running.Stem
		fresh.Previous, fresh.PreviousRoot, fresh.Starts = "", "", 0
	}
	fresh.State, fresh.BootID, fresh.Live = Failed, w.m.BootID, false
	fresh.Problem = "taken back by " + cmp.Or(wish.By, "root on the node")
	if err := fresh.Write(w.m.Record); err != nil {
		return err
	}
	e, err := fat.Edit(w.espDevice, w.espDevice.Size())
	if err == nil {
		running := w.entries.running
		err = e.Rename(Dir, running.file.Name, running.Bad().File())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("mark the entry that runs as bad: %w", err), r.Write(w.m.Record))
	}
	return nil
}
