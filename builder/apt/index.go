package apt

import (
	"fmt"
	"strconv"

	"spore/builder/deb"
	"spore/builder/deb/deb822"
	"spore/builder/deb/version"
	"spore/builder/store"
)

// Bounds of the Packages indexes; Debian's main component has 57 MB and 68,000 packages.
const (
	maxIndex    = 1 << 30
	maxPackages = 2_000_000
)

// Package is one binary package of the archive.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	// Source is the source package, with its version in parentheses where that differs; empty when named as the package.
	Source    string `json:"source,omitempty"`
	Suite     string `json:"suite"`
	Component string `json:"component"`
	// Filename is the path of the .deb below the base of the archive, Size its length in bytes.
	Filename string `json:"filename"`
	Size     int64  `json:"size"`
	// SHA256 is that of the .deb in lower-case hexadecimal, which is also its key in the store.
	SHA256    string `json:"sha256"`
	Essential bool   `json:"essential,omitempty"`
	Priority  string `json:"priority,omitempty"`
	// The relation fields, as the index has them.
	PreDepends string `json:"preDepends,omitempty"`
	Depends    string `json:"depends,omitempty"`
	Provides   string `json:"provides,omitempty"`
	Conflicts  string `json:"conflicts,omitempty"`
	Breaks     string `json:"breaks,omitempty"`
	// Paragraph is the entry of the index as it is.
	Paragraph string `json:"paragraph"`
	// NeededBy says why the package is in a closure: "the package list", "essential", or the name of a package.
	NeededBy string `json:"neededBy,omitempty"`
}

// Key is the .deb's key in the store: its SHA-256.
func (p *Package) Key() store.Key {
	k, _ := store.ParseKey(p.SHA256) // checked when the index was read
	return k
}

// String is name and version.
func (p *Package) String() string { return p.Name + " " + p.Version }

// ParseIndex calls fn for each package of a Packages index that the architecture can use, with the offset of its paragraph in
// bytes. The index is held in memory once, and packages share it.
func ParseIndex(text, arch string, fn func(p *Package, offset int) error) error {
	if len(text) > maxIndex {
		return fmt.Errorf("index of more than %d bytes", maxIndex)
	}
	s := deb822.NewScanner(text)
	for n := 0; s.Next(); n++ {
		if n == maxPackages {
			return fmt.Errorf("more than %d packages", maxPackages)
		}
		par := s.Paragraph()
		p, err := parsePackage(par)
		if err != nil {
			return fmt.Errorf("line %d: %w", par.Line, err)
		}
		if p.Arch != arch && p.Arch != "all" {
			continue
		}
		if err := fn(p, par.Offset); err != nil {
			return err
		}
	}
	return s.Err()
}

func parsePackage(par *deb822.Paragraph) (*Package, error) {
	p := &Package{
		Name: par.Get("Package"), Version: par.Get("Version"), Arch: par.Get("Architecture"), Source: par.Get("Source"),
		Filename: par.Get("Filename"), SHA256: par.Get("SHA256"), Essential: par.Get("Essential") == "yes",
		Priority: par.Get("Priority"), PreDepends: par.Get("Pre-Depends"), Depends: par.Get("Depends"),
		Provides: par.Get("Provides"), Conflicts: par.Get("Conflicts"), Breaks: par.Get("Breaks"), Paragraph: par.Raw,
	}
	if !deb.ValidName(p.Name) {
		return nil, fmt.Errorf("%.60q is not a package name", p.Name)
	}
	if err := version.Check(p.Version); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.Name, err)
	}
	if !cleanRelative(p.Filename) {
		return nil, fmt.Errorf("package %s: file name %.200q is not allowed", p.Name, p.Filename)
	}
	if _, err := store.ParseKey(p.SHA256); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.Name, err)
	}
	n, err := strconv.ParseInt(par.Get("Size"), 10, 64)
	if err != nil || n <= 0 {
		return nil, fmt.Errorf("package %s: size %.40q is not a number of bytes", p.Name, par.Get("Size"))
	}
	p.Size = n
	return p, nil
}
