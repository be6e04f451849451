// Package slot puts a new configuration on the disk of a running node, for its next start: the cluster part into the slot that
// does not run, and beside the image that runs another one on the ESP that starts it, named for boot counting (UAPI.1, Boot
// Loader Specification). The root stays the one that runs.
//
// In this order, each step flushed and read back before the next, a power cut at any point leaves a machine that starts what
// ran before, or, once the last write is done, the new one:
//
//  1. Entries on the ESP that start neither what runs go away: what they start is about to be overwritten.
//  2. The cluster part is written into the free slot, and the slot gets the GUID that the new image looks for.
//  3. The node's record says what is being staged.
//  4. The new entry appears on the ESP with one write of one sector (package fat).
//
// What runs, its cluster part and its entry, are never written to.
package slot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"spore/agent/bootdisk"
	"spore/agent/bootinfo"
	"spore/agent/nvcounter"
	"spore/agent/state"
	"spore/pki/authenticode"
	"spore/storage/fat"
	"spore/storage/gpt"
)

// Tries is how often the loader starts a new configuration that does not say that it is good.
const Tries = 3

// Dir is where entries are on the ESP.
const Dir = "/EFI/Linux"

// espReserve is kept free on the ESP, in bytes: for the loader's own files, and a bundle.
const espReserve = 4 << 20

var typeCluster = gpt.MustParseGUID("6b0d4b7e-5c0a-4e0e-9d55-73706f726500")

// Device is an open disk or partition.
type Device interface {
	Disk
	// Fresh reads what is on the medium, past the host's memory; the note says why that is not possible, if it is not.
	Fresh() (r io.ReaderAt, note string)
	Close() error
}

// Machine is the node that is written to.
type Machine struct {
	Boot bootinfo.Info
	// Cluster is the cluster's id, Node the node's name.
	Cluster, Node string
	// Partition returns the device node of a partition of the boot disk.
	Partition func(number int) string
	State     state.Info
	// SecureBoot says that the firmware starts only what is signed.
	SecureBoot bool
	// Revoked are the programs that the firmware does not start whoever signed them.
	Revoked []authenticode.Hash
	// Open opens a device; whole is a disk of which partitions are in use, and nobody else may have a partition.
	Open func(path string, whole bool) (Device, error)
	// Record is the path of the node's record.
	Record string
	// Counter is that of the node's TPM, which knows of a record that was put back. Nil where it has none, or where
	// NoCounter says why its TPM does not count.
	Counter   nvcounter.Device
	NoCounter error
	// BootID is that of the running kernel.
	BootID string
	Now    func() time.Time
	// Down lists units of the node's roles that are not up.
	Down []string
	// Say reports progress.
	Say func(string)
}

// Refusal is an error that means: nothing was written, and what is asked for cannot be.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return r.Reason }

func refuse(format string, a ...any) error { return Refusal{fmt.Sprintf(format, a...)} }

// Result says what was done.
type Result struct {
	// Entry is the new image on the ESP.
	Entry string `json:"entry"`
	// Unchanged says that the node runs this configuration already, or has it staged; nothing was written.
	Unchanged bool `json:"unchanged,omitempty"`
	// Device is the slot that the cluster part was written to.
	Device string `json:"-"`
	// Note says how the medium was read back where that was not past the host's memory.
	Note string `json:"note,omitempty"`
}

// Stage writes an update that OpenSource accepted. It can be cut off at any point and run again.
func Stage(m Machine, s Source) (Result, error) {
	r, err := ReadRecord(m.Record)
	if err != nil {
		return Result{}, err
	}
	taken, lost := m.counted(r)
	if err := m.fits(s, r, taken, lost); err != nil {
		return Result{}, err
	}
	if sameHash(s.Head.ClusterHash, m.Boot.ClusterHash) {
		return m.alreadyRuns(s, r)
	}
	w, err := m.open()
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	if err := w.look(s); err != nil {
		return Result{}, err
	}
	return w.write(s, r)
}

