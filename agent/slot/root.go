package slot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"spore/storage/pieces"
	"spore/storage/verity"
	"spore/wire/update"
)

// treeSize is how many bytes the hash tree of a root has; its index follows.
func treeSize(h update.Head) int64 { return verity.HashSize(h.Root.Size) }

// checkRoot reads the root of the update back from the medium and makes its hash tree, whose root hash has to be the
// signed one.
func (w *writer) checkRoot() (*verity.Hasher, error) {
	h := w.head
	salt, err := hex.DecodeString(h.Root.Salt)
	if err != nil {
		return nil, fmt.Errorf("internal error: the salt of a root: %w", err)
	}
	id, err := hex.DecodeString(h.Root.UUID)
	if err != nil || len(id) != 16 {
		return nil, fmt.Errorf("internal error: the UUID %q of a root", h.Root.UUID)
	}
	tree, err := verity.NewHasher(h.Root.Size, verity.Options{Salt: salt, UUID: [16]byte(id), Concurrency: 1})
	if err != nil {
		return nil, err
	}
	fresh, note := w.root.Fresh()
	w.note = note
	buf := make([]byte, bulk)
	for at := int64(0); at < h.Root.Size; at += int64(len(buf)) {
		buf = buf[:min(bulk, h.Root.Size-at)]
		if n, err := fresh.ReadAt(buf, at); n < len(buf) {
			return nil, fmt.Errorf("read the root back: %w", err)
		}
		if _, err := tree.WriteAt(buf, at); err != nil {
			return nil, err
		}
	}
	sum, _, err := tree.Finish(io.Discard)
	if err != nil {
		return nil, err
	}
	if hex.EncodeToString(sum[:]) != h.RootHash {
		return nil, errDiffers
	}
	return tree, nil
}

// dropWrong has all pieces that the free slot does not hold be asked for, and tells how many those are.
func (t *transfer) dropWrong() (wrong int, err error) {
	fresh, _ := t.w.root.Fresh()
	buf := make([]byte, pieces.MaxPiece)
	for i, p := range t.root.index {
		b := buf[:p.Size]
		if n, _ := fresh.ReadAt(b, t.root.find.Offset(i)); n == len(b) && p.Same(b) {
			continue
		}
		t.root.unmark(i)
		wrong++
	}
	// From now on a root that is not right is the disk's fault.
	t.root.unheld = false
	return wrong, t.root.save()
}

// writeVerity writes the hash tree of the root, and behind it the index of its pieces, for the update that comes
// after this one. An index for which there is no room is left out.
func (w *writer) writeVerity(tree *verity.Hasher, index []byte) error {
	behind := treeSize(w.head)
	if behind+int64(len(index)) > w.free.verity.Size {
		w.m.Say("the slot of the hash tree has no room for the index of the root's pieces: the update after this " +
			"one will be sent whole")
		index = make([]byte, min(int64(len(index)), w.free.verity.Size-behind, 12)) // So that no earlier one is read.
	}
	if w.verityHolds(tree, index) == nil {
		return nil
	}
	if err := w.release(w.free.root, w.free.verity); err != nil {
		return err
	}
	w.m.Say("writing the hash tree of the root")
	if _, _, err := tree.Finish(io.NewOffsetWriter(w.verity, 0)); err != nil {
		return err
	}
	if len(index) > 0 {
		if _, err := w.verity.WriteAt(index, behind); err != nil {
			return fmt.Errorf("write the index of the root: %w", err)
		}
	}
	if err := w.verity.Sync(); err != nil {
		return fmt.Errorf("write the hash tree of the root: %w", err)
	}
	err := w.verityHolds(tree, index)
	if errors.Is(err, errDiffers) {
		err = errDiffers
	}
	if err != nil {
		return fmt.Errorf("the hash tree of the root: %w", err)
	}
	return nil
}

// verityHolds compares what is on the medium with a tree and an index.
func (w *writer) verityHolds(tree *verity.Hasher, index []byte) error {
	fresh, _ := w.verity.Fresh()
	c := &comparer{r: fresh}
	_, _, err := tree.Finish(c)
	if err == nil {
		_, err = c.Write(index)
	}
	return err
}

// comparer compares what is written to it with what a device holds.
type comparer struct {
	r   io.ReaderAt
	at  int64
	buf []byte
}

func (c *comparer) Write(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, piece)
	}
	for done := 0; done < len(p); {
		want := p[done:min(len(p), done+piece)]
		have := c.buf[:len(want)]
		if n, err := c.r.ReadAt(have, c.at); n < len(have) && err != nil && !errors.Is(err, io.EOF) {
			return done, fmt.Errorf("read it back: %w", err)
		}
		if !bytes.Equal(have, want) {
			return done, errDiffers
		}
		done += len(want)
		c.at += int64(len(want))
	}
	return len(p), nil
}
