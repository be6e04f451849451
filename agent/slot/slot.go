// Package slot puts an update on the disk of a running node, for its next start: the root and its hash tree, and the
// cluster part, into partitions that do not run, and beside the image that runs another one on the ESP that starts
// them, named for boot counting (UAPI.1, Boot Loader Specification). A root or a cluster part that runs already is
// left where it is.
//
// An update comes in messages (package update) with pieces of it, and the node says which pieces it does not have. In
// this order, each step flushed and read back before the next, a power cut at any point leaves a machine that starts
// what ran before, or, once the last write is done, the new one; and the next message goes on where the last one was
// cut off:
//
//  1. Indexes, UKI and cluster part are kept in the working directory. What this machine would not start is refused.
//  2. Entries on the ESP that start another root than what runs go away, and the partitions of the free root get
//     GUIDs that nobody looks for: they are about to be overwritten.
//  3. Pieces of the root are copied from the root that runs, and taken from messages. What comes is held to its hash as
//     it comes. What is copied is not: all of it is read back, and has to have the root hash that was signed, and where
//     it has another one the wrong pieces are looked for, and come from elsewhere. Its hash tree and its index are
//     written.
//  4. All entries go away that do not start what runs. The cluster part is written.
//  5. The partitions get the GUIDs that the new image looks for, by one change of the table.
//  6. A boot loader that differs from the one on the ESP is kept on the state partition, to be tried when the update
//     has shown that it stays (package bootloader). The firmware is given boot options for the case that the first
//     does not start. The node's record says what is being staged.
//  7. The new entry appears on the ESP with one write of one sector (package fat). It has the hash that was signed
//     before it has a name, and is read back.
//
// What runs, its partitions and its entry, are never written to.
package slot

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"spore/agent/bootinfo"
	"spore/agent/keydb"
	"spore/agent/nvcounter"
	"spore/agent/state"
	"spore/wire/update"
)

// Tries is how often the loader starts a new configuration that does not say that it is good.
const Tries = 3

// Device is an open disk or partition.
type Device interface {
	Disk
	// Fresh reads what is on the medium, past the host's memory; the note says why that is not possible, if it is
	// not.
	Fresh() (r io.ReaderAt, note string)
	// Through writes past the host's memory, as far as blocks are written whole. Sync flushes that, too.
	Through() io.WriterAt
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
	// SecureBoot says that the firmware starts only what is signed, Keys what it lets start then.
	SecureBoot bool
	Keys       keydb.Lists
	// Open opens a device; whole is a disk of which partitions are in use, and nobody else may have a partition.
	Open func(path string, whole bool) (Device, error)
	// Record is the path of the node's record, Work a directory for what has come of an update, Loader that of a boot
	// loader that is to be tried (package bootloader).
	Record, Work, Loader string
	// Vars is the directory of efivarfs; empty for a machine whose firmware keeps no boot options.
	Vars string
	// Counter is that of the node's TPM, which knows of a record that was put back. Nil where it has none, or where
	// NoCounter says why its TPM does not count.
	Counter   nvcounter.Device
	NoCounter error
	// BootID is that of the running kernel.
	BootID string
	Now    func() time.Time
	// Synchronized says that a time server keeps the clock that Now tells.
	Synchronized bool
	// Down lists units of the node's roles that are not up.
	Down []string
	// Versions are those of the services that keep data, in the root that runs. Unsafe says what of the data that
	// newer ones wrote older ones do not read on this node; empty for nothing. Nil asks nobody.
	Versions map[string]string
	Unsafe   func(newer, older map[string]string) string
	// Look looks at a root on one device with its hash tree on another, which are whole, before anything starts it.
	// What is refused ends the update, what is said is told. Nil looks at nothing.
	Look func(root, tree, rootHash string) (refused, said []string)
	// Say reports progress.
	Say func(string)
}

// Refusal is an error that means: nothing was written, and what is asked for cannot be.
type Refusal struct{ Reason string }

func (r Refusal) Error() string { return r.Reason }

