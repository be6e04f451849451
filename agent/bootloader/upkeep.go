package bootloader

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"spore/agent/bootoption"
	"spore/pki/authenticode"
	"spore/storage/gpt"
)

// Upkeep keeps what starts this machine in order, also where no update ever came: the firmware has its options for the
// case that the first one does not start (Fallbacks), and none of ours for a disk that is gone; a copy of the loader
// that was damaged on the ESP is written once more, from the copy that started the machine. It writes nothing where
// all is in order, and can be cut off at any point. What the firmware refuses is said, and the machine counts as
// whole: it starts without that.
func (m Machine) Upkeep() error {
	r, err := Read(m.Dir)
	if err != nil {
		return err
	}
	d, err := m.open(r)
	if err != nil {
		return err
	}
	defer d.device.Close()
	// A machine that was installed from the network has a UKI in the place of the loader: there is nothing to keep, and
	// nothing behind it to start.
	if _, err := ReadESP(d.esp.FS, DefaultPath); errors.Is(err, errNoLoader) {
		return nil
	}
	if err := d.dropDead(); err != nil {
		m.Say("boot options of disks that are gone stay: " + err.Error())
	}
	if err := Fallbacks(m.Vars, d.option.Partition, d.option.SectorSize); err != nil {
		m.Say("the firmware has nothing to start where the boot loader does not: " + err.Error())
	}
	return d.repair()
}

// dropDead removes options that were made by this package for an EFI partition that no disk of this machine has: a disk
// that is flashed anew has another one. The option that started the machine stays, whatever it names.
func (d *disk) dropDead() error {
	options, err := d.vars().Kept(d.option.SectorSize)
	if err != nil {
		return err
	}
	current, err := d.vars().Current()
	if err != nil {
		return nil // Without it nothing is known of what the firmware does.
	}
	options = slices.DeleteFunc(options, func(o bootoption.Kept) bool {
		return o.Number == current || !ours(o.Option) || o.Partition.GUID == d.option.Partition.GUID
	})
	if len(options) == 0 || d.m.Tables == nil {
		return nil
	}
	tables, err := d.m.Tables()
	if err != nil {
		return fmt.Errorf("look for the disks of old boot options: %w", err)
	}
	for _, o := range options {
		there := slices.ContainsFunc(tables, func(t gpt.Table) bool { _, ok := t.ByGUID(o.Partition.GUID); return ok })
		if there {
			continue
		}
		d.m.Say(fmt.Sprintf("removing the boot option %s %q: no disk of this machine has its EFI partition %s",
			bootoption.Name(o.Number), o.Description, o.Partition.GUID))
		if err := d.vars().Drop(o.Number); err != nil {
			return err
		}
	}
	return nil
}

// ours tells whether an option was made by this package, by its description and file.
func ours(o bootoption.Option) bool {
	if o.Description == description && strings.EqualFold(o.File, NextPath) {
		return true
	}
	for _, f := range fallbacks {
		if o.Description == f.description && strings.EqualFold(o.File, f.file) {
			return true
		}
	}
	return false
}

// repair gives a damaged copy of the loader the content of the other one, when that has started the machine. While a
// new loader is tried the two differ on purpose.
func (d *disk) repair() error {
	resting := d.r.State == "" || d.r.State == Kept || d.r.State == Failed
	if !resting || d.m.leftovers() || d.r.Placed != "" && d.r.Placed == d.m.BootID {
		return nil
	}
	from, to := DefaultPath, SystemdPath
	if d.startedFrom(SystemdPath) {
		from, to = SystemdPath, DefaultPath
	} else if !d.startedFrom(DefaultPath) {
		return nil // Nothing shows that one of them starts.
	}
	good, err := d.read(d.esp.FS, from)
	if err != nil {
		return err
	}
	other, err := ReadESP(d.esp.FS, to)
	if errors.Is(err, fs.ErrNotExist) && to == SystemdPath {
		return nil // An ESP may be without a second copy.
	}
	if err == nil && !damaged(other, good) {
		return nil
	}
	d.m.Say(fmt.Sprintf("%s on the ESP is damaged; it is written once more, from %s, which started this machine", to, from))
	return d.put(to, good)
}

// damaged tells whether a file is what is left of the good loader, or of any program: one that no firmware starts. A
// whole program that is another one is somebody's, and none of ours to replace.
func damaged(other, good []byte) bool {
	if bytes.Equal(other, good) {
		return false
	}
	if !whole(other) {
		return true
	}
	signers, err := authenticode.Signers(bytes.NewReader(other), int64(len(other)))
	if err != nil {
		return true
	}
	// Lost sectors leave the others as they were; no two versions of a program agree in most of theirs.
	return len(signers) == 0 && len(other) == len(good) && 2*alikeSectors(other, good) > (len(good)+sector-1)/sector
}

// whole tells whether all that the headers of a program name is in the file.
func whole(content []byte) bool {
	p, err := pe.NewFile(bytes.NewReader(content))
	if err != nil {
		return false
	}
	for _, s := range p.Sections {
		if uint64(s.Offset)+uint64(s.Size) > uint64(len(content)) {
			return false
		}
	}
	return len(p.Sections) > 0
}

// sector is the smallest piece that a disk loses, in bytes.
const sector = 512

// alikeSectors counts the sectors in which two files of one size agree.
func alikeSectors(a, b []byte) int {
	n := 0
	for at := 0; at < len(a); at += sector {
		end := min(at+sector, len(a))
		if bytes.Equal(a[at:end], b[at:end]) {
			n++
		}
	}
	return n
}
