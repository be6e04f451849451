// Package explainfile tells where a file of an image comes from: what it is, the package, payload or file of ours that
// brings it, who asked for that, and of a path that is not there, why it was left out. It reads only the image.
package explainfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"spore/builder/manifest"
	"spore/builder/origins"
	"spore/builder/rootfs"
	"spore/builder/size"
	"spore/builder/tree"
	"spore/builder/unsquash"
	"spore/cluster/spelling"
)

// maxPasswd bounds the files with the names of users and groups, in bytes.
const maxPasswd = 1 << 20

// nearNames is how many names are offered for one that is not there.
const nearNames = 5

// Answer tells of one path.
type Answer struct {
	// Path is what was asked for, Follows the symbolic links on the way, and File what they lead to.
	Path    string          `json:"path"`
	Follows []unsquash.Link `json:"follows,omitempty"`
	File    *File           `json:"file,omitempty"`
	// LeftOut tells why there is no such file, where the build left it out.
	LeftOut *origins.LeftOut `json:"leftOut,omitempty"`
	// Near are paths with a similar name, where there is no such file and nothing is known of it.
	Near []string `json:"near,omitempty"`
}

// File tells of a path that is there.
type File struct {
	Path  string `json:"path"`
	Type  string `json:"type"`
	Mode  string `json:"mode"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	MTime int64  `json:"mtime"`
	// Attributes are names of extended attributes.
	Attributes []string `json:"attributes,omitempty"`
	// Size and SHA256 are those of a regular file; Stored is what it takes in the image, compressed.
	Size   int64  `json:"size,omitempty"`
	Stored int64  `json:"stored,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Names are further names of the same file (hard links), Same files with the same data, which is stored once.
	Names []string `json:"names,omitempty"`
	Same  []string `json:"same,omitempty"`
	// Contains is how many files and directories a directory has, at any depth.
	Contains int `json:"contains,omitempty"`
	// Origin is as in the manifest, Source what that means in words.
	Origin string `json:"origin,omitempty"`
	Source string `json:"source,omitempty"`
	// Package or Payload or Image tells more of it.
	Package *Package          `json:"package,omitempty"`
	Payload *manifest.Payload `json:"payload,omitempty"`
	Image   *manifest.Image   `json:"image,omitempty"`
}

// Package is a Debian package with why it is in the image.
type Package struct {
	manifest.Package
	// Because leads from the package that the configuration asked for to this one.
	Because []string `json:"because,omitempty"`
	// AskedBy are the programs, with their roles, that the first of Because is for.
	AskedBy []string `json:"askedBy,omitempty"`
}

var typeNames = map[tree.Type]string{
	tree.Dir: "directory", tree.Regular: "file", tree.Symlink: "symbolic link",
	tree.CharDevice: "character device", tree.BlockDevice: "block device", tree.Fifo: "fifo",
}

// Explain tells of a path of the root; where follow is set, symbolic links at its end are followed.
func Explain(i *rootfs.Image, p string, follow bool) (*Answer, error) {
	a := &Answer{Path: path.Clean("/" + p)}
	end, links, err := resolve(i.Root.Image, a.Path, follow)
	if err != nil {
		return nil, err
	}
	a.Follows = links
	e := i.Root.Lstat(end)
	if e == nil {
		if i.Table != nil {
			// Links may lead through what was left out, so both are asked for.
			a.LeftOut = cmp.Or(i.Table.Missing(end), i.Table.Missing(a.Path))
		}
		if a.LeftOut == nil {
			a.Near = near(i.Root.Image, end)
		}
		return a, nil
	}
	a.File, err = describe(i, e)
	return a, err
}

// resolve follows the links of a path, and one at its end only where follow is set.
func resolve(img *unsquash.Image, p string, follow bool) (string, []unsquash.Link, error) {
	if follow || p == "/" {
		return img.Resolve(p)
	}
	dir, links, err := img.Resolve(path.Dir(p))
	return path.Join(dir, path.Base(p)), links, err
}