func refuse(format string, a ...any) error { return Refusal{fmt.Sprintf(format, a...)} }

// Result says what was done.
type Result struct {
	// Lacks is what is missing before the update can be started; nil when nothing is.
	Lacks *update.Lack
	// Change says what the update makes different.
	Change *update.Change
	// Entry is the new image on the ESP.
	Entry string
	// Unchanged says that the node runs this already; nothing was written.
	Unchanged bool
	// Device is the slot that the cluster part was written to, where the root stays.
	Device string
	// NewRoot says that it takes a start.
	NewRoot bool
	// Note says how the medium was read back where that was not past the host's memory.
	Note string
}

// Stage takes a message, and writes the update when all of it is there. It can be cut off at any point and run again.
func Stage(m Machine, msg *Message, wish Wish) (Result, error) {
	r, damaged := ReadRecord(m.Record)
	if damaged != nil && !msg.Head.Force {
		return Result{}, refuse("%v; so it is not known which updates are older than what it took: push the newest "+
			"folder again with --force, by which the node begins a new record", damaged)
	}
	taken, lost := m.counted(r)
	if err := m.fits(msg.Head, wish, r, taken, lost); err != nil {
		return Result{}, err
	}
	if damaged != nil {
		m.Say(damaged.Error() + "; it is begun anew, as --force says")
	}
	if !sameHash(msg.Head.ClusterHash, m.Boot.ClusterHash) || !sameHash(msg.Head.RootHash, m.Boot.RootHash) {
		return m.stage(msg, wish, r)
	}
	fresh, err := m.bringsLoader(msg.Head)
	if err != nil {
		return Result{}, err
	}
	var loader Result
	if fresh {
		if loader, err = m.stage(msg, wish, r); err != nil || loader.Lacks != nil || wish.DryRun {
			return loader, err
		}
	}
	out, err := m.alreadyRuns(msg.Head, wish, r)
	out.Change = loader.Change
	return out, err
}

// stage takes a message of an update of which something does not run yet.
func (m Machine) stage(msg *Message, wish Wish, r Record) (Result, error) {
	w, err := m.open(msg.Head, wish.DryRun)
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	if err := w.look(wish.GiveUp); err != nil {
		return Result{}, err
	}
	if entry, ok, err := w.isStaged(r, wish.Later); err != nil {
		return Result{}, err
	} else if ok {
		return w.again(entry, r)
	}
	if err := w.data(); err != nil {
		return Result{}, err
	}
	t, err := w.begin()
	if err != nil {
		return Result{}, err
	}
	defer t.close()
	out, err := t.run(msg, r)
	var refused Refusal
	if errors.As(err, &refused) && !wish.DryRun {
		err = errors.Join(err, m.dropWork())
	}
	return out, err
}

// data refuses a root whose programs do not read what those of the root that runs have written.
func (w *writer) data() error {
	if !w.newRoot || w.m.Unsafe == nil || w.head.Force {
		return nil
	}
	if why := w.m.Unsafe(w.m.Versions, w.head.Root.Versions); why != "" {
		return refuse("the update has older programs than what runs, and they would not read this node's data: %s; "+
			"build with the versions that run or newer ones, or push with --force where the data may be lost", why)
	}
	return nil
}

// run takes the objects of a message, and writes the update where nothing lacks.
func (t *transfer) run(msg *Message, r Record) (Result, error) {
	w := t.w
	if err := t.take(msg); err != nil {
		return Result{}, err
	}
	lacks := t.lacks()
	if w.dry {
		change, err := w.change()
		return Result{Lacks: lacks, Change: change, NewRoot: w.newRoot}, err
	}
	if lacks != nil {
		return Result{Lacks: lacks, NewRoot: w.newRoot}, nil
	}
	return t.write(r)
}

// change says what the update makes different.
func (w *writer) change() (*update.Change, error) {
	another, err := w.anotherUKI()
	if err != nil {
		return nil, err
	}
	c := &update.Change{Root: w.newRoot, UKI: another, To: w.head.Root.Versions, Risks: w.risks}
	if c.Loader, err = w.newLoader(); err != nil {
		return nil, err
	}
	c.Loader = c.Loader || w.kept
	if w.newRoot {
		c.From = w.m.Versions
	} else {
		c.From = c.To
	}
	return c, nil
}

