// Package bootloader renews the boot loader on the ESP of a machine (systemd-boot) so that a bad one does not keep the
// machine from starting. Nothing counts starts before the loader, so the firmware does: it is told to start the new
// one once, by a boot option that BootNext names (UEFI 2.10, section 3.1.2), which the firmware forgets as it starts
// it. If the machine comes up, and the loader says that it was the new one (systemd's Boot Loader Interface), that one
// takes the place of the old one by one write of one sector (package fat). If it does not, the next start takes the
// old one without anybody's help.
//
// One thing at a time is new: a loader is tried when the system that it came with has shown that it stays.
//
//  1. The new loader is on the state partition (Keep).
//  2. It is written to the ESP under a name of its own, and read back; a boot option names it; BootNext names that.
//  3. After the start it takes the place of the old one, and is read back. The boot option and the file of its own go
//     away.
//  4. The ESP has a second copy of the loader, which the firmware takes where it cannot load the first (Fallbacks). It
//     stays the old one until the first copy has started the machine. So one of the two is always a loader that has
//     started it, whatever the disk did with the other.
//
// Step can be cut off at any point and run again. Upkeep keeps what starts the machine in order at each start, also
// where no new loader ever came.
package bootloader

import (
	"bytes"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spore/agent/bootoption"
	"spore/agent/efi"
	"spore/agent/keydb"
	"spore/pki/authenticode"
	"spore/storage/fat"
	"spore/storage/gpt"
)

// Places on the ESP.
const (
	// DefaultPath is what firmware starts by itself (UEFI 2.10, section 3.5.1.1).
	DefaultPath = "/EFI/BOOT/BOOTX64.EFI"
	// SystemdPath is where images have the same program once more, as bootctl(1) has.
	SystemdPath = "/EFI/systemd/systemd-bootx64.efi"
	// NextPath is where a new one is while it is tried.
	NextPath = "/EFI/BOOT/NEXTX64.EFI"
)

// description is that of the boot option.
const description = "Spore, new boot loader"

// Device is an open disk or partition.
type Device interface {
	fat.Device
	Size() int64
	SectorSize() int
	// Fresh reads what is on the medium, past the host's memory, where that is possible.
	Fresh() (io.ReaderAt, string)
	Close() error
}

// Machine is the one that is written to.
type Machine struct {
	// Disk and ESP are the device nodes of the boot disk and of the EFI partition on it; Partition returns that of a
	// partition.
	Disk, ESP string
	Partition func(number int) string
	// Open opens a device; whole is a disk of which partitions are in use, and nobody else may have a partition.
	Open func(path string, whole bool) (Device, error)
	// Vars is the directory of efivarfs, Dir that of the new boot loader on the state partition.
	Vars, Dir string
	// BootID is that of the running kernel.
	BootID string
	// Settled says that the system that brought the new loader runs and has shown that it stays, and that no other is
	// staged.
	Settled bool
	// SecureBoot says that the firmware starts only what is signed, Keys what it lets start then.
	SecureBoot bool
	Keys       keydb.Lists
	// Tables reads the partition tables of all disks of the machine.
	Tables func() ([]gpt.Table, error)
	// Sealed says that the TPM opens the machine's state by who signed what was started.
	Sealed bool
	Now    func() time.Time
	Say    func(string)
}

// disk is the ESP while it is worked on.
type disk struct {
	m      Machine
	r      Record
	device Device
	esp    *fat.Editor
	option bootoption.Option
}

// Step does what can be done now to renew the boot loader.
func (m Machine) Step() error {
	r, err := Read(m.Dir)
	if err != nil || r.SHA256 == "" {
		return err
	}
	if done := r.State == Kept || r.State == Failed; done && !m.leftovers() {
		return nil
	}
	if r.State == Waiting && !m.Settled && !r.Offered {
		return nil // The ESP is left to who tries the system.
	}
	d, err := m.open(r)
	if err != nil {
		return err
	}
	defer d.device.Close()
	return d.step()
}

// leftovers tells whether something of a loader that is kept or failed is to be removed yet: its content goes last.
func (m Machine) leftovers() bool {
	_, err := os.Lstat(filepath.Join(m.Dir, contentName))
	return err == nil
}

