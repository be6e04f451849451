package slot

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"spore/storage/atomicfile"
	"spore/storage/pieces"
	"spore/storage/verity"
)

// progress says which pieces of an index a node has. It is a hint: what comes of all pieces is held to a hash in the
// end.
//
// On the disk it is "SPOREPR1", 32 bytes that say what it is the progress of, a byte of flags, and a bit for each
// piece.
type progress struct {
	// searched says that all pieces that the machine had were copied; unheld that some of those were held to no hash of
	// their own; checked that what all pieces make up was looked at.
	searched, unheld, checked bool
	bits                      []byte
	left                      int
}

const (
	progressMagic = "SPOREPR1"
	progressHead  = len(progressMagic) + 32 + 1

	flagSearched = 1 << 0
	flagChecked  = 1 << 1
	flagUnheld   = 1 << 2
)

func newProgress(count int) progress { return progress{bits: make([]byte, (count+7)/8), left: count} }

func (p *progress) has(i int) bool { return p.bits[i/8]&(1<<(i%8)) != 0 }

func (p *progress) mark(i int) {
	if !p.has(i) {
		p.bits[i/8] |= 1 << (i % 8)
		p.left--
	}
}

// unmark has a piece be asked for.
func (p *progress) unmark(i int) {
	if p.has(i) {
		p.bits[i/8] &^= 1 << (i % 8)
		p.left++
	}
}

// encode is the content of the file.
func (p *progress) encode(key pieces.Sum) []byte {
	flags := byte(0)
	if p.searched {
		flags |= flagSearched
	}
	if p.checked {
		flags |= flagChecked
	}
	if p.unheld {
		flags |= flagUnheld
	}
	return append(append(append([]byte(progressMagic), key[:]...), flags), p.bits...)
}

// parseProgress reads the progress of so many pieces; ok is false for what is none, or is that of something else.
func parseProgress(b []byte, key pieces.Sum, count int) (p progress, ok bool) {
	p = newProgress(count)
	if len(b) != progressHead+len(p.bits) || !bytes.HasPrefix(b, append([]byte(progressMagic), key[:]...)) {
		return newProgress(count), false
	}
	flags, bits := b[progressHead-1], b[progressHead:]
	if flags&^(flagSearched|flagChecked|flagUnheld) != 0 {
		return p, false
	}
	for i := range len(bits) * 8 {
		switch set := bits[i/8]&(1<<(i%8)) != 0; {
		case set && i >= count:
			return newProgress(count), false
		case set:
			p.mark(i)
		}
	}
	p.searched, p.checked, p.unheld = flags&flagSearched != 0, flags&flagChecked != 0, flags&flagUnheld != 0
	return p, true
}

// outlet is where pieces are written.
type outlet interface {
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
}

// pastMemory is the outlet of a root: only the check reads it soon, and that is past the host's memory as well.
type pastMemory struct{ Device }

func (p pastMemory) WriteAt(b []byte, off int64) (int, error) { return p.Through().WriteAt(b, off) }

// share is what one index lists: the root, or UKI and cluster part.
type share struct {
	// dir and name are of its working files; an empty dir keeps nothing.
	dir, name string
	// blob is the index, size how many bytes its pieces have, key what it is the progress of.
	blob  sizedBlob
	size  int64
	key   pieces.Sum
	index pieces.Index
	find  *pieces.Finder
	progress
	// out is where pieces go; nil has them marked only. atOnce is how many bytes are written at once where that is more
	// than the largest piece.
	out    outlet
	atOnce int
	// buffer holds what is to be written at the offset at and behind it: pieces that follow each other are written at
	// once. It begins with a whole block, so that blocks of the memory are blocks of the disk; its first skip bytes are
	// no content.
	buffer  []byte
	at      int64
	skip    int
	unsaved int64
	// kept is the progress as its file has it.
	kept []byte
}

// sizedBlob is a blob of a head with its hash parsed.
type sizedBlob struct {
	size int64
	sum  pieces.Sum
}

// saveEvery is after how many bytes the progress is kept.
const saveEvery = 64 << 20

// load reads what a former message left. What cannot be read is asked for again.
func (s *share) load() {
	data, err := atomicfile.ReadLimited(s.file(".index"), pieces.MaxSize)
	if err != nil || pieces.SumOf(data) != s.blob.sum || s.setIndex(data) != nil {
		return
	}
	if data, err = atomicfile.ReadLimited(s.file(".progress"), int64(progressHead+len(s.bits))); err == nil {
		var ok bool
		if s.progress, ok = parseProgress(data, s.key, len(s.index)); ok {
			s.kept = data
		}
	}
}