// anotherUKI tells whether the UKI of the update is another one than the one that runs. One that starts something else
// is: its command line names that.
func (w *writer) anotherUKI() (bool, error) {
	runs := w.entries.running.content
	if w.newRoot || w.newCluster || runs.Size() != w.head.UKI.Size {
		return true, nil
	}
	sum, err := update.Sum(io.NewSectionReader(runs, 0, runs.Size()))
	if err != nil {
		return false, fmt.Errorf("read the UKI that runs: %w", err)
	}
	return sum != w.head.UKI, nil
}

// write puts an update of which all pieces are there on the disk.
func (t *transfer) write(r Record) (Result, error) {
	w := t.w
	s, err := t.source()
	if err != nil {
		return Result{}, err
	}
	if err := w.startsHere(s); err != nil {
		return Result{}, t.orKeptWrong(s, err)
	}
	if !w.newRoot && !w.newCluster {
		change, err := w.change()
		if err == nil {
			w.fallBack()
			err = w.keepLoader(s)
		}
		return Result{Change: change}, err
	}
	if t.root != nil {
		if err := t.writeRoot(); err != nil {
			return Result{}, err
		}
		if lacks := t.lacks(); lacks != nil {
			return Result{Lacks: lacks, NewRoot: w.newRoot}, nil
		}
		if err := w.lookAtRoot(); err != nil {
			return Result{}, err
		}
	}
	if err := w.clear(anyEntry); err != nil {
		return Result{}, err
	}
	if w.newCluster {
		if err := w.writeCluster(s); err != nil {
			return Result{}, err
		}
	}
	if err := w.nameSystem(); err != nil {
		return Result{}, err
	}
	if err := w.keepLoader(s); err != nil {
		return Result{}, err
	}
	w.fallBack()
	out, err := w.start(s, r)
	if err != nil {
		return out, t.orKeptWrong(s, err)
	}
	return out, w.m.dropWork()
}

// writeRoot holds the root in the free slot to its hash, and writes its hash tree. Where pieces were copied from the
// root that runs and do not make up the new one, the wrong ones are found, and are lacking again: they come from
// elsewhere then, and each is held to its hash.
func (t *transfer) writeRoot() error {
	w := t.w
	w.m.Say("reading the root back")
	tree, err := w.checkRoot()
	if errors.Is(err, errDiffers) && t.root.unheld {
		w.m.Say("the new root is not right: looking for pieces that the root that runs does not have as its index says")
		if wrong, err := t.dropWrong(); wrong > 0 || err != nil {
			return err
		}
	}
	if errors.Is(err, errDiffers) {
		// Nobody shall take it for what its GUIDs say, if they do.
		t.root.forget()
		return errors.Join(fmt.Errorf("the root: all of its pieces were right when they were written, and "+
			"together they do not have "+
			"its root hash: %w, or push again", err), t.openSlot())
	}
	if err != nil {
		return err
	}
	index, err := t.root.index.EncodeBlocks()
	if err != nil {
		return err
	}
	return w.writeVerity(tree, index)
}

// lookAtRoot refuses a root by what is in it.
func (w *writer) lookAtRoot() error {
	if w.m.Look == nil {
		return nil
	}
	// Whoever looks has the kernel map them, which wants them for itself.
	if err := errors.Join(w.root.Close(), w.verity.Close()); err != nil {
		return err
	}
	w.root, w.verity = nil, nil
	free := w.free
	refused, said := w.m.Look(w.m.Partition(free.root.Number), w.m.Partition(free.verity.Number), w.head.RootHash)
	if len(refused) > 0 && !w.head.Force {
		return refuse("this machine would not come up with the update as it does now: %s; build an image with "+
			"what is missing, or push with --force where that is as it should be", strings.Join(refused, "; "))
	}
	w.risks = append(refused, said...)
	for _, risk := range w.risks {
		w.m.Say(risk)
	}
	return nil
}

