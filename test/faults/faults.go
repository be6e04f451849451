// Package faults is the frame of the fault matrix: rows of what a machine is doing and what happens to it, the
// choice of some rows by a seed, and the page that a run of all rows writes (docs/faults.md).
//
// It knows no machine. The rows of package e2e boot machines; a row of Test stands for a test beside the code that runs
// the real step against a recorded disk. A new row is one entry of a table.
package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Doing is what the machine, or its operator, is in the middle of.
type Doing string

// What a machine does, in the order of the page.
const (
	FirstBoot    Doing = "first boot"
	Installation Doing = "installation"
	Delivery     Doing = "delivery of a bundle"
	Start        Doing = "start of an installed machine"
	Serving      Doing = "serving its clients"
	Push         Doing = "push of configuration"
	Update       Doing = "update"
	Trial        Doing = "trial"
	WayBack      Doing = "way back"
	Renewal      Doing = "renewal"
	Order        Doing = "an operator's order"
)

// order is that of the page.
var order = []Doing{FirstBoot, Installation, Delivery, Start, Serving, Push, Update, Trial, WayBack, Renewal, Order}

// State is what the machine is after the fault. These are the words of the page; a row takes one of them, so that equal
// ends are called the same.
type State string

// What a machine can be after a fault.
const (
	Whole     State = "runs all its roles"
	Before    State = "runs what ran before"
	New       State = "runs what was pushed"
	Either    State = "runs what ran before or what was pushed, whole, and takes the next push"
	Refused   State = "runs what ran before; the push is refused, and nothing of it is written"
	Partly    State = "runs the roles that need no secret; the others wait, and it says for what"
	NoRoles   State = "runs without its roles, says why, and leaves the disk as it is"
	Limps     State = "runs the roles that it can, and says which unit does not start"
	Stops     State = "stops before it serves anything damaged, and starts again"
	Asks      State = "stops in the firmware, and waits for a person with a medium"
	OffAndOn  State = "stops in the firmware until somebody turns it off and on, three times at most; then it runs what ran before"
	Flashed   State = "the disk has the old system, the new one, or none that starts; the next run completes it"
	Sealed    State = "has the bundle: on the medium or sealed"
	Issued    State = "has valid certificates: those of before or new ones"
	FileWhole State = "each file is the old one or the new one"
	Asked     State = "is as before or as the order says, and the same order completes it"
)

// Nothing is what is lost when all that was acknowledged is there.
const Nothing = "nothing"

// Outcome is what a row saw.
type Outcome struct {
	After State
	// Took is how long that took, from the fault or from the next power-on; 0 when no time was measured.
	Took time.Duration
	// Lost is what was acknowledged and is gone; Nothing when empty.
	Lost string
	// Note is what else a reader wants to know, such as the number of cuts.
	Note string
}

// Row is one line of the matrix. L is what all rows of a run share.
type Row[L any] struct {
	Doing   Doing
	Happens string
	// Want is what the machine has to be after, Loses what it may lose of what was acknowledged: Nothing when empty.
	Want  State
	Loses string
	// CPU is about what the row's own machines use. A row with neither CPU nor Shares boots none.
	CPU time.Duration
	// Shares names a machine that all rows with this name use, one after the other.
	Shares string
	// Own is the test of `make test` that runs the row in each run, so that it is not drawn.
	Own string
	// Soak is true for a row that only a run of all rows has: it costs too much to be drawn, or was not seen to end as
	// it wants yet.
	Soak bool
	Run  func(t *testing.T, l L) Outcome
	// pkg and pattern are those of Test.
	pkg, pattern string
}

// name is the row as a part of a test's name.
func (r Row[L]) name() string { return string(r.Doing) + ", " + r.Happens }

// lost is what was lost in words.
func lost(s string) string {
	if s == "" {
		return Nothing
	}
	return s
}

// check says what is not as the row wants it; empty when all is.
func (r Row[L]) check(o Outcome) string {
	var wrong []string
	if o.After != r.Want {
		wrong = append(wrong, fmt.Sprintf("the machine %s; wanted: %s", o.After, r.Want))
	}
	if lost(o.Lost) != lost(r.Loses) {
		wrong = append(wrong, fmt.Sprintf("lost is %s; wanted: %s", lost(o.Lost), lost(r.Loses)))
	}
	return strings.Join(wrong, "; ")
}

// Check says what is wrong with a table of rows: a row without a word that the page needs, or two that are the same.
func Check[L any](rows []Row[L]) error {
	seen := map[string]bool{}
	for _, r := range rows {
		known := false
		for _, d := range order {
			known = known || d == r.Doing
		}
		switch {
		case !known:
			return fmt.Errorf("row %q: the page has no place for %q", r.Happens, r.Doing)
		case r.Happens == "" || r.Want == "" || r.Run == nil:
			return fmt.Errorf("row %q: Happens, Want and Run are needed", r.name())
		case strings.ContainsAny(r.Happens+string(r.Want)+r.Loses, "|\n"):
			return fmt.Errorf("row %q: a cell of the page has neither | nor line ends", r.name())
		case seen[r.name()]:
			return fmt.Errorf("row %q is there twice", r.name())
		}
		seen[r.name()] = true
	}
	return nil
}
