// Package archive takes named files out of an archive that a user has: tar (POSIX.1-2001 pax, ustar, GNU), plain or
// compressed with gzip, xz or Zstandard, and zip (APPNOTE.TXT 6.3.10, methods store and deflate). What it is shows in
// its first bytes; its name says nothing.
//
// An archive is hostile until shown otherwise: what it unpacks to and how many members it has are bounded, and a member
// whose name leads out of it is an error. Only regular files are taken, without set-user-ID and set-group-ID. It
// follows no link, and it writes nothing: the caller gets each file as a stream.
package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"spore/cluster/spelling"
)

// Bounds of an archive.
const (
	// MaxSize bounds an archive, in bytes.
	MaxSize = 1 << 30
	// maxUnpacked bounds what it unpacks to, in bytes, and maxMembers its members.
	maxUnpacked = 1 << 30
	maxMembers  = 100_000
)

// Member is a regular file of an archive.
type Member struct {
	// Name is its path in the archive.
	Name string
	// Executable says that its owner may execute it.
	Executable bool
	// Size is in bytes.
	Size    int64
	Content io.Reader
}

// limits are the bounds, which a test makes smaller.
type limits struct {
	unpacked int64
	members  int
}

// Take hands over each of the named files of an archive of size bytes, in the order of the archive. A file that it does
// not have, or has twice, is an error, as is one that is something else than a regular file.
func Take(r io.ReaderAt, size int64, names []string, take func(Member) error) error {
	return takeWithin(limits{maxUnpacked, maxMembers}, r, size, names, take)
}

func takeWithin(l limits, r io.ReaderAt, size int64, names []string, take func(Member) error) error {
	if size > MaxSize {
		return fmt.Errorf("it has more than %d bytes", int64(MaxSize))
	}
	head := make([]byte, 512)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	t := &taker{limits: l, left: map[string]bool{}, take: take}
	for _, name := range names {
		t.left[name] = true
	}
	if err := t.read(head[:n], r, size); err != nil {
		return err
	}
	return t.missing(names)
}

// taker carries one pass over an archive.
type taker struct {
	limits
	// left are the names that were not found yet, seen all that the archive has.
	left map[string]bool
	seen []string
	// taken is the size of what was handed over, in bytes.
	taken int64
	take  func(Member) error
}

func (t *taker) read(head []byte, r io.ReaderAt, size int64) error {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	if begins("PK\x03\x04") || begins("PK\x05\x06") {
		return t.zip(r, size)
	}
	for _, c := range compressions {
		if begins(c.magic) {
			plain, err := c.open(io.NewSectionReader(r, 0, size))
			if err != nil {
				return fmt.Errorf("decompress it (%s): %w", c.name, err)
			}
			defer plain.Close()
			return t.tar(plain, c.name)
		}
	}
	if len(head) < 512 || string(head[257:262]) != "ustar" {
		return errors.New("it is neither tar (plain, or compressed with gzip, xz or zstd) nor zip")
	}
	return t.tar(io.NewSectionReader(r, 0, size), "")
}

// entry is what both forms say of a member.
type entry struct {
	name string
	mode fs.FileMode
	// target is where a link leads.
	target string
	size   int64
	open   func() (io.Reader, error)
}

// add looks at the next member, and hands it over where it was asked for.
func (t *taker) add(e entry) error {
	if len(t.seen) == t.members {
		return fmt.Errorf("it has more than %d members", t.members)
	}
	name, err := clean(e.name)
	if err != nil {
		return err
	}
	t.seen = append(t.seen, name)
	wanted, known := t.left[name]
	switch {
	case !known:
		return nil
	case !wanted:
		return fmt.Errorf("it has the member %.200q twice", name)
	}
	t.left[name] = false
	if err := e.check(); err != nil {
		return fmt.Errorf("its member %.200q %w", name, err)
	}
	if t.taken += e.size; e.size < 0 || t.taken > t.unpacked {
		return t.tooLarge()
	}
	content, err := e.open()
	if err != nil {
		return fmt.Errorf("read its member %.200q: %w", name, err)
	}
	if err := t.take(Member{name, e.mode&0o100 != 0, e.size, &exactly{content, e.size}}); err != nil {
		return fmt.Errorf("its member %.200q: %w", name, err)
	}
	return nil
}

func (t *taker) tooLarge() error { return fmt.Errorf("it unpacks to more than %d bytes", t.unpacked) }

// clean is the name of a member as a user writes it.
func clean(name string) (string, error) {
	if slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), "..") {
		return "", fmt.Errorf("its member %.200q leads out of it; such an archive is made to do harm: take none of it", name)
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

// check refuses what is something else than a plain file.
func (e entry) check() error {
	switch m := e.mode; {
	case e.target != "":
		return fmt.Errorf("is a link to %.200q; name that file, and write links for further names", e.target)
	case m.IsDir():
		return errors.New("is a directory; name its files")
	case m&fs.ModeSymlink != 0:
		return errors.New("is a link; name the file that it leads to")
	case m&(fs.ModeDevice|fs.ModeCharDevice) != 0:
		return errors.New("is a device; only regular files are taken")
	case !m.IsRegular():
		return errors.New("is not a regular file; only those are taken")
	case m&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return errors.New("has set-user-ID or set-group-ID, which would give rights to whoever starts it; take it out of " +
			"the archive's mode")
	}
	return nil
}

// missing says which names the archive does not have.
func (t *taker) missing(names []string) error {
	var problems []error
	for _, name := range names {
		if !t.left[name] {
			continue
		}
		problems = append(problems, fmt.Errorf("it has no member %.200q%s", name, t.near(name)))
	}
	return errors.Join(problems...)
}

// near names what was probably meant: a file of the same name elsewhere, or nearly the same.
func (t *taker) near(name string) string {
	for _, s := range t.seen {
		if path.Base(s) == path.Base(name) {
			return fmt.Sprintf("; did you mean %.200q?", s)
		}
	}
	if near := spelling.Nearest(name, t.seen); near != "" {
		return fmt.Sprintf("; did you mean %.200q?", near)
	}
	return ""
}

// exactly is a reader of a file whose length its header says; another length is an error. It reads up to the end, where
// the file's own checksum is looked at.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		var more [1]byte
		if _, err := io.ReadFull(e.r, more[:]); err != nil {
			return 0, err
		}
		return 0, errors.New("it is longer than its header says")
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