func describe(i *rootfs.Image, e *unsquash.Entry) (*File, error) {
	f := &File{Path: e.Path, Type: typeNames[e.Type], Mode: fmt.Sprintf("%04o", e.Mode), UID: e.UID, GID: e.GID, MTime: e.MTime}
	var err error
	if f.User, err = nameOf(i.Root.Image, "/etc/passwd", e.UID); err != nil {
		return nil, err
	}
	if f.Group, err = nameOf(i.Root.Image, "/etc/group", e.GID); err != nil {
		return nil, err
	}
	for _, x := range e.Xattrs {
		f.Attributes = append(f.Attributes, x.Name)
	}
	n := slices.IndexFunc(i.Root.Entries, func(o unsquash.Entry) bool { return o.Path == e.Path })
	if e.Type == tree.Regular {
		h := sha256.New()
		if _, err := io.Copy(h, i.Root.Content(e)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Path, err)
		}
		f.Size, f.SHA256 = e.Size, hex.EncodeToString(h.Sum(nil))
		stored, duplicate := size.Stored(i.Root.Image)
		f.Stored = stored[n] + duplicate[n]
	}
	for k := range i.Root.Entries {
		o := &i.Root.Entries[k]
		switch {
		case k == n:
		case o.Inode == e.Inode:
			f.Names = append(f.Names, o.Path)
		case e.Type == tree.Regular && sameData(o, e):
			f.Same = append(f.Same, o.Path)
		case e.Type == tree.Dir && (e.Path == "/" || strings.HasPrefix(o.Path, e.Path+"/")):
			f.Contains++
		}
	}
	if i.Origins != nil {
		f.Origin = i.Origins[n]
		err = f.source(i)
	}
	return f, err
}

// sameData tells whether two files have their data at one place of the image.
func sameData(a, b *unsquash.Entry) bool {
	return a.Type == b.Type && a.Size == b.Size && a.Size > 0 && a.Fragment == b.Fragment && a.FragmentOffset == b.FragmentOffset && slices.Equal(a.Blocks, b.Blocks)
}

// nameOf finds the name of an id in a file of the form of passwd(5) or group(5).
func nameOf(img *unsquash.Image, file string, id uint32) (string, error) {
	if img.Lstat(file) == nil {
		return "", nil
	}
	data, err := img.ReadFile(file, maxPasswd)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 2 && fields[2] == strconv.FormatUint(uint64(id), 10) {
			return fields[0], nil
		}
	}
	return "", nil
}

// source says in words where a file comes from.
func (f *File) source(i *rootfs.Image) error {
	scheme, name, _ := strings.Cut(f.Origin, ":")
	m := i.Manifest
	switch scheme {
	case "deb":
		name, version, _ := strings.Cut(name, "_")
		f.Source = "package " + name + " " + version
		n := slices.IndexFunc(m.Packages, func(p manifest.Package) bool { return p.Name == name })
		if n < 0 {
			return fmt.Errorf("the manifest of the image has no package %s, which %s comes from", name, f.Path)
		}
		f.Package = &Package{Package: m.Packages[n]}
		return f.Package.because(i)
	case "payload":
		f.Source = "payload " + name
		end, err := f.payload(i)
		if err != nil {
			return err
		}
		if f.Payload != nil {
			f.Source += " " + f.Payload.Version
		}
		if n := slices.IndexFunc(m.Images, func(o manifest.Image) bool { return o.File == end }); n >= 0 {
			f.Image = &m.Images[n]
			f.Source = "container image, from " + f.Image.From
		}
	case "unit":
		f.Source = "spore: units/" + name
	case "overlay":
		f.Source = "spore: overlay/" + name
	case "configuration":
		f.Source = "the configuration: " + name
		_, err := f.payload(i)
		return err
	case "step":
		f.Source = "made by the build, step " + name
	}
	return nil
}

// payload finds the program with the file's path, or the one that a link leads to, and returns where it leads.
func (f *File) payload(i *rootfs.Image) (string, error) {
	end, _, err := i.Root.Resolve(f.Path)
	if err != nil {
		return "", err
	}
	list := i.Manifest.Payloads
	if n := slices.IndexFunc(list, func(p manifest.Payload) bool { return p.Path == end }); n >= 0 {
		f.Payload = &list[n]
	}
	return end, nil
}

// near finds paths with the same name elsewhere, or with similar ones.
func near(img *unsquash.Image, p string) []string {
	type candidate struct {
		path     string
		distance int
	}
	var list []candidate
	base := path.Base(p)
	limit := min(max(2, len(base)/3), 8)
	for i := range img.Entries {
		o := img.Entries[i].Path
		d := spelling.Distance(base, path.Base(o), limit)
		if d > limit {
			continue
		}
		// The same name elsewhere is as near as a slip of the pen in the same place.
		if path.Dir(o) != path.Dir(p) {
			d++
		}
		list = append(list, candidate{o, d})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, c := range list[:min(len(list), nearNames)] {
		out = append(out, c.path)
	}
	return out
}