// counted is the highest serial that the node took as far as its TPM knows; lost says why it does not know, although it
// counted when the record was written.
func (m *Machine) counted(r Record) (taken uint64, lost error) {
	if m.Counter != nil {
		if taken, m.NoCounter = nvcounter.Floor(m.Counter, r.Counted); m.NoCounter != nil {
			m.Counter = nil
		}
	}
	switch {
	case m.Counter != nil || r.Counted == nil:
		return taken, nil
	case m.NoCounter == nil:
		return 0, errors.New("the machine has no TPM")
	}
	return 0, m.NoCounter
}

// fits refuses what this machine cannot or may not take. taken and lost are what counted says.
func (m Machine) fits(s Source, r Record, taken uint64, lost error) error {
	b, h := m.Boot, s.Head
	same := sameHash(h.ClusterHash, r.ClusterHash)
	// Of two with one serial the keys were restored from a copy, and have signed another one since.
	older := h.Serial < r.Serial || h.Serial == r.Serial && !same
	switch {
	case !strings.EqualFold(h.Cluster, m.Cluster):
		return refuse("the configuration is of the cluster with the id %s, and this node belongs to %s", h.Cluster, m.Cluster)
	case !slices.Contains(h.Nodes, m.Node):
		return refuse("the configuration has no node %s: a machine that leaves the cluster is turned off, and starts again from another image", m.Node)
	case b.NetworkURL != "":
		return refuse("this machine was started from the network (%s) and has no disk of its own to keep a configuration on: give the server the image with the new one (`spore customize`), and restart the machine", b.NetworkURL)
	case b.BootDisk.Path == "":
		return refuse("it is not known which disk this machine was started from")
	case b.BootDisk.Optical:
		return refuse("this machine was started from the disc in %s, to which nothing can be written: start it from a disc with the new configuration, or install it (`spore-agent install`)", b.BootDisk.Path)
	case !b.EFI || b.ESP == "":
		return refuse("this machine was not started by UEFI firmware from an EFI partition, so that no start could be counted and a bad configuration would stay: write it anew with `spore flash`")
	case m.State.Kind != state.Partition:
		return refuse("this node has no state partition and would forget what was pushed to it: %s", m.State.Warning)
	case !sameHash(h.RootHash, b.RootHash):
		return refuse("the configuration was made for another build of the image (root %.16s…, and %.16s… runs): name the image that this node was written from with --image, or write the node anew with `spore flash`", h.RootHash, b.RootHash)
	case older && !h.Force:
		return refuse("the configuration is older (%d) than the last one that this node took (%d): push its folder again, "+
			"which signs it anew, with --force where the keys were restored from a copy", h.Serial, r.Serial)
	case h.Serial < taken && !h.Force:
		return refuse("the configuration is older (%d) than the last one that this node's TPM has counted (%d), "+
			"although the node's state knows of %d alone: the state was put back to an older copy, or the TPM was cleared; "+
			"push its folder again, which signs it anew, with --force where that is refused too", h.Serial, taken, r.Serial)
	case lost != nil && !h.Force:
		return refuse("the TPM that counted what this node took does not say how far it got: %v; "+
			"mend that, or push with --force, by which the node trusts its state alone", lost)
	// Whoever kept a file that was forced once could go back to it for ever.
	case (older || h.Serial < taken || lost != nil) && !same && !h.Issued.After(r.Issued):
		return refuse("the configuration was signed with --force at %s, and the last one that this node took after that (%s): "+
			"push its folder again, which signs it anew", h.Issued.Format(time.RFC3339), r.Issued.Format(time.RFC3339))
	}
	return nil
}

// alreadyRuns records the serial of a configuration that runs, so that an older one is refused from now on.
func (m Machine) alreadyRuns(s Source, r Record) (Result, error) {
	out := Result{Entry: r.Entry, Unchanged: true}
	if r.Serial == s.Head.Serial && sameHash(r.ClusterHash, s.Head.ClusterHash) {
		return out, nil
	}
	if sameHash(r.ClusterHash, s.Head.ClusterHash) && r.State != Kept {
		return out, nil // On trial: its record is the trial's.
	}
	w, err := m.open()
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	// One that was staged and never started shall not be started by the next restart.
	if err := w.look(s); err != nil {
		return Result{}, err
	}
	if err := w.clear(); err != nil {
		return Result{}, err
	}
	fresh := Record{
		Serial: max(s.Head.Serial, r.Serial), Issued: s.Head.Issued,
		ClusterHash: s.Head.ClusterHash, RootHash: s.Head.RootHash,
		Entry: w.running.Stem, State: Kept, BootID: m.BootID,
	}
	out.Entry = w.running.File()
	return out, m.keepRecord(&fresh, r)
}

