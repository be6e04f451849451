// Package lock is the file image.lock: what an image is made of, down to the hash of every input, in a form that people
// can review line by line and that a later build can be held to. It holds no content of the configuration, no clock and
// no place.
//
// It reads, writes and compares the file. What goes into it, and a build that takes only what it names, are the
// pipeline's.
package lock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"spore/builder/deb"
	"spore/builder/deb/version"
	"spore/builder/store"
	"spore/cluster/regular"
	"spore/storage/atomicfile"
)

// Name is the name of the file, in a configuration folder and beside an image.
const Name = "image.lock"

// Format is the version of the form.
const Format = 1

// maxSize bounds a lock, in bytes; that of an image with everything has 100 KB.
const maxSize = 16 << 20

// Lock is what an image is made of. Lists are sorted by name.
type Lock struct {
	Format     int      `yaml:"format"`
	Suite      string   `yaml:"suite"`
	Components []string `yaml:"components,flow"`
	// BuildTime is the time in the image, in seconds since the epoch.
	BuildTime int64 `yaml:"buildTime"`
	// Kernel is the kernel's release.
	Kernel string `yaml:"kernel"`
	// Spore is the program that builds, Source what of its source tree is laid into the root as it is.
	Spore  Tool   `yaml:"spore,flow"`
	Source []File `yaml:"source"`
	// Indexes are what the packages were chosen from.
	Indexes []Index `yaml:"indexes"`
	// Requested are the packages that the configuration asks for; Packages are these and all that they need.
	Requested []string  `yaml:"requested"`
	Packages  []Package `yaml:"packages"`
	// Media are packages of which media have files beside the root.
	Media    []Package `yaml:"media,omitempty"`
	Programs []Program `yaml:"programs"`
	// Images are the container images.
	Images []Image `yaml:"images,omitempty"`
}

// Tool is a program that builds.
type Tool struct {
	Version string `yaml:"version"`
	// SHA256 is the hash of its file.
	SHA256 string `yaml:"sha256"`
}

// File is a file, or a folder of them.
type File struct {
	Name   string `yaml:"name"`
	SHA256 string `yaml:"sha256"`
}

// Index is the signed InRelease file of a suite.
type Index struct {
	Suite  string    `yaml:"suite"`
	Date   time.Time `yaml:"date"`
	SHA256 string    `yaml:"sha256"`
	// Lists are the Packages files that it vouches for, by their path below dists/SUITE.
	Lists []File `yaml:"lists,flow"`
}

// Package is a Debian package.
type Package struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	Arch    string `yaml:"arch"`
	// Source is the source package where it is named otherwise.
	Source    string `yaml:"source,omitempty"`
	Suite     string `yaml:"suite"`
	Component string `yaml:"component"`
	// Path is that of the .deb below the base of the archive, Size its length in bytes.
	Path   string `yaml:"path"`
	Size   int64  `yaml:"size"`
	SHA256 string `yaml:"sha256"`
}

// Program is a program, or a file beside programs, that is no Debian package.
type Program struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version,omitempty"`
	// Toolchain is the version of Go that compiles it; empty for what is taken as it is.
	Toolchain string `yaml:"toolchain,omitempty"`
	// Inputs is a hash over the files of its module (go.mod, go.sum and source), the toolchain and its flags; of a file of
	// an archive over the archive and what is taken from it.
	Inputs string `yaml:"inputs,omitempty"`
	// SHA256 is the hash of a file that is taken as it is, such as a jar.
	SHA256 string `yaml:"sha256,omitempty"`
	// Path is where it lies in the root, empty for what is in the initramfs or a container image; Links lead to it.
	Path  string   `yaml:"path,omitempty"`
	Links []string `yaml:"links,omitempty"`
	// Mode holds the permission bits in octal.
	Mode string `yaml:"mode,omitempty"`
}

// Image is a container image. A reference names its content by a digest; an archive is named by its file and has a
// hash.
type Image struct {
	Name   string `yaml:"name"`
	SHA256 string `yaml:"sha256,omitempty"`
}

// header is at the top of each file.
const header = "# What an image is made of, to the byte. Written by spore; docs/lock.md tells how it is used.\n"

// Encode writes the file: YAML, one line for each item.
func (l *Lock) Encode(w io.Writer) error {
	var n yaml.Node
	if err := n.Encode(l); err != nil {
		return fmt.Errorf("encode %s: %w", Name, err)
	}
	inline(&n)
	var b bytes.Buffer
	b.WriteString(header)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&n), e.Close()); err != nil {
		return fmt.Errorf("encode %s: %w", Name, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inline puts each item of each list on one line.
func inline(n *yaml.Node) {
	for _, c := range n.Content {
		if c.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range c.Content {
			if item.Kind == yaml.MappingNode {
				item.Style = yaml.FlowStyle
			}
		}
	}
}

// Parse reads a file and checks it: a build trusts it with the paths that it asks mirrors for.
func Parse(data []byte) (*Lock, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("it has more than %d bytes", maxSize)
	}
	var l Lock
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&l); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document")
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	l.Sort()
	return &l, nil
}

