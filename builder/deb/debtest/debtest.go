// Package debtest makes small Debian packages in memory for tests, the broken ones included.
package debtest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Entry is one entry of a tar archive. A name that ends with a slash is a directory.
type Entry struct {
	// Name is as tar has it ("./usr/bin/env").
	Name string
	// Body is the content of a regular file.
	Body string
	// Link is the target of a symbolic link, or of a hard link when Type says so.
	Link string
	// Type is a tar type flag; 0 is derived from Name and Link.
	Type byte
	// Mode is 0755 for directories and 0644 otherwise when 0.
	Mode int64
	// UID and GID are numeric owners, User and Group their names.
	UID, GID     int
	User, Group  string
	Major, Minor int64
	// Xattrs become pax records.
	Xattrs map[string]string
}

// Deb is a package to be made.
type Deb struct {
	// Control is the text of the control file.
	Control string
	// Scripts holds further files of the control archive by name.
	Scripts []Entry
	// Data holds the entries of the data archive.
	Data []Entry
	// Compress is the compression of both archives: "", "gz", "xz" or "zst".
	Compress string
}

// Control returns a minimal control file with further lines ("Depends: b").
func Control(name, version string, more ...string) string {
	return strings.Join(append([]string{
		"Package: " + name, "Version: " + version, "Architecture: amd64", "Maintainer: Nobody <nobody@example.test>",
	}, append(more, "Description: made for a test", "")...), "\n")
}

// Bytes is the package as a file. It panics when an entry cannot be written, which is an error of the test.
func (d Deb) Bytes() []byte {
	control := append([]Entry{{Name: "./"}, {Name: "./control", Body: d.Control}}, d.Scripts...)
	suffix := d.Compress
	if suffix != "" {
		suffix = "." + suffix
	}
	return Ar(
		Member{"debian-binary", []byte("2.0\n")},
		Member{"control.tar" + suffix, Compress(d.Compress, Tar(control...))},
		Member{"data.tar" + suffix, Compress(d.Compress, Tar(d.Data...))},
	)
}

// Member is one member of an ar archive.
type Member struct {
	Name string
	Data []byte
}

// Ar writes an ar archive.
func Ar(members ...Member) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.Name, 0, 0, 0, "100644", len(m.Data))
		b.Write(m.Data)
		if len(m.Data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// Tar writes a tar archive.
func Tar(entries ...Entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.Name, Typeflag: e.Type, Linkname: e.Link, Mode: e.Mode, Uid: e.UID, Gid: e.GID, Uname: e.User, Gname: e.Group,
			Devmajor: e.Major, Devminor: e.Minor, ModTime: time.Unix(1_000_000_000, 0),
		}
		switch {
		case h.Typeflag != 0:
		case strings.HasSuffix(e.Name, "/"):
			h.Typeflag = tar.TypeDir
		case e.Link != "":
			h.Typeflag = tar.TypeSymlink
		default:
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.Body))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		for k, v := range e.Xattrs {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+k] = v
		}
		must(w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, e.Body)
			must(err)
		}
	}
	must(w.Close())
	return b.Bytes()
}

// Compress compresses data as "gz", "xz", "zst" or not at all.
func Compress(kind string, data []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case "":
		return data
	case "gz":
		w = gzip.NewWriter(&b)
	case "xz":
		w, err = xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
	case "zst":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	default:
		err = fmt.Errorf("no compression %q", kind)
	}
	must(err)
	_, err = w.Write(data)
	must(err)
	must(w.Close())
	return b.Bytes()
}

func must(err error) {
	if err != nil {
		panic("debtest: " + err.Error())
	}
}
