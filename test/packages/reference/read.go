package reference

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"spore/builder/deb/deb822"
)

// Limits of an archive that mmdebstrap may write.
const (
	maxFiles = 2_000_000
	maxKept  = 16 << 20 // bytes of one file that is kept whole
)

// capability is the record of the extended attribute security.capability in a tar archive.
const capability = "SCHILY.xattr.security.capability"

// File is one path of a root.
type File struct {
	// Type is that of archive/tar, of the file itself where it has several names.
	Type byte
	// Mode holds the permission bits, set-user-ID, set-group-ID and sticky.
	Mode uint32
	// User and Group are names, as the root's own accounts have them.
	User, Group string
	// Target is where a symbolic link points.
	Target string
	// Size is in bytes, MTime in seconds since the epoch.
	Size, MTime int64
	// Sum is the SHA-256 of a regular file's data.
	Sum [sha256.Size]byte
	// Capability is the extended attribute security.capability.
	Capability string
	// Package is the one that has the path, or whose script made it; empty where nothing tells.
	Package string
}

// Root is a root that Debian's tools made.
type Root struct {
	// Versions are the installed packages.
	Versions map[string]string
	// Files are by absolute path.
	Files map[string]File

	// archive and log are what the packages of paths were found by.
	archive *archive
	log     string
}

// Archive is what an archive of Make says.
type Archive struct{ archive }

// ReadArchive reads an archive of Make. keep, where it is not nil, says which files' data go somewhere else, too.
func ReadArchive(r io.Reader, keep func(name string) (io.WriteCloser, error)) (*Archive, error) {
	a := &Archive{archive{files: map[string]File{}, ids: map[string][2]int{}, data: map[string][]byte{},
		nanos: map[string]int64{}, keep: keep}}
	t := tar.NewReader(bufio.NewReaderSize(r, 1<<20))
	for {
		h, err := t.Next()
		if err == io.EOF {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the archive of mmdebstrap: %w", err)
		}
		if len(a.files) == maxFiles {
			return nil, fmt.Errorf("the archive of mmdebstrap has more than %d files", maxFiles)
		}
		if err := a.add(h, t); err != nil {
			return nil, fmt.Errorf("read the archive of mmdebstrap: %s: %w", h.Name, err)
		}
	}
}

// Root is the root of the archive. log is the text of dpkg's log (Options.Log), or empty: without it fewer paths have
// their package.
func (a *Archive) Root(log string) (*Root, error) {
	if err := a.nameOwners(); err != nil {
		return nil, err
	}
	versions, err := installed(string(a.data["/var/lib/dpkg/status"]))
	if err != nil {
		return nil, err
	}
	if err := a.attribute(log); err != nil {
		return nil, err
	}
	return &Root{Versions: versions, Files: a.files, archive: &a.archive, log: log}, nil
}

// archive is what is known while an archive is read.
type archive struct {
	files map[string]File
	ids   map[string][2]int
	// data are the files that say something of others.
	data map[string][]byte
	// nanos are the times of files in nanoseconds since the epoch.
	nanos map[string]int64
	keep  func(string) (io.WriteCloser, error)
}

func (a *archive) add(h *tar.Header, r io.Reader) error {
	name := path.Clean("/" + h.Name)
	if h.Typeflag == tar.TypeLink {
		first := path.Clean("/" + h.Linkname)
		f, ok := a.files[first]
		if !ok {
			return fmt.Errorf("it is a hard link to %s, which did not come before", first)
		}
		a.files[name], a.ids[name], a.nanos[name] = f, a.ids[first], a.nanos[first]
		return nil
	}
	f := File{Type: h.Typeflag, Mode: uint32(h.Mode & 0o7777), Target: h.Linkname, Size: h.Size, MTime: h.ModTime.Unix(),
		Capability: h.PAXRecords[capability]}
	if h.Typeflag == tar.TypeReg {
		if err := a.read(name, &f, r); err != nil {
			return err
		}
	}
	a.files[name], a.ids[name], a.nanos[name] = f, [2]int{h.Uid, h.Gid}, h.ModTime.UnixNano()
	return nil
}

func (a *archive) read(name string, f *File, r io.Reader) (err error) {
	hash := sha256.New()
	var w io.Writer = hash
	var data *bytes.Buffer
	if telling(name) {
		if f.Size > maxKept {
			return fmt.Errorf("it has %d bytes, more than %d", f.Size, maxKept)
		}
		data = &bytes.Buffer{}
		w = io.MultiWriter(hash, data)
	}
	if a.keep != nil {
		out, err := a.keep(name)
		if err != nil {
			return err
		}
		if out != nil {
			defer func() { err = errors.Join(err, out.Close()) }()
			w = io.MultiWriter(w, out)
		}
	}
	if _, err := io.Copy(w, r); err != nil {
		return err
	}
	hash.Sum(f.Sum[:0])
	if data != nil {
		a.data[name] = data.Bytes()
	}
	return nil
}

// telling are the files that say something of others: accounts, and dpkg's database.
func telling(name string) bool {
	return name == "/etc/passwd" || name == "/etc/group" || name == "/var/lib/dpkg/status" ||
		name == "/var/lib/dpkg/diversions" ||
		path.Dir(name) == infoDir
}

// nameOwners gives each file the names of its owners, or their numbers where nobody has them.
func (a *archive) nameOwners() error {
	users, err := ids(a.data["/etc/passwd"])
	if err != nil {
		return fmt.Errorf("the root's /etc/passwd: %w", err)
	}
	groups, err := ids(a.data["/etc/group"])
	if err != nil {
		return fmt.Errorf("the root's /etc/group: %w", err)
	}
	for name, f := range a.files {
		id := a.ids[name]
		f.User, f.Group = nameOf(users, id[0]), nameOf(groups, id[1])
		a.files[name] = f
	}
	return nil
}

func nameOf(names map[int]string, id int) string {
	if name := names[id]; name != "" {
		return name
	}
	return strconv.Itoa(id)
}

// ids reads the names of passwd(5) or group(5) by their number.
func ids(text []byte) (map[int]string, error) {
	out := map[int]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 3 {
			return nil, fmt.Errorf("%q has no number", strings.TrimSpace(line))
		}
		id, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		if out[id] == "" {
			out[id] = f[0]
		}
	}
	return out, nil
}

// installed reads dpkg's status: the packages that are installed, with their versions.
func installed(status string) (map[string]string, error) {
	out := map[string]string{}
	s := deb822.NewScanner(status)
	for s.Next() {
		p := s.Paragraph()
		if state := p.Get("Status"); state != "install ok installed" {
			return nil, fmt.Errorf("package %s is in the state %q and is not installed", p.Get("Package"), state)
		}
		out[p.Get("Package")] = p.Get("Version")
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("the root's dpkg status: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("the root's dpkg status lists no package")
	}
	return out, nil
}
