package recipe

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// Entry is one thing that a step did.
type Entry struct {
	// Step is the step's name.
	Step string `json:"step"`
	// Action is "make", "change", "drop", "take" (moved to Result.Boot) or "note".
	Action string `json:"action"`
	Path   string `json:"path,omitempty"`
	Why    string `json:"why"`
	// Bytes is the size of the files that were dropped.
	Bytes int64 `json:"bytes,omitempty"`
	// Origin is that of a file that was dropped or taken, Package the one that was dropped as a whole, with its Files.
	Origin  string   `json:"origin,omitempty"`
	Package string   `json:"package,omitempty"`
	Files   []string `json:"files,omitempty"`
}

// Report says what the recipe did beyond unpacking, in order.
type Report struct {
	Entries []Entry `json:"entries"`
}

// Notes returns what somebody should look at: things that the recipe saw and could not decide.
func (r *Report) Notes() []Entry { return r.Of("note") }

// Of returns the entries with one action.
func (r *Report) Of(action string) []Entry {
	var out []Entry
	for _, e := range r.Entries {
		if e.Action == action {
			out = append(out, e)
		}
	}
	return out
}

// WriteTo prints the report as a table.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, e := range r.Entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", e.Step, e.Action, e.Path, e.Why)
	}
	t.Flush()
	return b.WriteTo(w)
}
