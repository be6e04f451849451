package slot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"

	"spore/agent/bootdisk"
	"spore/storage/fat"
)

// Dir is where entries are on the ESP.
const Dir = "/EFI/Linux"

// espReserve is kept free on the ESP, in bytes: for the loader's own files, and a bundle.
const espReserve = 4 << 20

// onESP is an entry on the ESP.
type onESP struct {
	Entry
	file    fat.Entry
	content *io.SectionReader
	// root and cluster are the hashes that its command line names; empty when it is none of ours.
	root, cluster string
}

// bad tells whether the loader does not start it by itself.
func (e onESP) bad() bool { return e.Counted && e.Left == 0 }

// entries are those on the ESP.
type entries struct {
	// running is the one that starts what runs; others are all others.
	running onESP
	others  []onESP
	// room is what is free on the ESP, in bytes.
	room int64
}

// newerThan tells whether the loader starts it rather than another one.
func (e onESP) newerThan(other Entry) bool { return !e.bad() && e.generation() >= other.generation() }

// readEntries lists the entries. Of two that start what runs, the counted one is the one that runs.
func (m Machine) readEntries(f *fat.FS) (all entries, err error) {
	if all.room, err = f.Free(); err != nil {
		return all, err
	}
	list, err := f.List(Dir)
	if err != nil {
		return all, err
	}
	for _, file := range list {
		name, ok := ParseEntry(file.Name)
		if !ok || file.Dir {
			continue
		}
		e := onESP{Entry: name, file: file}
		if e.content, err = f.Open(file); err != nil {
			return all, err
		}
		if e.root, e.cluster, err = named(e.content); err != nil {
			return all, fmt.Errorf("%s: %w", file.Name, err)
		}
		if !sameHash(e.root, m.Boot.RootHash) || !sameHash(e.cluster, m.Boot.ClusterHash) {
			all.others = append(all.others, e)
			continue
		}
		if all.running.content == nil || e.Counted {
			all.running = e
		}
	}
	return all, nil
}

// Running is the entry on the ESP that starts what runs.
func (m Machine) Running() (Entry, error) {
	var out Entry
	err := m.withESP(func(e *fat.Editor) error {
		all, err := m.readEntries(e.FS)
		if err == nil && all.running.content == nil {
			err = fmt.Errorf("no entry in %s starts what runs", Dir)
		}
		out = all.running.Entry
		return err
	})
	return out, err
}

// Rename gives an entry another counter, or none.
func (m Machine) Rename(from, to Entry) error {
	if from == to {
		return nil
	}
	return m.withESP(func(e *fat.Editor) error { return e.Rename(Dir, from.File(), to.File()) })
}

// Remove takes a file of an entry off the ESP.
func (m Machine) Remove(file string) error {
	return m.withESP(func(e *fat.Editor) error { return e.Remove(Dir, file) })
}

func (m Machine) withESP(do func(*fat.Editor) error) error {
	d, err := m.Open(m.Boot.ESP, false)
	if err != nil {
		return fmt.Errorf("open the ESP: %w", err)
	}
	defer d.Close()
	e, err := fat.Edit(d, d.Size())
	if err == nil {
		err = do(e)
	}
	if err != nil {
		return fmt.Errorf("the ESP %s: %w", m.Boot.ESP, err)
	}
	return nil
}

// look finds out what is on the ESP, and refuses what does not fit.
func (w *writer) look(giveUp bool) error {
	var err error
	if w.files, err = fat.Open(w.espDevice, w.espDevice.Size()); err != nil {
		return fmt.Errorf("the ESP %s: %w", w.m.Boot.ESP, err)
	}
	if w.entries, err = w.m.readEntries(w.files); err != nil {
		return fmt.Errorf("the ESP %s: %w", w.m.Boot.ESP, err)
	}
	running, room := w.entries.running, w.room()
	if room < w.head.UKI.Size+espReserve && !w.dry {
		e, err := w.edit()
		if err != nil {
			return err
		}
		w.entries.room = e.Free()
		room = w.room()
	}
	switch {
	case running.content == nil:
		return refuse("the ESP %s has no entry that starts what runs, so that there would be nothing to go back "+
			"to: write the node anew with `spore flash`", w.m.Boot.ESP)
	case running.bad():
		return refuse("the entry that runs, %s, is marked as bad: it was started by hand; restart the machine, "+
			"and push again", running.File())
	case running.Counted:
		return refuse("the entry that runs, %s, is on trial itself: wait until the node's roles are up with "+
			"it", running.File())
	case room < w.head.UKI.Size+espReserve:
		return refuse("the ESP has room for %d MiB, and %d are needed: delete files on it that are not Spore's, "+
			"or write the node anew with a larger slots.esp", room>>20, (w.head.UKI.Size+espReserve)>>20+1)
	}
	if back, ok := w.wayBack(); ok && !w.newRoot && w.newCluster && !giveUp {
		return refuse("the node would lose its way back to the root %.16s…, which ran before: say "+
			"--give-up-way-back when that is not needed any more", back.root)
	}
	return w.fit()
}