// start has the loader start the update next.
func (w *writer) start(s source, r Record) (Result, error) {
	there := []Entry{w.entries.running.Entry}
	for _, e := range w.entries.others {
		there = append(there, e.Entry)
	}
	e := newEntry(there, w.head.UKI.SHA256)
	kernel, err := sameKernel(w.entries.running.content, s.UKI)
	if err != nil {
		return Result{}, err
	}
	b := w.m.Boot
	fresh := Record{
		Serial: max(w.head.Serial, r.Serial), Issued: w.head.Issued,
		ClusterHash: w.head.ClusterHash, RootHash: w.head.RootHash,
		Previous: b.ClusterHash, PreviousRoot: b.RootHash, PreviousVersions: w.m.Versions, NewKernel: !kernel,
		Entry: e.Stem, State: Staging, BootID: w.m.BootID, Down: w.m.Down,
	}
	if err := w.m.keepRecord(&fresh, r); err != nil {
		return Result{}, err
	}
	if err := w.writeEntry(s, e); err != nil {
		return Result{}, err
	}
	fresh.State = Staged
	change, err := w.change()
	if err != nil {
		return Result{}, err
	}
	out := Result{Entry: e.File(), Note: w.note, NewRoot: w.newRoot, Change: change}
	if !w.newRoot {
		out.Device = w.m.Partition(w.free.cluster.Number)
	}
	return out, fresh.Write(w.m.Record)
}

// isStaged tells whether the next start takes an update already. One of a configuration alone is written again: the
// node that runs may be able to take it by now, unless that is left for later.
func (w *writer) isStaged(r Record, later bool) (onESP, bool, error) {
	h, b := w.head, w.m.Boot
	if !w.newRoot && !later || r.State != Staged || !r.Is(h.RootHash, h.ClusterHash) || !r.Follows(b.RootHash, b.ClusterHash) {
		return onESP{}, false, nil
	}
	for _, e := range w.entries.others {
		if e.Stem != r.Entry || !e.newerThan(w.entries.running.Entry) || !w.startable(e) {
			continue
		}
		got, err := update.Sum(e.content)
		if err != nil {
			return e, false, fmt.Errorf("the ESP: %w", err)
		}
		if got == h.UKI {
			return e, true, nil
		}
	}
	return onESP{}, false, nil
}

// again answers as when it was staged, and has an older one be refused from now on.
func (w *writer) again(e onESP, r Record) (Result, error) {
	out := Result{Entry: e.file.Name, NewRoot: w.newRoot}
	if w.dry {
		change, err := w.change()
		out.Change = change
		return out, err
	}
	if err := w.m.dropWork(); err != nil || r.Serial >= w.head.Serial {
		return out, err
	}
	fresh := r
	fresh.Serial, fresh.Issued = w.head.Serial, w.head.Issued
	return out, w.m.keepRecord(&fresh, r)
}

