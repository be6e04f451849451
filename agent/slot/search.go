package slot

import (
	"bytes"
	"errors"
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
	var failed error
	err := pieces.EachOfProgram(content, content.Size(), func(piece []byte) error {
		failed = t.boot.putAll(pieces.SumOf(piece), piece)
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		w.m.Say("not all of the UKI that runs can be taken: " + err.Error())
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

// searchRoot copies the pieces of the root that runs. They are held to no hash of their own: that of the whole root, of
// what the slot holds in the end, covers them all, and almost always they are right.
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
	// What is copied is read once, and the root that runs has its own in the host's memory.
	disk, _ := w.disk.Fresh()
	from := io.NewSectionReader(disk, w.runs.root.Start, w.runs.root.Size)
	for _, r := range t.root.runs(x) {
		if err := t.root.copy(from, r); err != nil {
			return err
		}
	}
	t.root.searched = true
	return t.root.save()
}

// run is what two files have in common: so many pieces from the number first on, which follow each other from an
// offset of the other file on, too.
type run struct {
	first, count int
	from, size   int64
}

// runs are the pieces that are not there and that another file has by its index. None is longer than what is written
// until the progress is kept.
func (s *share) runs(other pieces.Index) (list []run) {
	find := pieces.NewFinder(other)
	next := 0 // The piece of the other file that follows the last run.
	for i, p := range s.index {
		if s.has(i) {
			continue
		}
		if last := len(list) - 1; last >= 0 && list[last].first+list[last].count == i && next < len(other) &&
			other[next] == p && list[last].size < saveEvery {
			list[last].count++
			list[last].size += p.Size
			next++
			continue
		}
		if at := find.Find(p.Sum); len(at) > 0 && other[at[0]].Size == p.Size {
			list = append(list, run{i, 1, find.Offset(int(at[0])), p.Size})
			next = int(at[0]) + 1
		}
	}
	return list
}

// copy copies a run of another file. What cannot be read is not there.
func (s *share) copy(from io.ReaderAt, r run) error {
	s.unheld = s.out != nil
	err := s.write(from, r.from, s.find.Offset(r.first), r.size)
	var failed unread
	switch {
	case errors.As(err, &failed) && r.count > 1:
		for i := r.first; i < r.first+r.count; i++ {
			size := s.index[i].Size
			if err := s.copy(from, run{i, 1, r.from, size}); err != nil {
				return err
			}
			r.from += size
		}
		return nil
	case errors.As(err, &failed):
		return nil
	case err != nil:
		return err
	}
	for i := r.first; i < r.first+r.count; i++ {
		s.mark(i)
	}
	return s.saveSome()
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
