// Package deb reads a Debian binary package (deb(5), format 2.x) as a stream: first what the package says of itself, then
// the entries of its data archive one by one, as archive/tar does. Sizes, counts and paths are bounded, since a package is
// data from outside. Maintainer scripts are data here; nothing is run and nothing is written.
//
// pault.ag/go/debian reads packages, too: from an io.ReaderAt, and without bounds on what a package holds.
package deb

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"spore/builder/tree"
)

// Options holds the bounds of a package; a zero takes the default.
type Options struct {
	// MaxSize is the size in bytes of the data archive once decompressed; 4 GiB.
	MaxSize int64
	// MaxEntries is the number of entries of the data archive; 500,000.
	MaxEntries int
	// MaxControl is the size in bytes of the control archive once decompressed; 64 MiB.
	MaxControl int64
}

func (o Options) withDefaults() Options {
	if o.MaxSize == 0 {
		o.MaxSize = 4 << 30
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 500_000
	}
	if o.MaxControl == 0 {
		o.MaxControl = 64 << 20
	}
	return o
}

// Header is one entry of the data archive.
type Header struct {
	// Path is absolute and clean; "/" is the root directory's own entry.
	Path string
	// Inode has everything but Content; UID and GID are the numbers of the archive. Empty for a hard link.
	Inode tree.Inode
	// User and Group are the names of the archive, often empty. dpkg prefers a name that the target knows to the number.
	User, Group string
	// Size is the number of bytes that Read gives; 0 for all but regular files.
	Size int64
	// Link, when not empty, makes the entry a hard link: the path of an earlier entry that is a file.
	Link string
}

// Reader reads one package. It is for one goroutine.
type Reader struct {
	opts    Options
	ar      *arReader
	control *Control
	files   map[string][]byte

	data    io.ReadCloser // decompressed data.tar
	tar     *tar.Reader
	seen    map[string]tree.Type
	entries int
	left    int64 // bytes of file content that may still come
	err     error // the sticky end
}

// NewReader reads the control part of a package; the data part follows with Next. The caller closes the Reader and r.
func NewReader(r io.Reader, opts Options) (*Reader, error) {
	d := &Reader{opts: opts.withDefaults(), files: map[string][]byte{}, seen: map[string]tree.Type{"/": tree.Dir}}
	d.left = d.opts.MaxSize
	if err := d.open(bufio.NewReaderSize(r, 64<<10)); err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	return d, nil
}

func (d *Reader) open(r io.Reader) (err error) {
	if d.ar, err = newArReader(r); err != nil {
		return err
	}
	name, size, err := d.ar.next()
	if err != nil || name != "debian-binary" || size > 1024 {
		return errors.New("not a Debian package: its first member is not debian-binary")
	}
	format := make([]byte, size)
	if err := readFull(d.ar, format); err != nil {
		return fmt.Errorf("read debian-binary: %w", err)
	}
	if !isVersion2(format) {
		return fmt.Errorf("package format %.16q is unknown; only 2.x is supported", format)
	}
	suffix, err := d.member("control.tar")
	if err != nil {
		return err
	}
	if err := d.readControl(suffix); err != nil {
		return fmt.Errorf("control archive: %w", err)
	}
	if suffix, err = d.member("data.tar"); err != nil {
		return err
	}
	if d.data, err = decompress(suffix, d.ar); err != nil {
		return fmt.Errorf("data archive: %w", err)
	}
	limit := &limitReader{r: d.data, left: d.opts.MaxSize, err: fmt.Errorf("more than %d bytes once decompressed", d.opts.MaxSize)}
	d.tar = tar.NewReader(limit)
	d.data = struct {
		io.Reader
		io.Closer
	}{limit, d.data}
	return nil
}

