// Package manifest says where every byte of an image comes from: a list of packages, payloads and files with their
// hashes. Package sbom writes the same as bills of materials.
package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"

	"spore/builder/privileged"
	"spore/builder/tree"
	"spore/cluster/spec"
	"spore/services/dataversion"
)

// ImagePath is where an image carries its own manifest, without the list of files.
const ImagePath = dataversion.ManifestPath

// Manifest describes one root filesystem.
type Manifest struct {
	// Format is the version of this form.
	Format int `json:"format"`
	// BuildTime is in seconds since the epoch; it comes from the package archive or SOURCE_DATE_EPOCH.
	BuildTime int64 `json:"buildTime"`
	// Version is that of the image.
	Version string `json:"version,omitempty"`
	Suite   string `json:"suite"`
	// DebianVersion is what /etc/debian_version says, such as 13.1: the release that the packages are of.
	DebianVersion string `json:"debianVersion,omitempty"`
	Kernel        string `json:"kernel"`
	// ConfigFormat is the form of the configuration that the agent reads (services.Format).
	ConfigFormat string   `json:"configFormat"`
	Programs     []string `json:"programs"`
	// Requested are the names of packages that the configuration asked for, sorted; the other packages came with them.
	Requested []string  `json:"requested"`
	Packages  []Package `json:"packages"`
	// Keep and KeepPaths are those of image.yaml, sorted: what the root has that rules would leave out.
	Keep      []string `json:"keep,omitempty"`
	KeepPaths []string `json:"keepPaths,omitempty"`
	// ShellKeys are the public halves of the keys whose grants open an emergency shell of root; none where the root has no
	// shell.
	ShellKeys []string `json:"shellKeys,omitempty"`
	// Scripts and Debconf are those of image.yaml, their lists sorted: what was decided in place of maintainer scripts.
	Scripts  map[string]spec.ScriptDecision `json:"scripts,omitempty"`
	Debconf  map[string]map[string]string   `json:"debconf,omitempty"`
	Payloads []Payload                      `json:"payloads"`
	// Own are the files of overlay/ and units/ of the configuration, sorted by their paths there.
	Own []OwnFile `json:"own,omitempty"`
	// BootPayloads are programs that run from elsewhere than a path of the root: from the initramfs, or inside a container
	// image.
	BootPayloads []Payload `json:"bootPayloads,omitempty"`
	// MediaPackages are Debian packages of which media have files beside the root, such as an ISO's boot loader for BIOS.
	MediaPackages []Package `json:"mediaPackages,omitempty"`
	// Images are container images that the root carries.
	Images []Image `json:"images,omitempty"`
	// Privileged lists the files of the root with set-user-ID, set-group-ID or capabilities, sorted by path. The manifest
	// in the image is written before they are known and has none: `spore inspect` reads them from the root itself.
	Privileged []privileged.File `json:"privileged,omitempty"`
	// Files lists every path of the root with its origin.
	Files []File `json:"files,omitempty"`
}

// Package is one Debian package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"architecture"`
	Source  string `json:"source,omitempty"`
	// SHA256 is the hash of the .deb in hexadecimal.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// License is the SPDX licence expression of its machine-readable copyright file; empty where it has none.
	License string `json:"license,omitempty"`
	// FilesIn counts the package's files, links and devices that the image has, the UKI included; FilesOut those that it
	// has not: left out, or replaced by another package.
	FilesIn  int `json:"filesIn,omitempty"`
	FilesOut int `json:"filesOut,omitempty"`
	// Absent says that all its files were left out and dpkg's status does not list it: it was an input, and is no part.
	Absent bool `json:"absent,omitempty"`
}

// Payload is one program that is not a Debian package: built from pinned source, the agent included; or a jar, or a
// file beside jars.
type Payload struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"`
	// SHA256 is the hash of the program in hexadecimal.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Main is the module of a Go program's main package, and GoVersion the toolchain that compiled it, such as go1.26.1,
	// whose standard library is in it.
	Main      *Module  `json:"main,omitempty"`
	GoVersion string   `json:"goVersion,omitempty"`
	Modules   []Module `json:"modules,omitempty"`
	// Format is the version of the format in which a program of ours writes what it keeps on a node (dataversion.Row).
	Format string `json:"format,omitempty"`
	// Configured is the file of the configuration folder that says where it comes from, MadeOf a hash of that file and of
	// what it names, and License the SPDX licence expression that it gives; all are empty for what is ours.
	Configured string `json:"configured,omitempty"`
	MadeOf     string `json:"madeOf,omitempty"`
	License    string `json:"license,omitempty"`
	// Artifact is what a jar is in a Maven repository, Bundled are artifacts that it says to hold inside.
	Artifact *Artifact  `json:"artifact,omitempty"`
	Bundled  []Artifact `json:"bundled,omitempty"`
}

// OwnFile is a file, directory or link that the configuration brings, in overlay/ or units/.
type OwnFile struct {
	// From is its path in the configuration folder, Path that in the image.
	From string `json:"from"`
	Path string `json:"path"`
	// Type is file, dir or symlink.
	Type  string `json:"type"`
	Owner string `json:"owner"`
	Group string `json:"group"`
	Mode  string `json:"mode"`
	// SHA256 is the hash of a file in hexadecimal, Target where a link leads.
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Target string `json:"target,omitempty"`
}