func (m Machine) open(r Record) (_ *disk, err error) {
	whole, err := m.Open(m.Disk, true)
	if err != nil {
		return nil, fmt.Errorf("open the boot disk: %w", err)
	}
	defer whole.Close()
	table, err := gpt.Read(whole, whole.Size(), whole.SectorSize())
	if err != nil {
		return nil, fmt.Errorf("the boot disk %s: %w", m.Disk, err)
	}
	d := &disk{m: m, r: r}
	d.option = bootoption.Option{Description: description, SectorSize: whole.SectorSize(), File: NextPath}
	for _, p := range table.Partitions {
		if m.Partition(p.Number) == m.ESP {
			d.option.Partition = p
		}
	}
	if d.option.Partition.Number == 0 {
		return nil, fmt.Errorf("the boot disk %s does not have the EFI partition %s", m.Disk, m.ESP)
	}
	if d.device, err = m.Open(m.ESP, false); err != nil {
		return nil, fmt.Errorf("open the ESP: %w", err)
	}
	if d.esp, err = fat.Edit(d.device, d.device.Size()); err != nil {
		d.device.Close()
		return nil, fmt.Errorf("the ESP %s: %w", m.ESP, err)
	}
	return d, nil
}

func (d *disk) step() error {
	switch d.r.State {
	case Kept:
		return d.second()
	case Failed:
		return d.clean()
	}
	if d.r.State == Proved {
		return d.adopt()
	}
	now, err := d.read(d.esp.FS, DefaultPath)
	if err != nil {
		return err
	}
	if d.r.of(now) {
		return d.keep() // The firmware starts it by itself already.
	}
	byNext, err := d.startedByNext()
	if err != nil {
		return err
	}
	switch {
	case byNext && d.m.Settled:
		return d.adopt()
	case d.r.State == Tried && d.r.BootID == d.m.BootID && d.m.Settled:
		return nil
	case d.r.State == Tried && d.r.BootID != d.m.BootID && !byNext:
		return d.fail("the firmware was told to start the new one once, and since then this machine was started by the " +
			"one before: the new one did not come up, that start was cut off, or the firmware does not do as it is " +
			"told; push with --force to try it once more")
	case !d.m.Settled:
		// Another system is staged or on trial: of two new things at once nobody knows which one failed.
		return d.withdraw()
	}
	return d.try()
}

// withdraw has the firmware not start the new loader; it is tried later.
func (d *disk) withdraw() error {
	if err := d.vars().Forget(d.option); err != nil {
		return err
	}
	d.r.Offered = false
	return d.become(Waiting, "")
}

func (d *disk) vars() bootoption.Variables { return bootoption.Variables(d.m.Vars) }

// startedByNext tells whether the new loader started the machine, and is still what it was.
func (d *disk) startedByNext() (bool, error) {
	image, from, err := efi.LoaderImage(os.DirFS(d.m.Vars))
	if err != nil || !strings.EqualFold(image, NextPath) || from != d.option.Partition.GUID {
		return false, nil // What it says is all that is known.
	}
	content, err := d.read(d.esp.FS, NextPath)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && d.r.of(content), err
}

// try has the firmware start the new loader at the next start.
func (d *disk) try() error {
	content, err := d.r.content(d.m.Dir)
	if err != nil {
		return d.fail(err.Error())
	}
	running, err := d.running()
	if err != nil {
		return errors.Join(err, d.become(Waiting, err.Error()))
	}
	if err := d.m.startable(content, running); err != nil {
		return d.fail(err.Error())
	}
	// The update that brought it may have been taken by an agent that gave none.
	if err := Fallbacks(d.m.Vars, d.option.Partition, d.option.SectorSize); err != nil {
		d.m.Say("the firmware has nothing to start where the boot loader does not: " + err.Error())
	}
	if err := d.offer(content); err != nil {
		// Nothing was lost, and the next start tries again.
		return errors.Join(err, d.become(Waiting, err.Error()))
	}
	d.m.Say("the new boot loader is tried at the next start")
	d.r.BootID = d.m.BootID
	return d.become(Tried, "")
}

// offer writes the new loader to the ESP and has the firmware take it once. In this order a cut leaves a firmware that
// was told nothing, or a loader that says that it was started.
func (d *disk) offer(content []byte) error {
	// What an earlier one has left there is not to be started while it is overwritten.
	if err := d.vars().Forget(d.option); err != nil {
		return err
	}
	if err := d.put(NextPath, content); err != nil {
		return err
	}
	d.r.Offered = true
	if err := d.become(Waiting, ""); err != nil {
		return err
	}
	number, err := d.vars().Add(d.option)
	if err == nil {
		err = d.vars().Next(number)
	}
	if err != nil {
		return fmt.Errorf("this machine's firmware does not keep what is to be started next: %w", err)
	}
	return nil
}