// member goes to a member, over those whose name begins with an underscore (deb(5)), and returns the end of its name.
func (d *Reader) member(want string) (suffix string, err error) {
	for {
		name, _, err := d.ar.next()
		if err == io.EOF {
			return "", fmt.Errorf("there is no %s: %w", want, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return "", err
		}
		if suffix, ok := strings.CutPrefix(name, want); ok {
			return suffix, nil
		}
		if !strings.HasPrefix(name, "_") {
			return "", fmt.Errorf("member %q is where %s belongs", name, want)
		}
	}
}

func (d *Reader) readControl(suffix string) error {
	z, err := decompress(suffix, d.ar)
	if err != nil {
		return err
	}
	defer z.Close()
	limit := &limitReader{r: z, left: d.opts.MaxControl, err: fmt.Errorf("more than %d bytes once decompressed", d.opts.MaxControl)}
	t := tar.NewReader(limit)
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if n > 1000 {
			return errors.New("more than 1000 entries")
		}
		p, err := entryPath(h.Name)
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir && p == "/" {
			continue
		}
		if h.Typeflag != tar.TypeReg || path.Dir(p) != "/" {
			return fmt.Errorf("%s: only plain files at the top belong there", p)
		}
		if _, dup := d.files[p[1:]]; dup {
			return fmt.Errorf("%s occurs twice", p)
		}
		data, err := io.ReadAll(io.LimitReader(t, d.opts.MaxControl))
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		d.files[p[1:]] = data
	}
	if err := drain(limit); err != nil {
		return err
	}
	text, ok := d.files["control"]
	if !ok {
		return errors.New("there is no control file")
	}
	if d.control, err = ParseControl(string(text)); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}

// Control is the package's control file.
func (d *Reader) Control() *Control { return d.control }

// ControlFile is a file of the control archive ("conffiles", "md5sums", "postinst", …) and whether it is there.
func (d *Reader) ControlFile(name string) ([]byte, bool) {
	data, ok := d.files[name]
	return data, ok
}

// ControlFiles names the files of the control archive, sorted.
func (d *Reader) ControlFiles() []string {
	return slices.Sorted(maps.Keys(d.files))
}

// Conffiles holds the absolute paths of the package's configuration files, sorted. Lines with a flag before the path
// ("remove-on-upgrade", deb-conffiles(5)) name files that the package no longer has, and are left out.
func (d *Reader) Conffiles() []string {
	var out []string
	for line := range strings.Lines(string(d.files["conffiles"])) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			out = append(out, path.Clean(line))
		}
	}
	slices.Sort(out)
	return out
}

// Next goes to the next entry of the data archive; io.EOF after the last, once the whole archive was read and its
// checksums have held.
func (d *Reader) Next() (*Header, error) {
	if d.err != nil {
		return nil, d.err
	}
	h, err := d.next()
	if err != nil {
		d.err = err
		if err != io.EOF {
			d.err = fmt.Errorf("package %s %s: data archive: %w", d.control.Package, d.control.Version, err)
		}
		return nil, d.err
	}
	return h, nil
}

func (d *Reader) next() (*Header, error) {
	h, err := d.tar.Next()
	if err == io.EOF {
		if err := drain(d.data); err != nil {
			return nil, err
		}
		if err := d.ar.finish(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	if d.entries++; d.entries > d.opts.MaxEntries {
		return nil, fmt.Errorf("more than %d entries", d.opts.MaxEntries)
	}
	out, err := header(h)
	if err != nil {
		return nil, err
	}
	if d.left -= out.Size; d.left < 0 {
		return nil, fmt.Errorf("%s: the files have more than %d bytes", out.Path, d.opts.MaxSize)
	}
	return out, d.place(out)
}

// Read reads the content of the entry that Next returned.
func (d *Reader) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.tar.Read(p)
	if err != nil && err != io.EOF {
		d.err = fmt.Errorf("package %s %s: data archive: %w", d.control.Package, d.control.Version, err)
		err = d.err
	}
	return n, err
}

// Close frees the decompressor; it does not close the io.Reader below.
func (d *Reader) Close() error { return d.data.Close() }

// drain reads what follows the end mark of a tar archive, so that the compressor's checksum over the whole is checked.
func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
