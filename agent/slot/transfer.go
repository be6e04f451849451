package slot

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spore/agent/bootdisk"
	"spore/storage/atomicfile"
	"spore/storage/pieces"
	"spore/wire/update"
)

// transfer is an update on its way to this node. What has come of it is in the working directory, and of its root in
// the free slot.
type transfer struct {
	w *writer
	// boot is of UKI, cluster part and boot loader; root is nil where the update has the root that runs.
	boot, root *share
	files      *bootFiles
	// opened says that the free slot may be written to.
	opened bool
}

// begun is what the working directory remembers of the update that is on its way.
type begun struct {
	Serial uint64 `json:"serial"`
}

// begin looks at what is there of an update already.
func (w *writer) begin() (_ *transfer, err error) {
	t := &transfer{w: w}
	dir := w.m.Work
	if !w.dry {
		if err := t.claim(); err != nil {
			return nil, err
		}
	}
	h := w.head
	t.boot = &share{dir: dir, name: "boot", size: h.UKI.Size + h.Part.Size + h.Loader.Size}
	t.boot.key = sha256.Sum256(fmt.Appendln(nil, "boot", h.Boot.SHA256, h.UKI.SHA256, h.Part.SHA256, h.Loader.SHA256))
	shares := []struct {
		s    *share
		blob update.Blob
	}{{t.boot, h.Boot}}
	if w.newRoot {
		t.root = &share{dir: dir, name: "root", size: h.Root.Size}
		// The place is a part of it: after a start of the other system, the free slot is another one.
		place := []any{w.table.Disk, w.free.root.Number, w.free.verity.Number}
		t.root.key = sha256.Sum256(fmt.Appendln(nil, "root", h.RootHash, h.Root.Index.SHA256, place))
		shares = append(shares, struct {
			s    *share
			blob update.Blob
		}{t.root, h.Root.Index})
	}
	for _, c := range shares {
		sum, err := pieces.ParseSum(c.blob.SHA256)
		if err != nil {
			return nil, err
		}
		c.s.blob = sizedBlob{c.blob.Size, sum}
		c.s.load()
	}
	if t.root != nil {
		if err := t.recognize(); err != nil {
			return nil, err
		}
	}
	if w.dry {
		return t, nil
	}
	if t.root != nil {
		t.root.out, t.root.atOnce = pastMemory{w.root}, bulk
	}
	t.files, err = openBootFiles(dir, h, t.boot.left < len(t.boot.index))
	t.boot.out = t.files
	return t, err
}

// claim makes the working directory that of this update. Of two that are on their way at once the newer one is taken.
func (t *transfer) claim() error {
	dir, serial := t.w.m.Work, t.w.head.Serial
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the update: %w", err)
	}
	name := filepath.Join(dir, "begun.json")
	var b begun
	if err := atomicfile.ReadJSON(name, &b); err == nil && b.Serial > serial && !t.w.head.Force {
		return refuse("a newer update (%d) is on its way to this node already: let it be pushed to its end, or "+
			"push the folder of this one (%d) again, which signs it anew", b.Serial, serial)
	} else if err == nil && b.Serial == serial {
		return nil
	}
	data, err := json.Marshal(begun{serial})
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	return atomicfile.WriteDurable(name, append(data, '\n'), 0o600)
}

// recognize finds the root of the update in the free slot, as an earlier update left it whole: its partitions have
// the GUIDs that are given to what was checked.
func (t *transfer) recognize() error {
	w := t.w
	wanted, err := bootdisk.WantedFor(w.head.RootHash, w.m.Boot.ClusterHash)
	if err != nil {
		return err
	}
	if w.free.root.GUID != wanted.Root || w.free.verity.GUID != wanted.Verity {
		return nil
	}
	if t.root.index == nil {
		x, err := pieces.ReadAt(w.part(w.free.verity), treeSize(w.head))
		if err != nil {
			return nil // It is asked for.
		}
		data, err := x.Encode()
		if err != nil || pieces.SumOf(data) != t.root.blob.sum || t.root.setIndex(data) != nil {
			return nil
		}
	}
	for i := range t.root.index {
		t.root.mark(i)
	}
	t.root.searched = true
	return nil
}

func (t *transfer) close() {
	if t.files != nil {
		t.files.close()
	}
}

// take takes the objects of a message.
func (t *transfer) take(msg *Message) error {
	err := t.advance()
	if err == nil {
		err = update.Objects(msg.objects, t.object)
	}
	if err == nil {
		err = t.advance()
	}
	// What came is kept, also where the message was cut off.
	for _, s := range t.shares() {
		err = errors.Join(err, s.save())
	}
	return err
}

func (t *transfer) shares() []*share {
	if t.root == nil {
		return []*share{t.boot}
	}
	return []*share{t.boot, t.root}
}

