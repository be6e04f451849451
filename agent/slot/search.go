package slot

import (
	"bytes"
	"io"

	"spore/agent/bootdisk"
	"spore/agent/format/verity"
	"spore/storage/gpt"
	"spore/storage/pieces"
)

// searchBoot copies what the UKI, the cluster part and the boot loader that run have of those of the update.
func (t *transfer) searchBoot() error {
	w := t.w
	content := w.entries.running.content
	x, err := pieces.OfProgram(content, content.Size())
	if err == nil {
		err = t.copy(t.boot, content, pieces.NewFinder(x), x)
	} else {
		w.m.Say("of the UKI that runs nothing is taken: " + err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	// Where the pieces of these end is not known: one in the same place counts.
	if err := t.samePlace(w.part(w.runningCluster()), w.head.UKI.Size); err != nil {
		return err
	}
	if loader, err := w.loader(); err == nil {
		if err := t.samePlace(bytes.NewReader(loader), w.head.UKI.Size+w.head.Part.Size); err != nil {
			return err
		}
	}
	t.boot.searched = true
	return t.boot.save()
}

// samePlace copies the pieces that something has in the same place, of which the index lists them from a place on.
func (t *transfer) samePlace(from io.ReaderAt, begin int64) error {
	buf := make([]byte, pieces.MaxPiece)
	for i, p := range t.boot.index {
		at := t.boot.find.Offset(i) - begin
		if at < 0 || t.boot.has(i) {
			continue
		}
		b := buf[:p.Size]
		if n, _ := from.ReadAt(b, at); n < len(b) || !p.Same(b) {
			continue
		}
		if err := t.boot.put(i, b); err != nil {
			return err
		}
	}
	return nil
}

// runningCluster is the partition of the cluster part that runs.
func (w *writer) runningCluster() gpt.Partition {
	wanted, err := bootdisk.WantedFor(w.m.Boot.RootHash, w.m.Boot.ClusterHash)
	if err != nil {
		return gpt.Partition{}
	}
	p, _ := w.table.ByGUID(wanted.Cluster)
	return p
}

// copy copies the pieces of a share that something else has too, of which it is known where. Each is held to its
// hash. What cannot be read is not there.
func (t *transfer) copy(s *share, from io.ReaderAt, find *pieces.Finder, index pieces.Index) error {
	buf := make([]byte, pieces.MaxPiece)
	for i, p := range s.index {
		if s.has(i) {
			continue
		}
		for _, n := range find.Find(p.Sum) {
			if index[n].Size != p.Size {
				continue
			}
			b := buf[:p.Size]
			if s.out != nil {
				if got, _ := from.ReadAt(b, find.Offset(int(n))); got < len(b) || !p.Same(b) {
					continue
				}
			}
			if err := s.put(i, b); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// searchRoot copies the pieces of the root that runs.
func (t *transfer) searchRoot() error {
	w := t.w
	x, err := w.runningIndex()
	if err != nil {
		w.m.Say("of the root that runs nothing is taken: " + err.Error())
	}
	if !w.dry {
		if err := t.openSlot(); err != nil {
			return err
		}
		w.m.Say("copying what the root that runs has of the new one")
	}
	if err := t.copy(t.root, w.part(w.runs.root), pieces.NewFinder(x), x); err != nil {
		return err
	}
	t.root.searched = true
	return t.root.save()
}

// runningIndex is the index of the root that runs, behind its hash tree. It is not trusted.
func (w *writer) runningIndex() (pieces.Index, error) {
	r := w.part(w.runs.verity)
	v, err := verity.Separate(r, r.Size(), w.runs.root.Size)
	if err != nil {
		return nil, err
	}
	return pieces.ReadAt(r, (v.HashBlock+1+v.TreeBlocks())*verity.BlockSize)
}

// expected tells whether the root that runs should have a piece, before it was looked at.
func (t *transfer) expected() func(pieces.Sum) bool {
	x, err := t.w.runningIndex()
	if err != nil {
		return func(pieces.Sum) bool { return false }
	}
	f := pieces.NewFinder(x)
	return func(sum pieces.Sum) bool { return len(f.Find(sum)) > 0 }
}
