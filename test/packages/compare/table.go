package compare

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"spore/builder/deb"
)

// Row explains differences.
type Row struct {
	// Package is the one whose differences the row explains; empty for all.
	Package string
	// Kind is one of Kinds, Pattern one of path.Match; one that ends in /** takes the path and everything below, one that
	// begins with /**/ is meant at any depth.
	Kind, Pattern string
	// Why is the reason, for people.
	Why string
	// File and Line are where it stands.
	File string
	Line int
	// Used tells whether the row has explained something.
	Used bool
}

func (r *Row) String() string { return fmt.Sprintf("%s:%d: %s %s", r.File, r.Line, r.Kind, r.Pattern) }

// Table is a list of explanations.
type Table []*Row

// ReadTable reads explanations, one a line: "KIND PATTERN  WHY", with two spaces before WHY. A line "[PACKAGE]" begins
// those of one package, and "[]" those of all again; a line that begins with # is for people. All problems come at
// once.
func ReadTable(file, text string) (Table, error) {
	var out Table
	var problems []error
	seen := map[[3]string]int{}
	pkg := ""
	for i, line := range strings.Split(text, "\n") {
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s:%d: %s", file, i+1, fmt.Sprintf(format, args...)))
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			name, closed := strings.CutSuffix(line[1:], "]")
			if !closed || (name != "" && !deb.ValidName(name)) {
				problem("%q does not name a package; write [NAME], or [] for all", line)
				continue
			}
			pkg = name
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		pattern, why, _ := strings.Cut(strings.TrimSpace(rest), "  ")
		why = strings.TrimSpace(why)
		key := [3]string{pkg, kind, pattern}
		switch _, err := path.Match(pattern, "/"); {
		case !slices.Contains(Kinds, kind):
			problem("%q is not a kind; use one of %s", kind, strings.Join(Kinds, ", "))
		case !strings.HasPrefix(pattern, "/") || err != nil:
			problem("%q is not a pattern of absolute paths", pattern)
		case why == "":
			problem("%s %s has no explanation; write it after two spaces", kind, pattern)
		case seen[key] != 0:
			problem("%s %s is in line %d, too", kind, pattern, seen[key])
		}
		seen[key] = i + 1
		out = append(out, &Row{Package: pkg, Kind: kind, Pattern: pattern, Why: why, File: file, Line: i + 1})
	}
	return out, errors.Join(problems...)
}

// Explain returns the first row that explains a difference, and marks all that do as used; nil where none does.
func (t Table) Explain(d Difference) *Row {
	var first *Row
	for _, r := range t {
		if r.Kind != d.Kind || (r.Package != "" && r.Package != d.Package) || !matches(r.Pattern, d.Path) {
			continue
		}
		r.Used = true
		if first == nil || (first.Package == "" && r.Package != "") {
			first = r
		}
	}
	return first
}

// matches reports whether a pattern names a path; one that begins with /**/ names it at any depth.
func matches(pattern, name string) bool {
	if rest, ok := strings.CutPrefix(pattern, "/**/"); ok {
		for i := range len(name) {
			if name[i] == '/' && matches("/"+rest, name[i:]) {
				return true
			}
		}
		return false
	}
	if ok, _ := path.Match(pattern, name); ok {
		return true
	}
	dir, deep := strings.CutSuffix(pattern, "/**")
	for p := name; deep && p != "/"; p = path.Dir(p) {
		if ok, _ := path.Match(dir, p); ok {
			return true
		}
	}
	return false
}

// Unused are the rows that have explained nothing.
func (t Table) Unused() []*Row {
	return slices.DeleteFunc(slices.Clone(t), func(r *Row) bool { return r.Used })
}
