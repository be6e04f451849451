// Package screen says on a monitor what the status line says on the serial console, for people who stand before the
// machine: which node it is and how it is, or that it is none and what to do about it. It is what a monitor shows until
// spore-screen takes it, whose pages are in the packages below this one.
//
// It makes text for a terminal that knows ECMA-48, as the kernel's does, and asks for nothing: there is no login.
package screen

import (
	"fmt"
	"slices"
	"strings"

	"spore/agent/detect"
	"spore/agent/status"
)

const (
	// columns is what every screen has at least, and margin the width of the first column.
	columns, margin = 80, 12
	// clear begins at the top of an empty screen (ECMA-48, 8.3.39 and 8.3.21); bold and plain are 8.3.117.
	clear, bold, plain = "\x1b[2J\x1b[H", "\x1b[1m", "\x1b[0m"
)

// Text is the whole screen.
func Text(l status.Line) string {
	var b strings.Builder
	title := l.Node
	if title == "" {
		title = detect.Unmatched
	}
	fmt.Fprintf(&b, "%s%s\n %s%s · %s · %s%s\n%s\n\n", clear, rule, bold, printable(l.Cluster), printable(title), printable(l.System), plain, rule)
	row := func(name, text string) {
		for i, line := range wrap(printable(text), columns-margin-2) {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, " %-*s%s\n", margin, name, line)
		}
	}
	row("roles", strings.Join(l.Roles, " "))
	row("addresses", strings.Join(l.Addresses, " "))
	for _, h := range l.Held {
		row("held", h.Role+": "+h.Reason)
	}
	var waits []string
	for _, w := range l.Waiting {
		waits = append(waits, w)
	}
	slices.Sort(waits)
	for _, w := range waits {
		row("waiting", w)
	}
	row("failed", strings.Join(l.Failed, " "))
	for _, c := range l.Conflicts {
		row("conflict", fmt.Sprintf("%s is also the address of %s", c.IP, c.MAC))
	}
	if l.Bundle != nil {
		row("secrets", l.Bundle.Problem)
	}
	if l.State != nil {
		row("state", l.State.Warning)
	}
	if c := l.NoCloud; c != nil {
		if !strings.Contains(l.Problem, c.Problem) {
			row("nocloud", c.Problem)
		}
		row("not taken", strings.Join(c.NotTaken, ", "))
	}
	for _, d := range l.Disks {
		row("disk", d.Problem)
	}
	// The problem of a machine that does not match any node ends with the advice, which is shown by itself.
	row("problem", strings.TrimSuffix(strings.TrimSuffix(l.Problem, l.Advice), "; "))
	if l.Advice != "" {
		b.WriteByte('\n')
		row("what to do", l.Advice)
	}
	return b.String()
}

var rule = strings.Repeat("─", columns-1)

// printable leaves out what a terminal would obey: some of the text comes from the firmware and from other machines.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// wrap breaks a text between words; a word that is too long is cut.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			out, line = append(out, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for r := []rune(line); len(r) > width; r = []rune(line) {
			out, line = append(out, string(r[:width])), string(r[width:])
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