// Artifact names a jar of a Maven repository.
type Artifact struct {
	Group      string `json:"group"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	Classifier string `json:"classifier,omitempty"`
}

// Image is a container image.
type Image struct {
	// File is its OCI archive in the root.
	File string `json:"file"`
	// Names are its full names.
	Names []string `json:"names"`
	// Digest is that of its manifest or index, in the form sha256:HEX.
	Digest string `json:"digest"`
	// Size of the archive in bytes.
	Size int64 `json:"size"`
	// From is the payload, the file or the reference that it comes from.
	From string `json:"from"`
}

// Module is a Go module linked into a payload.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	// Sum is the hash of go.sum, in the form h1:BASE64: SHA-256 over a list of the hashes of the module's files
	// (golang.org/x/mod/sumdb/dirhash, Hash1), which is no hash of one file.
	Sum string `json:"sum,omitempty"`
}

// File is one path of the root filesystem.
type File struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Mode string `json:"mode"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Size int64  `json:"size,omitempty"`
	// Target is where a symbolic link points.
	Target string `json:"target,omitempty"`
	// Origin is the package, payload, unit, overlay file or named step that the path comes from.
	Origin string `json:"origin"`
}

var typeNames = map[tree.Type]string{
	tree.Dir: "dir", tree.Regular: "file", tree.Symlink: "symlink",
	tree.CharDevice: "char", tree.BlockDevice: "block", tree.Fifo: "fifo",
}

// Files lists a tree.
func Files(t *tree.Tree) []File {
	var out []File
	// Walk stops only at an error of its callback, and this one has none.
	_ = t.Walk(func(p string, n *tree.Inode) error {
		f := File{Path: p, Type: typeNames[n.Type], Mode: fmt.Sprintf("%04o", n.Mode), UID: n.UID, GID: n.GID, Target: n.Target, Origin: n.Origin}
		if n.Type == tree.Regular {
			f.Size = n.Content.Size()
		}
		out = append(out, f)
		return nil
	})
	return out
}

// GoPayload describes a Go program of size bytes by the build information that its linker left in it. version is that
// of the payload; empty takes the main module's.
func GoPayload(name, version, path string, program io.ReaderAt, size int64) (Payload, error) {
	info, err := buildinfo.Read(io.NewSectionReader(program, 0, size))
	if err != nil {
		return Payload{}, fmt.Errorf("read build information of payload %s: %w", name, err)
	}
	p, err := FilePayload(name, cmp.Or(version, info.Main.Version), path, program, size)
	if err != nil {
		return Payload{}, err
	}
	p.GoVersion, p.Main = info.GoVersion, &Module{Path: info.Main.Path, Version: info.Main.Version, Sum: info.Main.Sum}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		p.Modules = append(p.Modules, Module{Path: d.Path, Version: d.Version, Sum: d.Sum})
	}
	sort.Slice(p.Modules, func(i, j int) bool { return p.Modules[i].Path < p.Modules[j].Path })
	return p, nil
}

// FilePayload describes a file of size bytes that is taken as it is.
func FilePayload(name, version, path string, r io.ReaderAt, size int64) (Payload, error) {
	h := sha256.New()
	if n, err := io.Copy(h, io.NewSectionReader(r, 0, size)); err != nil || n < size {
		return Payload{}, fmt.Errorf("hash payload %s: %w", name, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return Payload{Name: name, Path: path, Version: version, SHA256: hex.EncodeToString(h.Sum(nil)), Size: size}, nil
}

// Contained are the packages that have files in the image or beside it on its media, each once; absent ones are not
// among them.
func (m Manifest) Contained() []Package {
	all := slices.DeleteFunc(slices.Clone(m.Packages), func(p Package) bool { return p.Absent })
	for _, p := range m.MediaPackages {
		if !slices.ContainsFunc(all, func(q Package) bool { return q.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// WithoutFiles is the short form that the image carries.
func (m Manifest) WithoutFiles() Manifest {
	m.Files = nil
	return m
}

// Encode writes the manifest as indented JSON.
func (m Manifest) Encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(m)
}

// FileList is the text that Encode writes of a list of files: most of a manifest, and the same as long as the root is.
type FileList []byte

// ListFiles encodes a list of files.
func ListFiles(files []File) (FileList, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent(" ", " ")
	err := e.Encode(files)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// EncodeWith is Encode for a manifest whose Files were encoded before; its own are not looked at.
func (m Manifest) EncodeWith(w io.Writer, files FileList) error {
	var short bytes.Buffer
	if err := m.WithoutFiles().Encode(&short); err != nil {
		return err
	}
	head, ok := bytes.CutSuffix(short.Bytes(), []byte("\n}\n"))
	if !ok {
		return fmt.Errorf("internal error: a manifest ends with %q", short.Bytes()[max(0, short.Len()-9):])
	}
	for _, part := range [][]byte{head, []byte(",\n \"files\": "), files, []byte("\n}\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
