// Package dep5 reads machine-readable copyright files of Debian packages (the Debian copyright format 1.0, once DEP 5) and
// gives the licences that they name as one SPDX licence expression (SPDX 2.3, annex D).
//
// A copyright file speaks of the source package: the expression joins what is said of all files of the source, tests and
// build scripts included, so that it names at least the licences of what is installed. Files in free form are not read, and
// no text of a licence is compared with another one.
package dep5

import (
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

// Expression gives the licences of a copyright file as an SPDX licence expression: each paragraph's, joined by AND, sorted.
// It is empty for a file that is not in the machine-readable form, or not well-formed.
func Expression(text string) string {
	if len(text) > maxSize || !machineReadable(text) {
		return ""
	}
	var found []string
	s := deb822.NewScanner(text)
	for first := true; s.Next(); first = false {
		p := s.Paragraph()
		// Paragraphs with neither are the texts of licences that others name.
		if _, files := p.Lookup("Files"); !files && !first {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(p.Get("License"), " \t\n"), "\n")
		if e := convert(name); e != "" && !slices.Contains(found, e) {
			found = append(found, e)
		}
		if len(found) > maxLicenses {
			return ""
		}
	}
	if s.Err() != nil || len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	if len(found) > 1 {
		for i, e := range found {
			if strings.Contains(e, " OR ") {
				found[i] = "(" + e + ")"
			}
		}
	}
	return strings.Join(dropRepeated(found), " AND ")
}

// dropRepeated takes out a licence that another paragraph's list names already.
func dropRepeated(list []string) []string {
	named := map[string]bool{}
	for _, e := range list {
		if strings.Contains(e, " AND ") && !strings.Contains(e, "(") {
			for _, one := range strings.Split(e, " AND ") {
				named[one] = true
			}
		}
	}
	return slices.DeleteFunc(list, func(e string) bool { return named[e] })
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
		e := strings.Join(slices.Compact(all), " AND ")
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
