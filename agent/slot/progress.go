package slot

import (
	"bytes"
	"fmt"
	"path/filepath"

	"spore/storage/atomicfile"
	"spore/storage/pieces"
)

// progress says which pieces of an index a node has. It is a hint: what comes of all pieces is held to a hash in the
// end.
//
// On the disk it is "SPOREPR1", 32 bytes that say what it is the progress of, a byte of flags, and a bit for each
// piece.
type progress struct {
	// searched says that all pieces that the machine had were copied; checked that what they make up was looked at.
	searched, checked bool
	bits              []byte
	left              int
}

const (
	progressMagic = "SPOREPR1"
	progressHead  = len(progressMagic) + 32 + 1

	flagSearched = 1 << 0
	flagChecked  = 1 << 1
)

func newProgress(count int) progress { return progress{bits: make([]byte, (count+7)/8), left: count} }

func (p *progress) has(i int) bool { return p.bits[i/8]&(1<<(i%8)) != 0 }

func (p *progress) mark(i int) {
	if !p.has(i) {
		p.bits[i/8] |= 1 << (i % 8)
		p.left--
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
	return append(append(append([]byte(progressMagic), key[:]...), flags), p.bits...)
}

// parseProgress reads the progress of so many pieces; ok is false for what is none, or is that of something else.
func parseProgress(b []byte, key pieces.Sum, count int) (p progress, ok bool) {
	p = newProgress(count)
	if len(b) != progressHead+len(p.bits) || !bytes.HasPrefix(b, append([]byte(progressMagic), key[:]...)) {
		return newProgress(count), false
	}
	flags, bits := b[progressHead-1], b[progressHead:]
	if flags&^(flagSearched|flagChecked) != 0 {
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
	p.searched, p.checked = flags&flagSearched != 0, flags&flagChecked != 0
	return p, true
}

// outlet is where pieces are written.
type outlet interface {
	WriteAt(b []byte, off int64) (int, error)
	Sync() error
}

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
	// out is where pieces go; nil has them marked only.
	out outlet
	// buffer holds what is to be written at an offset: pieces that follow each other are written at once.
	buffer  []byte
	at      int64
	unsaved int64
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
		s.progress, _ = parseProgress(data, s.key, len(s.index))
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

// put takes a piece whose hash was compared.
func (s *share) put(i int, content []byte) error {
	if s.out == nil {
		s.mark(i)
		return nil
	}
	off := s.find.Offset(i)
	if len(s.buffer) > 0 && (s.at+int64(len(s.buffer)) != off || len(s.buffer)+len(content) > piece) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if len(s.buffer) == 0 {
		s.at = off
	}
	s.buffer = append(s.buffer, content...)
	s.mark(i)
	if s.unsaved += int64(len(content)); s.unsaved >= saveEvery {
		return s.save()
	}
	return nil
}

func (s *share) flush() error {
	if len(s.buffer) == 0 {
		return nil
	}
	if _, err := s.out.WriteAt(s.buffer, s.at); err != nil {
		return fmt.Errorf("write the %s of the update: %w", s.name, err)
	}
	s.buffer = s.buffer[:0]
	return nil
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
	return atomicfile.WriteDurable(s.file(".progress"), s.encode(s.key), 0o600)
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