// object takes one object; what is not needed, or not yet, is left.
func (t *transfer) object(content []byte) error {
	sum := pieces.SumOf(content)
	for _, s := range t.shares() {
		if s.index == nil && sum == s.blob.sum && int64(len(content)) == s.blob.size {
			if err := s.takeIndex(content); err != nil {
				return err
			}
			return t.advance()
		}
		if s.index == nil || t.w.dry {
			continue
		}
		// Before the first byte of a root is written, it is known that its UKI would be started.
		if s == t.root && !t.boot.checked {
			continue
		}
		was := s.left
		if s == t.root && s.lacks(sum, int64(len(content))) {
			if err := t.openSlot(); err != nil {
				return err
			}
		}
		if err := s.putAll(sum, content); err != nil {
			return err
		}
		if was > 0 && s.left == 0 {
			if err := t.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance does what can be done with what is there: what the machine has of the update is copied, and looked at.
func (t *transfer) advance() error {
	if t.boot.index == nil || t.root != nil && t.root.index == nil {
		return nil
	}
	if !t.boot.searched {
		if err := t.searchBoot(); err != nil {
			return err
		}
	}
	if !t.boot.checked && t.boot.left == 0 && !t.w.dry {
		if err := t.checkBoot(); err != nil {
			return err
		}
	}
	if t.root != nil && !t.root.searched && (t.boot.checked || t.w.dry) {
		return t.searchRoot()
	}
	return nil
}

// checkBoot refuses a UKI or a boot loader that this machine would not start, before anything of the disk is written.
// Its pieces were held to their hashes as they came; all of it is held to the signed one where it is started from, on
// the ESP.
func (t *transfer) checkBoot() error {
	if err := t.boot.save(); err != nil {
		return err
	}
	s := t.files.source(t.w.head)
	if err := cmp.Or(s.check(), t.w.startsHere(s)); err != nil {
		return t.orKeptWrong(s, err)
	}
	t.boot.checked = true
	return t.boot.save()
}

// source is the UKI, the cluster part and the boot loader of the update, held to each other.
func (t *transfer) source() (source, error) {
	if err := t.boot.save(); err != nil {
		return source{}, err
	}
	s := t.files.source(t.w.head)
	if err := cmp.Or(s.hold(), s.check()); err != nil {
		return source{}, t.orKeptWrong(s, err)
	}
	return s, nil
}

// orKeptWrong is the error of something that is wrong with UKI, cluster part or boot loader, or another one where they
// are not what was signed: their pieces were right as they came, so that the working files have lost something. All of
// them are asked for again then.
func (t *transfer) orKeptWrong(s source, err error) error {
	if kept := cmp.Or(s.hold(), s.holdUKI()); kept != nil {
		t.boot.forget()
		return kept
	}
	return err
}

// forget has all pieces be asked for again.
func (s *share) forget() {
	s.progress, s.kept = newProgress(len(s.index)), nil
	os.Remove(s.file(".progress"))
}

// openSlot has nobody look for the free slot, before the first byte of it is overwritten.
func (t *transfer) openSlot() error {
	if t.opened {
		return nil
	}
	w := t.w
	// What starts the root that runs stays: it is overwritten, if at all, when all of the update is there.
	if err := w.clear(func(e onESP) bool { return e.root != "" && !sameHash(e.root, w.m.Boot.RootHash) }); err != nil {
		return err
	}
	if err := w.release(w.free.root, w.free.verity); err != nil {
		return err
	}
	t.opened = true
	return nil
}

// lacks is what the node needs yet: indexes first, then UKI, cluster part and boot loader, then the root in its order.
func (t *transfer) lacks() *update.Lack {
	l := update.Lack{Objects: []string{}}
	add := func(sum pieces.Sum, size int64) {
		l.Count++
		l.Bytes += size
		if len(l.Objects) < update.MaxAsked {
			l.Objects = append(l.Objects, sum.String())
		}
	}
	for _, s := range t.shares() {
		if s.index == nil {
			add(s.blob.sum, s.blob.size)
		}
	}
	var there func(pieces.Sum) bool
	for _, s := range t.shares() {
		if s.index == nil {
			continue
		}
		if s == t.root && !s.searched {
			there = t.expected()
		}
		for i, p := range s.index {
			if !s.has(i) && (there == nil || !there(p.Sum)) && s.first(i) {
				add(p.Sum, p.Size)
			}
		}
	}
	if l.Count == 0 {
		return nil
	}
	return &l
}

// dropWork removes all working files.
func (m Machine) dropWork() error {
	if err := os.RemoveAll(m.Work); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the working files of an update: %w", err)
	}
	return nil
}