// counted is the highest serial that the node took as far as its TPM knows; lost says why it does not know, although
// it counted when the record was written.
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
func (m Machine) fits(h update.Head, wish Wish, r Record, taken uint64, lost error) error {
	b := m.Boot
	same := r.Is(h.RootHash, h.ClusterHash)
	// Of two with one serial the keys were restored from a copy, and have signed another one since.
	older := h.Serial < r.Serial || h.Serial == r.Serial && !same
	switch {
	case !strings.EqualFold(h.Cluster, m.Cluster):
		return refuse("the update is of the cluster with the id %s, and this node belongs to "+
			"%s", h.Cluster, m.Cluster)
	case !slices.Contains(h.Nodes, m.Node):
		return refuse("the update has no node %s: a machine that leaves the cluster is turned off, and starts "+
			"again from another image", m.Node)
	case b.NetworkURL != "":
		return refuse("this machine was started from the network (%s) and has no disk of its own to keep an "+
			"update on: give the server the new image (`spore build`, `spore customize`), and restart the "+
			"machine", b.NetworkURL)
	case b.BootDisk.Path == "":
		return refuse("it is not known which disk this machine was started from")
	case b.BootDisk.Optical:
		return refuse("this machine was started from the disc in %s, to which nothing can be written: start it "+
			"from a disc with the new image, or install it (`spore-agent install`)", b.BootDisk.Path)
	case !b.EFI || b.ESP == "":
		return refuse("this machine was not started by UEFI firmware from an EFI partition, so that no start " +
			"could be counted and a bad update would stay: write it anew with `spore flash`")
	case m.State.Kind != state.Partition:
		return refuse("this node has no state partition and would forget what was pushed to it: %s", m.State.Warning)
	case wish.Pull && !m.Synchronized:
		return refuse("no time server keeps this node's clock, so that it is not known whether the update is " +
			"still new: the node takes nothing by itself until then; an operator's push works (`spore push`)")
	case wish.Pull && !h.Until.IsZero() && m.Now().After(h.Until):
		return refuse("the update was to be taken until %s, and that is over: sign a newer one (`spore push "+
			"--output`)", h.Until.Format(time.RFC3339))
	case wish.Pull && same && h.Serial <= r.Serial && m.left(r):
		return refuse("the node went back from this update (%d): it takes it by itself no more, and takes a newer "+
			"one, or this one when it is pushed (`spore push`)", h.Serial)
	case older && !h.Force:
		return refuse("the update is older (%d) than the last one that this node took (%d): push its folder again, "+
			"which signs it anew, with --force where the keys were restored from a copy", h.Serial, r.Serial)
	case h.Serial < taken && !h.Force:
		return refuse("the update is older (%d) than the last one that this node's TPM has counted (%d), "+
			"although the node's state knows of %d alone: the state was put back to an older copy, or the TPM was "+
			"cleared; "+
			"push its folder again, which signs it anew, with --force where that is refused "+
			"too", h.Serial, taken, r.Serial)
	case lost != nil && !h.Force:
		return refuse("the TPM that counted what this node took does not say how far it got: %v; "+
			"mend that, or push with --force, by which the node trusts its state alone", lost)
	// Whoever kept a file that was forced once could go back to it for ever.
	case (older || h.Serial < taken || lost != nil) && !same && !h.Issued.After(r.Issued):
		return refuse("the update was signed with --force at %s, and the last one that this node took after that "+
			"(%s): "+
			"push its folder again, which signs it "+
			"anew", h.Issued.Format(time.RFC3339), r.Issued.Format(time.RFC3339))
	}
	return nil
}

// left tells whether the update of the record was started, or was to be, and what runs is what was before it.
func (m Machine) left(r Record) bool {
	if !r.Follows(m.Boot.RootHash, m.Boot.ClusterHash) {
		return false
	}
	switch r.State {
	case Staging:
		return false
	case Staged:
		return r.BootID != m.BootID
	}
	return true
}

// alreadyRuns records the serial of what runs, so that an older update is refused from now on.
func (m Machine) alreadyRuns(h update.Head, wish Wish, r Record) (Result, error) {
	out := Result{Entry: r.Entry, Unchanged: true}
	same := r.Is(h.RootHash, h.ClusterHash)
	// On trial, its record is the trial's.
	if wish.DryRun || same && (r.Serial == h.Serial || r.State != Kept) {
		return out, nil
	}
	w, err := m.open(h, false)
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	if err := w.look(false); err != nil {
		return Result{}, err
	}
	running := w.entries.running.Entry
	// One that was staged and never started shall not be started by the next restart. What ran before stays.
	if err := w.clear(func(e onESP) bool { return e.newerThan(running) }); err != nil {
		return Result{}, err
	}
	if err := m.dropWork(); err != nil {
		return Result{}, err
	}
	fresh := Record{ClusterHash: h.ClusterHash, RootHash: h.RootHash, Entry: running.Stem}
	if same {
		fresh = r
	}
	fresh.Serial, fresh.Issued, fresh.State, fresh.BootID = max(h.Serial, r.Serial), h.Issued, Kept, m.BootID
	out.Entry = running.File()
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
