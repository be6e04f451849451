package deb

import (
	"fmt"
	"strconv"
	"strings"

	"spore/builder/deb/deb822"
	"spore/builder/deb/version"
)

// Control is what a package says of itself: the fields of its control file (deb-control(5)).
type Control struct {
	Package, Version, Architecture string
	// Source is the source package, with its version in parentheses where that differs; empty when named as the package.
	Source                                             string
	MultiArch, Section, Priority, Maintainer, Homepage string
	Essential                                          bool
	// The relation fields, as they are written.
	PreDepends, Depends, Provides, Conflicts, Breaks, Replaces string
	// InstalledSize is in KiB, as the package's maker counted it.
	InstalledSize int64
	// Description is the first line and what follows it.
	Description string
	// Paragraph is the whole paragraph as it was, without a final line feed: with a Status field it is an entry of
	// dpkg's status file.
	Paragraph string
}

// ValidName reports whether a text is a package name (Debian Policy 5.6.1, at most 128 bytes).
func ValidName(s string) bool { return len(s) >= 2 && len(s) <= 128 && plain(s, "+-.") }

// validArch reports whether a text is an architecture (Debian Policy 5.6.8).
func validArch(s string) bool { return s != "" && len(s) <= 32 && plain(s, "-") }

// plain reports whether a text is of lower-case letters, digits and, but for its first byte, of the further ones.
func plain(s, further string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || strings.IndexByte(further, c) < 0) {
			return false
		}
	}
	return true
}

// ParseControl reads the control file of a package: exactly one paragraph that names package, version and architecture.
func ParseControl(text string) (*Control, error) {
	s := deb822.NewScanner(text)
	if !s.Next() {
		if err := s.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the control file is empty")
	}
	p := s.Paragraph()
	c := &Control{
		Package: p.Get("Package"), Version: p.Get("Version"), Architecture: p.Get("Architecture"),
		Source: p.Get("Source"), MultiArch: p.Get("Multi-Arch"), Section: p.Get("Section"), Priority: p.Get("Priority"),
		Maintainer: p.Get("Maintainer"), Homepage: p.Get("Homepage"), Essential: p.Get("Essential") == "yes",
		PreDepends: p.Get("Pre-Depends"), Depends: p.Get("Depends"), Provides: p.Get("Provides"),
		Conflicts: p.Get("Conflicts"), Breaks: p.Get("Breaks"), Replaces: p.Get("Replaces"),
		Description: p.Get("Description"), Paragraph: p.Raw,
	}
	if size, ok := p.Lookup("Installed-Size"); ok {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("Installed-Size %q is not a number", size)
		}
		c.InstalledSize = n
	}
	if s.Next() || s.Err() != nil {
		return nil, fmt.Errorf("the control file has more than one paragraph")
	}
	if !ValidName(c.Package) {
		return nil, fmt.Errorf("%q is not a package name", c.Package)
	}
	if !validArch(c.Architecture) {
		return nil, fmt.Errorf("%q is not an architecture", c.Architecture)
	}
	if err := version.Check(c.Version); err != nil {
		return nil, err
	}
	return c, nil
}