func (s *share) file(end string) string { return filepath.Join(s.dir, s.name+end) }

// setIndex takes an index whose hash was compared.
func (s *share) setIndex(data []byte) error {
	x, err := pieces.Parse(data)
	if err != nil {
		return err
	}
	if x.Size() != s.size {
		return fmt.Errorf("%w: its pieces have %d bytes, and %d were signed", pieces.ErrForm, x.Size(), s.size)
	}
	s.index, s.find, s.progress = x, pieces.NewFinder(x), newProgress(len(x))
	return nil
}

// takeIndex takes an index that came, and keeps it.
func (s *share) takeIndex(data []byte) error {
	if err := s.setIndex(data); err != nil {
		return refuse("the index of the update: %v", err)
	}
	if s.out == nil {
		return nil
	}
	return atomicfile.WriteDurable(s.file(".index"), data, 0o600)
}

// lacks tells whether a piece with this hash and size is not there.
func (s *share) lacks(sum pieces.Sum, size int64) bool {
	return slices.ContainsFunc(s.find.Find(sum), func(i uint32) bool {
		return !s.has(int(i)) && s.index[i].Size == size
	})
}

// putAll takes content with this hash for each piece that it is.
func (s *share) putAll(sum pieces.Sum, content []byte) error {
	for _, i := range s.find.Find(sum) {
		if s.has(int(i)) || s.index[i].Size != int64(len(content)) {
			continue
		}
		if err := s.put(int(i), content); err != nil {
			return err
		}
	}
	return nil
}

// put takes a piece whose hash was compared.
func (s *share) put(i int, content []byte) error {
	err := s.write(bytes.NewReader(content), 0, s.find.Offset(i), int64(len(content)))
	if err != nil {
		return err
	}
	s.mark(i)
	return s.saveSome()
}

// write has content of a reader be written at an offset.
func (s *share) write(from io.ReaderAt, begin, off, size int64) error {
	if s.out == nil {
		return nil
	}
	for size > 0 {
		b, err := s.room(off, size)
		if err != nil {
			return err
		}
		if n, err := from.ReadAt(b, begin); n < len(b) {
			return unread{err}
		}
		n := int64(len(b))
		s.buffer = s.buffer[:len(s.buffer)+len(b)]
		begin, off, size, s.unsaved = begin+n, off+n, size-n, s.unsaved+n
	}
	return nil
}

// unread is the error of content that could not be read.
type unread struct{ error }

// room is memory for at most size bytes that are to be written at an offset. What is in the buffer is flushed where it
// is full, or where something else follows.
func (s *share) room(off, size int64) ([]byte, error) {
	if s.buffer == nil {
		s.buffer = make([]byte, 0, max(s.atOnce, piece))
	}
	follows := len(s.buffer) > s.skip && s.at+int64(len(s.buffer)) == off
	if !follows || len(s.buffer) == cap(s.buffer) {
		if err := s.flush(); err != nil {
			return nil, err
		}
		s.skip = int(off % verity.BlockSize)
		s.at, s.buffer = off-int64(s.skip), s.buffer[:s.skip]
	}
	free := s.buffer[len(s.buffer):cap(s.buffer)]
	return free[:min(size, int64(len(free)))], nil
}

func (s *share) flush() error {
	content, at := s.buffer[s.skip:], s.at+int64(s.skip)
	if len(content) > 0 {
		if _, err := s.out.WriteAt(content, at); err != nil {
			return fmt.Errorf("write the %s of the update: %w", s.name, err)
		}
	}
	// Only what was written goes: its pieces are marked already, and the progress is kept after a flush alone.
	s.buffer, s.skip = s.buffer[:0], 0
	return nil
}

// saveSome saves when much has been written since the last time.
func (s *share) saveSome() error {
	if s.unsaved < saveEvery {
		return nil
	}
	return s.save()
}

// save has the medium hold what was written, and then keeps the progress.
func (s *share) save() error {
	if s.out == nil || s.index == nil {
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	if s.unsaved > 0 {
		if err := s.out.Sync(); err != nil {
			return fmt.Errorf("write the %s of the update: %w", s.name, err)
		}
	}
	s.unsaved = 0
	now := s.encode(s.key)
	if bytes.Equal(now, s.kept) {
		return nil
	}
	if err := atomicfile.WriteDurable(s.file(".progress"), now, 0o600); err != nil {
		return err
	}
	s.kept = now
	return nil
}

// first tells whether a piece is the first of those with its hash that are not there.
func (s *share) first(i int) bool {
	for _, n := range s.find.Find(s.index[i].Sum) {
		if !s.has(int(n)) {
			return int(n) == i
		}
	}
	return false
}
