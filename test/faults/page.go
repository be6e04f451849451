package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Seen is a row with what it saw; nil when it did not come to an end.
type Seen struct {
	Doing   Doing
	Happens string
	Want    State
	Loses   string
	Outcome *Outcome
	// Wrong says what is not as it should be.
	Wrong string
	// Day is when it ran, YYYY-MM-DD, and Seed that of the run.
	Day  string
	Seed uint64
}

// name is that of the row.
func (s Seen) name() string { return string(s.Doing) + ", " + s.Happens }

// Whole says that all rows of a table ran and are as they should be: only then it becomes the page.
func whole(list []Seen) bool {
	for _, s := range list {
		if s.Outcome == nil || s.Wrong != "" {
			return false
		}
	}
	return len(list) > 0
}

// Table is what the rows saw, by what the machine did.
func Table(list []Seen) string {
	var b strings.Builder
	for _, d := range order {
		begun := false
		for _, s := range list {
			if s.Doing != d {
				continue
			}
			if !begun {
				fmt.Fprintf(&b, "\n## %s\n\n| what happens | the machine after | seconds | lost | seen |\n|---|---|--:|---|---|\n", upper(string(d)))
				begun = true
			}
			b.WriteString(s.line())
		}
	}
	return b.String()
}

// line is a row of the table.
func (s Seen) line() string {
	if s.Outcome == nil {
		return fmt.Sprintf("| %s | did not end | – | – | wanted: %s |\n", s.Happens, s.Want)
	}
	seconds, after, note := "–", string(s.Outcome.After), s.Outcome.Note
	if s.Outcome.Took > 0 {
		seconds = fmt.Sprintf("%.0f", max(1, s.Outcome.Took.Seconds()))
	}
	if s.Wrong != "" {
		after, note = "**"+after+"**", strings.TrimSpace(note+" **NOT AS WANTED**: "+s.Wrong)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", s.Happens, after, seconds, lost(s.Outcome.Lost), note)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Page is docs/faults.md: the table of all rows, with the days and the seeds of their runs. accel is how code ran.
func Page(list []Seen, accel string) string {
	var days, seeds []string
	for _, s := range list {
		if s.Outcome != nil {
			days = append(days, s.Day)
			seeds = append(seeds, fmt.Sprintf("SPORE_SEED=%d", s.Seed))
		}
	}
	return fmt.Sprintf(`# Faults

This page lists what was done to machines, and what they were after that. Tests write it: `+"`make faults`"+` runs all
%d rows, and writes the page only when every row ran and every machine ended as the row demands. `+"`make test`"+` draws
some of the rows in each run, by a seed that it prints ([how](development.md#the-fault-matrix)).

%s
The machines ran in QEMU (%s). Clusters of several nodes ran in containers (systemd-nspawn).

"Seconds" counts from the fault, or from the power-on after it, until the machine is what the row says; an emulated
machine beside others is slow. "Lost" is what somebody was told is kept, and is gone. In a row without seconds that
names a package, the real code of that step worked on a disk of the test that was cut, or returned errors, at each of
its writes and flushes.
%s`, len(list), fold("The rows ran on "+each(days)+", with "+each(seeds)+"."), accel, Table(list))
}

// fold breaks a text into lines that fit into a terminal.
func fold(text string) string {
	const columns = 120
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}

// each has each text once, sorted, in words.
func each(list []string) string {
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
