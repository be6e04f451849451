// Package omit says what of its packages an image leaves out, by declared rules: kinds of files, the kernel's modules for
// hardware that servers do not have, and the firmware that only those modules ask for. image.yaml puts back what a machine
// needs after all, by the class of a rule (keep) or by path (keepPaths).
//
// It takes nothing out of a tree itself; the recipe does that, and reports each path with the reason that is given here.
package omit

import (
	"fmt"
	"path"
	"strings"
)

// Classes of rules, as keep of image.yaml names them. Modules and Firmware stand for all of their kind.
const (
	Completions = "completions"
	Desktop     = "desktop"
	Development = "development"
	Docs        = "docs"
	Firmware    = "firmware"
	Locales     = "locales"
	Man         = "man"
	Modules     = "modules"
	Perl        = "perl"
)

// Omission is one thing that an image leaves out.
type Omission struct {
	// Path is absolute in the image.
	Path string
	// Class is that of the rule that left it out.
	Class string
	// Why is the rule's reason.
	Why string
}

// Reason is Why with what to write into image.yaml to have the thing back.
func (o Omission) Reason() string { return Reason(o.Class, o.Why) }

// Reason says why a rule of a class left something out, and what to write into image.yaml to have it back.
func Reason(class, why string) string {
	return fmt.Sprintf("%s; keep: [%s] puts it back", why, class)
}

// Keep is what image.yaml puts back. The zero value puts nothing back.
type Keep struct {
	// Classes names rules.
	Classes []string
	// Paths are absolute; each element may be a pattern as in path.Match. One that leads to a directory means all of it.
	Paths []string
}

// Class reports whether everything that rules of a class leave out stays.
func (k Keep) Class(name string) bool {
	for _, c := range k.Classes {
		if c == name {
			return true
		}
	}
	return false
}

// Path reports whether a path is named, or lies in a directory that is.
func (k Keep) Path(p string) bool {
	for _, pattern := range k.Paths {
		if within(pattern, p) {
			return true
		}
	}
	return false
}

// Below reports whether something below a directory may be named, so that the directory has to be looked through.
func (k Keep) Below(dir string) bool {
	depth := strings.Count(dir, "/")
	for _, pattern := range k.Paths {
		if strings.Count(pattern, "/") > depth && matchUpTo(pattern, dir, depth) {
			return true
		}
	}
	return false
}

// within reports whether a path matches a pattern, or lies in a directory that does.
func within(pattern, p string) bool {
	if !strings.ContainsAny(pattern, "*?[\\") {
		rest, ok := strings.CutPrefix(p, pattern)
		return ok && (rest == "" || rest[0] == '/')
	}
	depth := strings.Count(pattern, "/")
	return strings.Count(p, "/") >= depth && matchUpTo(pattern, p, depth)
}

// matchUpTo compares a pattern and a path up to the slash after the first n.
func matchUpTo(pattern, p string, n int) bool {
	ok, err := path.Match(upTo(pattern, n), upTo(p, n))
	return err == nil && ok
}

// upTo cuts a path before the slash after the first n.
func upTo(p string, n int) string {
	for i := range len(p) {
		if p[i] == '/' {
			if n--; n < 0 {
				return p[:i]
			}
		}
	}
	return p
}