// running is the loader that started the machine.
func (d *disk) running() ([]byte, error) {
	image, from, err := efi.LoaderImage(os.DirFS(d.m.Vars))
	if err != nil {
		return nil, fmt.Errorf("the loader of this machine does not say which file it is: %w", err)
	}
	if from != d.option.Partition.GUID {
		return nil, fmt.Errorf("this machine was started from the EFI partition %s, and not from %s on its own disk",
			from, d.m.ESP)
	}
	if strings.EqualFold(image, NextPath) {
		// It took the place of the one before in this start, or another came while it was tried.
		return d.read(d.esp.FS, DefaultPath)
	}
	for _, known := range []string{DefaultPath, SystemdPath} {
		if strings.EqualFold(image, known) {
			return d.read(d.esp.FS, known)
		}
	}
	return nil, fmt.Errorf("this machine was started by %.80q, which is none of the loaders that an image has", image)
}

// startable refuses a loader that the firmware would not start, or after which the TPM would not open the state.
func (m Machine) startable(content, running []byte) error {
	program, err := pe.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("the new one is not a program that firmware starts: %w", err)
	}
	header, ok := program.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || program.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || header.Subsystem != pe.IMAGE_SUBSYSTEM_EFI_APPLICATION {
		return errors.New("the new one is not an EFI program for x86-64")
	}
	if !m.SecureBoot {
		return nil
	}
	have, err := m.Keys.Check(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return fmt.Errorf("this machine has Secure Boot on, and its firmware would not start the new one: %w", err)
	}
	known, err := authenticode.Signers(bytes.NewReader(running), int64(len(running)))
	if err != nil {
		return fmt.Errorf("the one that runs: %w", err)
	}
	same := 0
	for i, c := range have {
		if i < len(known) && c.Equal(known[i]) {
			same++
		}
		if !m.Sealed && slices.ContainsFunc(known, c.Equal) {
			return nil
		}
	}
	if m.Sealed && same > 0 && same == len(have) && same == len(known) {
		return nil
	}
	if m.Sealed {
		return errors.New("this machine has Secure Boot on, its TPM opens the state by who signed what was started, and the " +
			"new one is not signed by the same certificates as the one before")
	}
	return errors.New("this machine has Secure Boot on, and the new one is not signed by a certificate that signed the " +
		"one before")
}

// adopt has the new loader take the place of the old one.
func (d *disk) adopt() error {
	content, err := d.r.content(d.m.Dir)
	if err != nil {
		return d.fail(err.Error())
	}
	if d.r.State != Proved {
		if err := d.become(Proved, ""); err != nil {
			return err
		}
	}
	old, unread := d.read(d.esp.FS, DefaultPath)
	d.r.Placed = d.m.BootID
	if err := d.become(Proved, ""); err != nil {
		return err
	}
	if err := d.put(DefaultPath, content); err != nil {
		// What the firmware starts by itself has to be whole.
		if unread == nil {
			err = errors.Join(err, d.put(DefaultPath, old))
		}
		return err
	}
	return d.keep()
}

// second has the second copy of the loader follow the first, once that one has started the machine. Where the second
// copy did, the first is written once more when it was damaged, and is the one before again when it is whole and does
// not start from its place.
func (d *disk) second() error {
	if err := d.withdrawn(); err != nil {
		return err
	}
	first, err := d.read(d.esp.FS, DefaultPath)
	if err != nil {
		d.m.Say(err.Error()) // What cannot be read is not the new one.
		first = nil
	}
	content, err := d.r.content(d.m.Dir)
	if err != nil {
		d.m.Say(err.Error())
		return d.clean()
	}
	bySecond, fellBack := d.startedFrom(SystemdPath), d.fellBack()
	switch {
	case d.r.Placed == d.m.BootID:
		return nil
	case !d.r.of(first) && bySecond:
		d.m.Say("the firmware could not load the new boot loader, which was damaged on the ESP; it is written once more")
		d.r.Placed = d.m.BootID
		return errors.Join(d.become(Kept, ""), d.put(DefaultPath, content))
	case !d.r.of(first):
		return d.clean() // Somebody wrote another one.
	case bySecond && fellBack:
		old, err := d.read(d.esp.FS, SystemdPath)
		if err == nil {
			err = d.put(DefaultPath, old)
		}
		if err != nil {
			return err
		}
		return d.fail("the firmware started it once, and does not start it from its place")
	case !d.startedFrom(DefaultPath) && !(bySecond && d.startedAsAlways()):
		return nil // Nothing shows that the first copy starts: the second one stays until something does.
	}
	if err := d.alike(content); err != nil {
		return err
	}
	return d.clean()
}