// keepRecord writes a record in place of one before, and has the TPM count its serial. In this order a cut leaves a
// counter that has not come as far as the record, and the next record raises it.
func (m Machine) keepRecord(fresh *Record, before Record) error {
	if m.NoCounter != nil {
		m.Say("the TPM does not count what this node takes: " + m.NoCounter.Error())
	}
	if m.Counter == nil {
		return fresh.Write(m.Record)
	}
	b, err := nvcounter.Bind(m.Counter, before.Counted, fresh.Serial)
	if err != nil {
		return err
	}
	fresh.Counted = &b
	if err := fresh.Write(m.Record); err != nil {
		return err
	}
	return nvcounter.Reach(m.Counter, b, fresh.Serial)
}

// writer is one run.
type writer struct {
	m          Machine
	disk, slot Device
	espDevice  Device
	esp        *fat.Editor
	number     int
	running    Entry
	entries    []Entry
	files      []string
	sizes      map[string]int64
	note       string
}

// open opens the disk, the ESP and the slot that does not run.
func (m Machine) open() (_ *writer, err error) {
	w := &writer{m: m, sizes: map[string]int64{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.disk, err = m.Open(m.Boot.BootDisk.Path, true); err != nil {
		return nil, fmt.Errorf("open the boot disk: %w", err)
	}
	table, err := gpt.Read(w.disk, w.disk.Size(), w.disk.SectorSize())
	if err != nil {
		return nil, fmt.Errorf("the boot disk %s: %w", m.Boot.BootDisk.Path, err)
	}
	slot, err := freeSlot(table, m.Boot.ClusterHash, m.Boot.RootHash)
	if err != nil {
		return nil, err
	}
	w.number = slot.Number
	if w.slot, err = m.Open(m.Partition(slot.Number), false); err != nil {
		return nil, fmt.Errorf("open the free slot: %w", err)
	}
	if w.espDevice, err = m.Open(m.Boot.ESP, false); err != nil {
		return nil, fmt.Errorf("open the ESP: %w", err)
	}
	if w.esp, err = fat.Edit(w.espDevice, w.espDevice.Size()); err != nil {
		return nil, fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	return w, nil
}

func (w *writer) close() {
	for _, d := range []Device{w.slot, w.espDevice, w.disk} {
		if d != nil {
			d.Close()
		}
	}
}

// freeSlot is the partition for a cluster part that does not run.
func freeSlot(t gpt.Table, clusterHash, rootHash string) (gpt.Partition, error) {
	wanted, err := bootdisk.WantedFor(rootHash, clusterHash)
	if err != nil {
		return gpt.Partition{}, fmt.Errorf("what stage1 found: %w", err)
	}
	var free []gpt.Partition
	runs := false
	for _, p := range t.Partitions {
		switch {
		case p.Type == typeCluster && p.GUID == wanted.Cluster:
			runs = true
		case p.Type == typeCluster:
			free = append(free, p)
		}
	}
	switch {
	case !runs:
		return gpt.Partition{}, refuse("the boot disk has no partition with the configuration that runs: it was written anew since this machine was started; restart it first")
	case len(free) == 0:
		return gpt.Partition{}, refuse("the boot disk has no second slot for a configuration: there was no room for it when the machine started (see its status), so write the node anew with `spore flash`")
	case len(free) > 1:
		return gpt.Partition{}, refuse("the boot disk has %d partitions for configurations beside the one that runs, so that it is not known which is free", len(free))
	}
	return free[0], nil
}

// look finds out what is on the ESP, and refuses what does not fit.
func (w *writer) look(s Source) error {
	b := w.m.Boot
	list, err := w.esp.List(Dir)
	if err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	var mine []string
	room := w.esp.Free()
	for _, f := range list {
		e, ok := ParseEntry(f.Name)
		if !ok || f.Dir {
			continue
		}
		content, err := w.esp.Open(f)
		if err != nil {
			return fmt.Errorf("the ESP: %w", err)
		}
		runs, err := starts(content, b.RootHash, b.ClusterHash)
		if err != nil {
			return fmt.Errorf("the ESP: %s: %w", f.Name, err)
		}
		if runs {
			w.running, mine = e, append(mine, f.Name)
			if err := errors.Join(w.sameSigner(content, s), samePCRKey(content, s)); err != nil {
				return err
			}
			continue
		}
		w.entries, w.files = append(w.entries, e), append(w.files, f.Name)
		room += f.Size
	}
	switch {
	case len(mine) == 0:
		return refuse("the ESP %s has no entry that starts what runs, so that there would be nothing to go back to: write the node anew with `spore flash`", b.ESP)
	case w.running.Counted && w.running.Left == 0:
		return refuse("the entry that runs, %s, is marked as bad: it was started by hand; restart the machine, and push again", w.running.File())
	case w.running.Counted:
		return refuse("the entry that runs, %s, is on trial itself: wait until the node's roles are up with it", w.running.File())
	case s.Head.Part.Size > w.slot.Size():
		return refuse("the cluster part has %d KiB and its slot %d: build with larger slots.cluster in image.yaml, and write the node anew", s.Head.Part.Size>>10, w.slot.Size()>>10)
	case room < s.Head.UKI.Size+espReserve:
		return refuse("the ESP has room for %d MiB, and %d are needed: delete files on it that are not Spore's, or write the node anew with a larger slots.esp", room>>20, (s.Head.UKI.Size+espReserve)>>20+1)
	}
	return nil
}

// sameSigner refuses, where the firmware asks for a signature, a UKI that nobody signed or that somebody else signed,
// and one whose signature does not hold: it would not start, and whether the loader then goes on with the next entry is
// not known of all firmware. A node that takes the configuration while it runs takes it before any firmware has looked.
func (w *writer) sameSigner(running *io.SectionReader, s Source) error {
	if !w.m.SecureBoot {
		return nil
	}
	have, err := authenticode.Signers(s.UKI, s.UKI.Size())
	if err != nil {
		return refuse("this machine has Secure Boot on, and firmware would not start the UKI of the update: %v", err)
	}
	if hash, err := authenticode.HashOf(s.UKI, s.UKI.Size()); err != nil {
		return fmt.Errorf("the UKI of the update: %w", err)
	} else if slices.Contains(w.m.Revoked, hash) {
		return refuse("this machine's firmware has the UKI of the update among those that it does not start (dbx): it was revoked; build a newer one")
	}
	if len(have) == 0 {
		return refuse("this machine has Secure Boot on, and the UKI of the update is not signed: push with --secure-boot-key and --secure-boot-cert")
	}
	known, err := authenticode.Signers(running, running.Size())
	if err != nil {
		return fmt.Errorf("the UKI that runs: %w", err)
	}
	for _, c := range have {
		if slices.ContainsFunc(known, c.Equal) {
			return nil
		}
	}
	return refuse("this machine has Secure Boot on, and the UKI of the update is signed by another certificate than the one that runs: sign it with the same key")
}

// samePCRKey refuses a UKI whose value of PCR 11 another key signs than that of what runs, or none: secrets that the TPM bound to
// images of that key, such as that of an encrypted /var, would be out of reach.
func samePCRKey(running io.ReaderAt, s Source) error {
	want, err := pcrKey(running)
	if err != nil {
		return fmt.Errorf("the UKI that runs: %w", err)
	}
	have, err := pcrKey(s.UKI)
	if err != nil {
		return fmt.Errorf("the UKI of the update: %w", err)
	}
	if len(want) > 0 && string(have) != string(want) {
		return refuse("the UKI that runs has its value of the TPM's PCR 11 signed, and the UKI of the update not by the same key: the TPM would not open what it sealed; push with the same --pcr-key")
	}
	return nil
}

// clear removes entries that start anything but what runs.
func (w *writer) clear() error {
	for _, f := range w.files {
		w.m.Say("removing " + f + " from the ESP")
		if err := w.esp.Remove(Dir, f); err != nil {
			return fmt.Errorf("the ESP: %w", err)
		}
	}
	w.files = nil
	return nil
}

func (w *writer) write(s Source, r Record) (Result, error) {
	if err := w.clear(); err != nil {
		return Result{}, err
	}
	w.m.Say("writing the cluster part")
	if err := w.writeSlot(s); err != nil {
		return Result{}, err
	}
	e := newEntry(append(w.entries, w.running), s.Head.UKI.SHA256)
	fresh := Record{
		Serial: max(s.Head.Serial, r.Serial), Issued: s.Head.Issued,
		ClusterHash: s.Head.ClusterHash, RootHash: s.Head.RootHash,
		Previous: w.m.Boot.ClusterHash, Entry: e.Stem, State: Staging, BootID: w.m.BootID, Down: w.m.Down,
	}
	if err := w.m.keepRecord(&fresh, r); err != nil {
		return Result{}, err
	}
	w.m.Say("writing " + e.File() + " to the ESP")
	if err := w.writeEntry(s, e); err != nil {
		return Result{}, err
	}
	fresh.State = Staged
	return Result{Entry: e.File(), Note: w.note, Device: w.m.Partition(w.number)}, fresh.Write(w.m.Record)
}

// piece is how much is copied at once.
const piece = 1 << 20

// writeSlot writes the cluster part, reads it back, and names the partition by its hash.
func (w *writer) writeSlot(s Source) error {
	if err := copyAll(w.slot, s.Part); err != nil {
		return fmt.Errorf("write the cluster part: %w", err)
	}
	fresh, note := w.slot.Fresh()
	w.note = note
	if err := same(io.NewSectionReader(fresh, 0, s.Part.Size()), s.Head.Part.SHA256); err != nil {
		return fmt.Errorf("the cluster part: %w", err)
	}
	wanted, err := bootdisk.WantedFor(s.Head.RootHash, s.Head.ClusterHash)
	if err != nil {
		return err
	}
	if err := setGUID(w.disk, w.number, wanted.Cluster); err != nil {
		return fmt.Errorf("the boot disk: %w", err)
	}
	onDisk, _ := w.disk.Fresh()
	table, err := gpt.Read(onDisk, w.disk.Size(), w.disk.SectorSize())
	if err != nil {
		return fmt.Errorf("read the partition table back: %w", err)
	}
	if p, ok := table.ByGUID(wanted.Cluster); !ok || p.Number != w.number || table.Backup {
		return fmt.Errorf("the partition table: %w", errDiffers)
	}
	return nil
}

// writeEntry writes the UKI and reads it back from the disk.
func (w *writer) writeEntry(s Source, e Entry) error {
	content := io.NewSectionReader(s.UKI, 0, s.UKI.Size())
	if err := w.esp.Create(Dir, e.File(), s.UKI.Size(), content, w.m.Now()); err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	fresh, _ := w.espDevice.Fresh()
	err := readBack(fresh, w.espDevice.Size(), path.Join(Dir, e.File()), s.Head.UKI.SHA256)
	if err != nil {
		// It may be what the loader starts next.
		return errors.Join(fmt.Errorf("the UKI: %w", err), w.esp.Remove(Dir, e.File()))
	}
	return nil
}

func readBack(r io.ReaderAt, size int64, name, want string) error {
	f, err := fat.Open(r, size)
	if err != nil {
		return err
	}
	list, err := f.List(path.Dir(name))
	if err != nil {
		return err
	}
	e, ok := fat.Find(list, path.Base(name))
	if !ok {
		return errDiffers
	}
	content, err := f.Open(e)
	if err != nil {
		return err
	}
	return same(content, want)
}

var errDiffers = errors.New("the disk does not hold what was written to it; it is worn out, replace it")

// same compares what is on the disk with a hash.
func same(r io.Reader, want string) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errDiffers
	}
	return nil
}

func copyAll(dst Device, src *io.SectionReader) error {
	buf := make([]byte, piece)
	for at := int64(0); at < src.Size(); {
		n, err := src.ReadAt(buf[:min(piece, src.Size()-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := dst.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return dst.Sync()
}
