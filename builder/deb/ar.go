package deb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The common ar format, as deb(5) uses it.
const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
	arTrailer    = "`\n"
	// maxMembers bounds the members that are skipped; a .deb has three, a signed one four.
	maxMembers = 32
)

// arReader goes through the members of an ar archive.
type arReader struct {
	r    io.Reader
	left int64 // bytes of the current member that were not read
	pad  int64 // 1 when a padding byte follows the member
	n    int
}

func newArReader(r io.Reader) (*arReader, error) {
	var magic [len(arMagic)]byte
	if err := readFull(r, magic[:]); err != nil {
		return nil, fmt.Errorf("read the ar header: %w", err)
	}
	if string(magic[:]) != arMagic {
		return nil, errors.New("not a Debian package: it does not begin with an ar header")
	}
	return &arReader{r: r}, nil
}

// next skips the rest of the member and returns the name and size of the following one; io.EOF after the last.
func (a *arReader) next() (name string, size int64, err error) {
	if err := a.finish(); err != nil {
		return "", 0, err
	}
	if a.n++; a.n > maxMembers {
		return "", 0, fmt.Errorf("more than %d members", maxMembers)
	}
	var h [arHeaderSize]byte
	if _, err := io.ReadFull(a.r, h[:1]); err != nil {
		return "", 0, err // io.EOF is the regular end
	}
	if err := readFull(a.r, h[1:]); err != nil {
		return "", 0, fmt.Errorf("read an ar member header: %w", err)
	}
	if string(h[58:]) != arTrailer {
		return "", 0, errors.New("an ar member header is damaged")
	}
	name = strings.TrimSuffix(strings.TrimRight(string(h[:16]), " "), "/")
	text := strings.TrimRight(string(h[48:58]), " ")
	u, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return "", 0, fmt.Errorf("ar member %q has the size %q", name, text)
	}
	a.left, a.pad = int64(u), int64(u&1)
	return name, a.left, nil
}

// finish reads what is left of the member and its padding.
func (a *arReader) finish() error {
	if _, err := io.Copy(io.Discard, a); err != nil {
		return err
	}
	if a.pad == 1 {
		var b [1]byte
		// GNU ar and dpkg pad the last member too, but not every writer does.
		if _, err := io.ReadFull(a.r, b[:]); err != nil && err != io.EOF {
			return err
		}
		a.pad = 0
	}
	return nil
}

// Read reads from the current member. A file that ends inside of it is io.ErrUnexpectedEOF.
func (a *arReader) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err := a.r.Read(p)
	a.left -= int64(n)
	if err == io.EOF && a.left > 0 {
		return n, fmt.Errorf("the file ends %d bytes before its ar member does: %w", a.left, io.ErrUnexpectedEOF)
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// readFull is io.ReadFull for which every early end is io.ErrUnexpectedEOF.
func readFull(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isVersion2 checks the member debian-binary: "2.N", and perhaps further lines (deb(5)).
func isVersion2(data []byte) bool {
	line, _, ok := bytes.Cut(data, []byte("\n"))
	return ok && bytes.HasPrefix(line, []byte("2."))
}