// alike gives the second copy of the loader, where the ESP has one, the content of the first, which has started the
// machine.
func (d *disk) alike(content []byte) error {
	_, err := d.read(d.esp.FS, SystemdPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.put(SystemdPath, content)
}

// fellBack tells whether the firmware took the second copy because the first one did not start.
func (d *disk) fellBack() bool {
	for i, f := range fallbacks {
		if f.file != SystemdPath {
			continue
		}
		if by, err := d.vars().Started(fallback(i, d.option.Partition, d.option.SectorSize)); err == nil && by {
			return true
		}
	}
	return false
}

// startedAsAlways tells whether the firmware took what it takes first at each start, and no person or failure chose.
func (d *disk) startedAsAlways() bool {
	first, err := d.vars().IsFirst()
	return err == nil && first
}

// startedFrom tells whether the loader that started the machine is a file on the ESP.
func (d *disk) startedFrom(name string) bool {
	image, from, err := efi.LoaderImage(os.DirFS(d.m.Vars))
	return err == nil && from == d.option.Partition.GUID && strings.EqualFold(image, name)
}

// keep ends the trial of a loader that the firmware starts by itself.
func (d *disk) keep() error {
	d.m.Say("the new boot loader stays")
	if err := d.become(Kept, ""); err != nil {
		return err
	}
	return d.second()
}

// fail ends the trial of a loader that is not taken.
func (d *disk) fail(why string) error {
	d.m.Say("the boot loader stays the one before: " + why)
	if err := d.become(Failed, why); err != nil {
		return err
	}
	if d.startedFrom(DefaultPath) && d.r.Placed != d.m.BootID {
		// The loader before it may have come so shortly before that its second copy did not follow.
		first, err := d.read(d.esp.FS, DefaultPath)
		if err == nil {
			err = d.alike(first)
		}
		if err != nil {
			return err
		}
	}
	return d.clean()
}

// become writes the record with another state.
func (d *disk) become(state, problem string) error {
	d.r.State, d.r.Problem = state, problem
	if old, err := Read(d.m.Dir); err == nil && old == d.r {
		return nil
	}
	return d.r.write(d.m.Dir)
}

// clean removes what the trial needed; the content on the state partition goes last.
func (d *disk) clean() error {
	if err := d.withdrawn(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.m.Dir, contentName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the new boot loader: %w", err)
	}
	return nil
}

// withdrawn removes the boot option and the file of the trial.
func (d *disk) withdrawn() error {
	if err := d.vars().Forget(d.option); err != nil {
		return err
	}
	err := d.esp.Remove(path.Dir(NextPath), path.Base(NextPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the ESP: %w", err)
	}
	return nil
}

// put gives a file on the ESP its content by one write, and reads it back from the medium. Nothing is written where it
// has it.
func (d *disk) put(name string, content []byte) error {
	there, err := d.read(d.esp.FS, name)
	if err == nil && bytes.Equal(there, content) {
		return nil
	}
	dir, base, size := path.Dir(name), path.Base(name), int64(len(content))
	if errors.Is(err, fs.ErrNotExist) {
		err = d.esp.Create(dir, base, size, bytes.NewReader(content), d.m.Now())
	} else {
		err = d.esp.Replace(dir, base, size, bytes.NewReader(content), d.m.Now())
	}
	if err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	fresh, _ := d.device.Fresh()
	f, err := fat.Open(fresh, d.device.Size())
	if err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	if there, err = d.read(f, name); err == nil && !bytes.Equal(there, content) {
		err = fmt.Errorf("%s on the ESP is not what was written to it: the disk is worn out, replace it", name)
	}
	return err
}

// read reads a loader on an ESP.
func (d *disk) read(f *fat.FS, name string) ([]byte, error) {
	content, err := ReadESP(f, name)
	if err != nil {
		return nil, fmt.Errorf("the ESP %s: %w", d.m.ESP, err)
	}
	return content, nil
}

// ReadESP reads a boot loader on an ESP. Its error is fs.ErrNotExist where there is none.
func ReadESP(f *fat.FS, name string) ([]byte, error) {
	list, err := f.List(path.Dir(name))
	if err != nil {
		return nil, err
	}
	e, ok := fat.Find(list, path.Base(name))
	if !ok || e.Dir {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if e.Size > maxOnESP {
		return nil, fmt.Errorf("%s has %d bytes: %w", name, e.Size, errNoLoader)
	}
	r, err := f.Open(e)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// errNoLoader is the error of ReadESP for what is more than a boot loader, such as a UKI that the firmware starts
// itself.
var errNoLoader = errors.New("more than a boot loader")

// maxOnESP bounds what is read of an ESP, in bytes: more than MaxSize, so that one that is signed by many is replaced
// too.
const maxOnESP = 8 << 20