// Read is Parse for a file.
func Read(name string) (*Lock, error) {
	f, err := regular.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; spore lock makes it", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	l, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore it, or remove it and run spore lock", name, err)
	}
	return l, nil
}

// Write writes the file whole or not at all.
func (l *Lock) Write(name string) error {
	return atomicfile.Fill(name, 0o644, atomicfile.Whole, func(f *os.File) error { return l.Encode(f) })
}

func (l *Lock) check() error {
	if l.Format != Format {
		return fmt.Errorf("it has format %d, and this spore reads format %d", l.Format, Format)
	}
	if l.Suite == "" || strings.Trim(l.Suite, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return fmt.Errorf("suite %.60q is not the name of a release", l.Suite)
	}
	if l.BuildTime <= 0 || l.BuildTime > 1<<32-1 {
		return fmt.Errorf("buildTime %d is not in seconds since 1970, up to 4294967295", l.BuildTime)
	}
	if err := checkSum(l.Spore.SHA256); err != nil {
		return fmt.Errorf("spore: %w", err)
	}
	return errors.Join(
		checkEach("source", l.Source, File.name, File.check),
		checkEach("index", l.Indexes, Index.name, Index.check),
		checkEach("requested package", l.Requested, strings.Clone, checkPackageName),
		checkEach("package", l.Packages, Package.name, Package.check),
		checkEach("media package", l.Media, Package.name, Package.check),
		checkEach("program", l.Programs, Program.name, Program.check),
		checkEach("container image", l.Images, Image.name, Image.check),
	)
}

// checkEach checks the items of a list, and that no two have the same name.
func checkEach[T any](kind string, list []T, name func(T) string, check func(T) error) error {
	seen := make(map[string]bool, len(list))
	for _, item := range list {
		n := name(item)
		if n == "" || strings.ContainsFunc(n, unicode.IsControl) {
			return fmt.Errorf("%s: %.60q is not a name", kind, n)
		}
		if seen[n] {
			return fmt.Errorf("%s %.60s appears twice", kind, n)
		}
		seen[n] = true
		if err := check(item); err != nil {
			return fmt.Errorf("%s %.60s: %w", kind, n, err)
		}
	}
	return nil
}

func (f File) name() string    { return f.Name }
func (i Index) name() string   { return i.Suite }
func (p Package) name() string { return p.Name }
func (p Program) name() string { return p.Name }
func (i Image) name() string   { return i.Name }

func (f File) check() error { return checkSum(f.SHA256) }
func (i Index) check() error {
	return errors.Join(checkSum(i.SHA256), checkEach("list", i.Lists, File.name, File.check))
}

func (p Program) check() error {
	if (p.Inputs == "") == (p.SHA256 == "") {
		return errors.New("it has either inputs or sha256")
	}
	return checkSum(cmp.Or(p.Inputs, p.SHA256))
}

func (i Image) check() error {
	if i.SHA256 == "" {
		return nil // its name has a digest
	}
	return checkSum(i.SHA256)
}

func checkSum(s string) error {
	_, err := store.ParseKey(s)
	return err
}

func checkPackageName(name string) error {
	if !deb.ValidName(name) {
		return errors.New("that is not the name of a package")
	}
	return nil
}

func (p Package) check() error {
	if err := checkPackageName(p.Name); err != nil {
		return err
	}
	if err := version.Check(p.Version); err != nil {
		return err
	}
	if !fs.ValidPath(p.Path) || p.Path == "." || strings.ContainsFunc(p.Path, func(r rune) bool { return r < ' ' || strings.ContainsRune("\x7f\\?#", r) }) {
		return fmt.Errorf("path %.200q is not allowed", p.Path)
	}
	if p.Size <= 0 {
		return fmt.Errorf("size %d is not a number of bytes", p.Size)
	}
	return checkSum(p.SHA256)
}

// Sort brings the lists into their order.
func (l *Lock) Sort() {
	slices.Sort(l.Components)
	slices.Sort(l.Requested)
	l.Requested = slices.Compact(l.Requested)
	byName(l.Source, File.name)
	byName(l.Packages, Package.name)
	byName(l.Media, Package.name)
	byName(l.Programs, Program.name)
	byName(l.Images, Image.name)
}

func byName[T any](list []T, name func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
}
