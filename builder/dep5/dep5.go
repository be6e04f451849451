// Package dep5 reads machine-readable copyright files of Debian packages (the Debian copyright format 1.0, once DEP 5) and
// gives the licences that they name as one SPDX licence expression (SPDX 2.3, annex D).
//
// A copyright file speaks of the source package: the expression joins what is said of all files of the source, tests and
// build scripts included, so that it names at least the licences of what is installed. Files in free form are not read, and
// no text of a licence is compared with another one.
package dep5

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"spore/builder/deb/deb822"
)

// RefPrefix begins the name of a licence that the list of SPDX does not have; what follows is made of Debian's name of it.
const RefPrefix = "LicenseRef-debian-"

// Bounds of a copyright file: its bytes, and the licences of one package. Debian's largest has some 900 kB.
const (
	maxSize     = 8 << 20
	maxLicenses = 1000
	// maxSynopsis bounds the list of one paragraph; longer ones are prose.
	maxSynopsis = 500
)

// Expression gives the licences of a copyright file as an SPDX licence expression: all that its paragraphs name, joined by AND,
// sorted, each once. It is empty for a file that is not in the machine-readable form, or not well-formed.
func Expression(text string) string {
	if len(text) > maxSize || !machineReadable(text) {
		return ""
	}
	found := map[string]bool{}
	s := deb822.NewScanner(text)
	for first := true; s.Next(); first = false {
		p := s.Paragraph()
		// Paragraphs with neither are the texts of licences that others name.
		if _, files := p.Lookup("Files"); !files && !first {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(p.Get("License"), " \t\n"), "\n")
		for _, term := range terms(convert(name)) {
			found[term] = true
		}
		if len(found) > maxLicenses {
			return ""
		}
	}
	if s.Err() != nil {
		return ""
	}
	list := slices.Sorted(maps.Keys(found))
	if len(list) == 1 {
		return strings.TrimSuffix(strings.TrimPrefix(list[0], "("), ")")
	}
	return strings.Join(list, " AND ")
}

// terms takes an expression apart where AND joins it outside of all parentheses; one that OR joins there is a whole, in
// parentheses.
func terms(e string) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(e) {
		switch {
		case e[i] == '(':
			depth++
		case e[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(e[i:], " OR "):
			return []string{"(" + e + ")"}
		case depth == 0 && strings.HasPrefix(e[i:], " AND "):
			out = append(out, e[from:i])
			from = i + len(" AND ")
		}
	}
	if e == "" {
		return nil
	}
	return append(out, e[from:])
}

// format is the first field of the form: its value is the address of the specification, which has moved over the years.
var format = regexp.MustCompile(`(?i)^(?:Format|Format-Specification):[ \t\n]*\S*(?:copyright-format|dep5|dep-5|/dep/deps)`)

func machineReadable(text string) bool { return format.MatchString(strings.TrimLeft(text, "\n")) }

// convert reads the synopsis of a field License: short names joined by "or", "and" and commas, where "and" binds tighter than
// "or" and a comma ends both (section 7.2 of the format).
func convert(synopsis string) string {
	synopsis = strings.Join(strings.Fields(strings.ReplaceAll(synopsis, ",", " , ")), " ")
	if synopsis == "" || len(synopsis) > maxSynopsis {
		return ""
	}
	var groups []string
	for _, part := range strings.Split(synopsis, " , ") {
		part = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(part), "and "), "or ")
		if part == "" || part == "," {
			continue
		}
		groups = append(groups, choices(strings.Split(part, " or ")))
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if len(groups) == 1 {
		return groups[0]
	}
	// Whether a comma stands before "and" or before "or" decides how they are joined.
	join := " AND "
	if strings.Contains(synopsis, " , or ") {
		join = " OR "
	}
	for i, g := range groups {
		if strings.Contains(g, " OR ") || strings.Contains(g, " AND ") {
			groups[i] = "(" + g + ")"
		}
	}
	return strings.Join(groups, join)
}

// choices joins alternatives, of which each may be a list joined by "and".
func choices(list []string) string {
	var out []string
	for _, one := range list {
		var all []string
		for _, name := range strings.Split(one, " and ") {
			if name = strings.TrimSpace(name); name != "" {
				all = append(all, license(name))
			}
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > 1 {
			for i, l := range all {
				if strings.Contains(l, " OR ") { // Perl's is two
					all[i] = "(" + l + ")"
				}
			}
		}
		e := strings.Join(all, " AND ")
		if e != "" && len(list) > 1 && strings.Contains(e, " AND ") {
			e = "(" + e + ")"
		}
		if e != "" {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " OR ")
}

// license is one short name with its exception.
func license(name string) string {
	base, exception, with := strings.Cut(name, " with ")
	id, known := shortNames[strings.ToLower(base)]
	if !with && known {
		return id
	}
	if exception = exceptions[strings.ToLower(strings.TrimSpace(exception))]; known && exception != "" {
		return id + " WITH " + exception
	}
	// GPL-3+ and GPL-3 with one exception are two licences.
	name = strings.ReplaceAll(name, "+", "-or-later")
	return RefPrefix + strings.Trim(notInRef.ReplaceAllString(name, "-"), "-.")
}

// notInRef is what the name of a LicenseRef cannot have (idstring, annex D.2).
var notInRef = regexp.MustCompile(`[^A-Za-z0-9.-]+`)
