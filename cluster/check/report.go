// Package check is what the checks of a configuration work with: the problems that they find, the places in the files that
// these are about, and the questions that several of them ask. It knows no service; package cluster loads the files and runs
// the checks, its own and those of the services.
package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Severity says what a problem does to the result.
type Severity int

// The severities. An Error makes the configuration unusable; a Warning names a risk and becomes an Error with
// Options.Strict; a Note is worth knowing.
const (
	Error Severity = iota
	Warning
	Note
)

// String is the word that stands in the message.
func (s Severity) String() string { return [...]string{"error", "warning", "note"}[s] }

// MarshalText writes the word into JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Problem is one finding, with the place in the file that it is about.
type Problem struct {
	Severity Severity `json:"severity"`
	// File is the path inside the configuration folder.
	File string `json:"file"`
	// Line and Column count from 1; the column counts characters. Both are 1 when the problem is about the whole file.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Message says what is wrong and what to write instead.
	Message string `json:"message"`
}

// String is the form that editors and terminals make clickable: file:line:column: severity: message.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Severity, p.Message)
}

// Report holds all problems of a configuration, sorted by file, line and column.
type Report []Problem

// Failed reports whether there is an error.
func (r Report) Failed() bool { return r.Count(Error) > 0 }

// Count returns the number of problems of a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, p := range r {
		if p.Severity == s {
			n++
		}
	}
	return n
}

// String has one problem a line.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// Err is nil without errors, and otherwise an error whose text is all errors, one a line.
func (r Report) Err() error {
	var errs []string
	for _, p := range r {
		if p.Severity == Error {
			errs = append(errs, p.String())
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("the configuration has %d errors:\n%s", len(errs), strings.Join(errs, "\n"))
}

// Under returns the report with dir put before each file, for people who stand elsewhere.
func (r Report) Under(dir string) Report {
	out := slices.Clone(r)
	for i := range out {
		out[i].File = path.Join(dir, out[i].File)
	}
	return out
}

// Sorted returns the problems in order and each once.
func (r Report) Sorted() Report {
	slices.SortFunc(r, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(r)
}
