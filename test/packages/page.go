package packages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Wanted is how many packages of the list have to build.
const Wanted = 195

// Run is everything that the page says.
type Run struct {
	// Date is the day of the run, Archive the date of the newest index.
	Date, Archive time.Time
	// Base is how many packages the image has without one of the list.
	Base     int
	Outcomes []Outcome
}

// Built counts the packages that build.
func (r Run) Built() int {
	n := 0
	for _, o := range r.Outcomes {
		if o.Err == nil {
			n++
		}
	}
	return n
}

// about is the beginning of the page: the numbers of packages of the list, and of an image without them, and the dates.
const about = `An image takes packages of Debian trixie by their names, in the list "packages" of image.yaml.
"make packages" builds each of these %d alone into an image of "spore init --example edge" (%d packages, with the
kernel for virtual machines). It compares the tree with the one that mmdebstrap makes of the same packages by running
their scripts: paths, types, modes, owners by name, targets of links, data and capabilities.

Run of %s, archive of %s.
`

// reading says how to read the tables.
const reading = `Differences are counted in paths, with those of the packages that only this one brings. The numbers
behind the count lead to the [reasons](#reasons). The reasons for packages that every image has are in
builder/recipe/testdata/mmdebstrap-differences.
`

// Page is docs/packages.md.
func (r Run) Page() string {
	w := &page{}
	same, explained, unexplained, pending := 0, 0, 0, 0
	for _, o := range r.Outcomes {
		switch {
		case o.Err != nil:
		case !o.Compared:
			pending++
		case len(o.Differences) == 0:
			same++
		case slices.ContainsFunc(o.Differences, func(e Explained) bool { return e.Why == "" }):
			unexplained++
		default:
			explained++
		}
	}
	w.line("# Packages of Debian")
	w.line("")
	w.line("<!-- Written by make packages. Do not edit. -->")
	w.line("")
	fmt.Fprintf(w, about, len(r.Outcomes), r.Base, r.Date.UTC().Format(time.DateOnly),
		r.Archive.UTC().Format(time.DateOnly))
	w.line("")
	w.line("| | packages |")
	w.line("|---|---|")
	w.line("| build | %d of %d |", r.Built(), len(r.Outcomes))
	w.line("| … are the same as Debian's | %d |", same)
	w.line("| … differ, and the reason is known | %d |", explained)
	for _, row := range []struct {
		what string
		n    int
	}{{"… differ, and the reason is not known", unexplained}, {"… were not compared", pending}} {
		if row.n > 0 {
			w.line("| %s | %d |", row.what, row.n)
		}
	}
	w.line("")
	w.WriteString(reading)
	group := ""
	for _, o := range r.Outcomes {
		if o.Group != group {
			group = o.Group
			w.line("\n## %s\n", group)
			w.line("| package | version | builds | differences |")
			w.line("|---|---|---|---|")
		}
		w.line("| %s | %s | %s | %s |", o.Name, o.Version, builds(o), w.differences(o))
	}
	w.line("\n## Reasons\n")
	if len(w.reasons) == 0 {
		w.line("There are none: no package differs.")
	}
	for i, why := range w.reasons {
		w.line("%d. %s", i+1, wrapped(why))
	}
	return w.String()
}

type page struct {
	strings.Builder
	reasons []string
}

func (w *page) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func builds(o Outcome) string {
	switch {
	case o.Err != nil:
		return "no: " + cell(cmp.Or(o.Fails, o.Err.Error()))
	case len(o.Notes) > 0:
		return "yes, but somebody has to look: " + cell(strings.Join(o.Notes, "; "))
	}
	return "yes"
}

// cell fits a text into a table: the beginning of it, in one line.
func cell(text string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}

// differences is the count of a package's differences and the numbers of their reasons.
func (w *page) differences(o Outcome) string {
	switch {
	case o.Err != nil:
		return ""
	case !o.Compared:
		return "not compared: " + cell(o.Pending)
	case len(o.Differences) == 0:
		return "none"
	}
	var numbers []int
	open := 0
	for _, e := range o.Differences {
		if e.Why == "" {
			open++
			continue
		}
		i := slices.Index(w.reasons, e.Why)
		if i < 0 {
			w.reasons = append(w.reasons, e.Why)
			i = len(w.reasons) - 1
		}
		numbers = append(numbers, i+1)
	}
	slices.Sort(numbers)
	out := fmt.Sprintf("%d:", len(o.Differences))
	for i, n := range slices.Compact(numbers) {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprintf(" %d", n)
	}
	if open > 0 {
		out += fmt.Sprintf("; %d without a reason", open)
	}
	return out
}

// wrapped breaks a reason into lines of a list's item.
func wrapped(text string) string {
	var b strings.Builder
	column := 4
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			column += n
		case column+1+n > 116:
			b.WriteString("\n   ")
			column = 3 + n
		default:
			b.WriteByte(' ')
			column += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