// room is what an image on the ESP may have, in bytes: what is free, and what other entries than the running one have.
func (w *writer) room() int64 {
	room := w.entries.room
	for _, e := range w.entries.others {
		room += e.file.Size
	}
	return room
}

// wayBack is the entry of another root that ran before, where all that it starts is there.
func (w *writer) wayBack() (onESP, bool) {
	for _, e := range w.entries.others {
		another := e.root != "" && !sameHash(e.root, w.m.Boot.RootHash)
		if another && !e.Counted && !e.newerThan(w.entries.running.Entry) && w.startable(e) {
			return e, true
		}
	}
	return onESP{}, false
}

// startable tells whether the partition table has all that an entry starts.
func (w *writer) startable(e onESP) bool {
	wanted, err := bootdisk.WantedFor(e.root, e.cluster)
	if err != nil {
		return false
	}
	_, root := w.table.ByGUID(wanted.Root)
	_, verity := w.table.ByGUID(wanted.Verity)
	_, cluster := w.table.ByGUID(wanted.Cluster)
	return root && verity && cluster
}

// clear removes entries of those that start something else than what runs.
func (w *writer) clear(which func(onESP) bool) error {
	var kept []onESP
	for _, e := range w.entries.others {
		if !which(e) {
			kept = append(kept, e)
			continue
		}
		w.m.Say("removing " + e.file.Name + " from the ESP")
		esp, err := w.edit()
		if err != nil {
			return err
		}
		if err := esp.Remove(Dir, e.file.Name); err != nil {
			return fmt.Errorf("the ESP: %w", err)
		}
	}
	w.entries.others = kept
	return nil
}

func anyEntry(onESP) bool { return true }

// writeEntry writes the UKI and reads it back from the disk.
func (w *writer) writeEntry(s source, e Entry) error {
	w.m.Say("writing " + e.File() + " to the ESP")
	// It is held to its hash before it has a name: the loader starts the newest one.
	content := &held{from: io.NewSectionReader(s.UKI, 0, s.UKI.Size()), left: s.UKI.Size(), sum: sha256.New(), want: s.Head.UKI.SHA256}
	esp, err := w.edit()
	if err != nil {
		return err
	}
	if err := esp.Create(Dir, e.File(), s.UKI.Size(), content, w.m.Now()); err != nil {
		return fmt.Errorf("the ESP: %w", err)
	}
	fresh, _ := w.espDevice.Fresh()
	err = readBack(fresh, w.espDevice.Size(), path.Join(Dir, e.File()), s.UKI)
	if err != nil {
		// It may be what the loader starts next.
		return errors.Join(fmt.Errorf("the UKI: %w", err), esp.Remove(Dir, e.File()))
	}
	return nil
}

// held reads content that has a hash; where it has another one, an error stands in the place of its end.
type held struct {
	from io.Reader
	left int64
	sum  hash.Hash
	want string
}

// errNotHeld is the error for content that was right as it came, and is not any more.
var errNotHeld = errors.New("it is not what was signed")

func (h *held) Read(b []byte) (int, error) {
	n, err := h.from.Read(b)
	h.sum.Write(b[:n])
	h.left -= int64(n)
	if h.left == 0 && n > 0 && hex.EncodeToString(h.sum.Sum(nil)) != h.want {
		return 0, errNotHeld
	}
	return n, err
}

// readBack compares a file on the ESP with the content that it was written from, which was held to its hash then: that
// costs less than one more hash.
func readBack(r io.ReaderAt, size int64, name string, want *io.SectionReader) error {
	f, err := fat.Open(r, size)
	if err != nil {
		return err
	}
	list, err := f.List(path.Dir(name))
	if err != nil {
		return err
	}
	e, ok := fat.Find(list, path.Base(name))
	if !ok || e.Size != want.Size() {
		return errDiffers
	}
	content, err := f.Open(e)
	if err != nil {
		return err
	}
	have, expected := make([]byte, piece), make([]byte, piece)
	for at := int64(0); at < e.Size; at += piece {
		n := min(piece, e.Size-at)
		if got, err := content.ReadAt(have[:n], at); int64(got) < n {
			return fmt.Errorf("read it back: %w", err)
		}
		if got, err := want.ReadAt(expected[:n], at); int64(got) < n {
			return fmt.Errorf("read the update: %w", err)
		}
		if !bytes.Equal(have[:n], expected[:n]) {
			return errDiffers
		}
	}
	return nil
}

// same compares what is on the disk with a hash.
func same(r io.Reader, want string) error {
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, r, make([]byte, piece)); err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errDiffers
	}
	return nil
}
