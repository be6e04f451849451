// Package page makes the pages of the screen: of what is known of the machine it makes a grid of cells, for a terminal
// of any size. It asks nobody and changes nothing.
//
// All text goes through Clean on its way into a cell, whoever wrote it, and takes a bounded number of lines: what comes
// from a DHCP server, a switch, a disk or another node cannot draw, widen a page or push a line off it. What does not
// fit below is told of in the last line, with the keys that lead there. No page needs colours, or more than ASCII.
package page

import (
	"fmt"
	"slices"
	"strings"
)

// Name says which page is shown.
type Name int

// Pages, in the order of their keys.
const (
	StatusPage Name = iota
	ServicesPage
	JournalPage
	NetworkPage
	DisksPage
	HardwarePage
	SecretsPage
	UpdatesPage
	// QuestionPage is there while somebody is asked for a passphrase. It has no key of its own: KeyQuestion leads there.
	QuestionPage
	// ChoicePage is where a person chooses which node the machine is. KeyChoice leads there.
	ChoicePage
)

// KeyQuestion leads to the page of a question, and KeyChoice to that where a node is chosen.
const (
	KeyQuestion = 'p'
	KeyChoice   = 'n'
)

// Entry is a page with its key.
type Entry struct {
	Name Name
	Key  byte
	// Title is a word, and Short a shorter one for the line of keys, which has to fit into 80 cells.
	Title, Short string
}

// Pages lists all.
func Pages() []Entry {
	return []Entry{
		{StatusPage, '1', "status", "status"}, {ServicesPage, '2', "services", "services"}, {JournalPage, '3',
			"journal", "journal"},
		{NetworkPage, '4', "network", "net"}, {DisksPage, '5', "disks", "disks"}, {HardwarePage, '6', "hardware", "hw"},
		{SecretsPage, '7', "secrets", "secrets"}, {UpdatesPage, '8', "updates", "updates"},
	}
}

// View says what of the model is shown.
type View struct {
	Page Name
	// Scroll is the first line that is shown, from 0.
	Scroll int
	// Leaves tells that the key q gives the terminal back: on a serial line.
	Leaves bool
	// Small leaves out large letters: each costs a slow line time.
	Small bool
}

// margin is the width of the first column, with its blank.
const margin = 13

// smallest is the width for which the pages are made. They are drawn on narrower terminals, too.
const smallest = 80

// Bounds of one value, in lines of a terminal of 80 columns: on the first page, where nothing may push another line
// away, and on the others.
const (
	fewLines  = 3
	someLines = 6
)

// line is one line of a page.
type line struct {
	text  string
	style Style
}

// document is a page before it is cut to the height of a terminal.
type document struct {
	width int
	// height is how many lines of it are seen at once.
	height int
	lines  []line
}

func (d *document) blank() { d.lines = append(d.lines, line{}) }

// add appends a line that is cut at the edge.
func (d *document) add(style Style, format string, a ...any) {
	text := Clean(fmt.Sprintf(format, a...))
	if most := d.width - 2; len(text) > most {
		text = text[:max(most-3, 0)] + "..."
	}
	d.lines = append(d.lines, line{" " + text, style})
}

// row appends a named value, on at most so many lines; one without a value is left out.
func (d *document) row(name, value string, style Style, lines int) {
	room := d.width - margin - 2
	if full := smallest - margin - 2; room > 0 && room < full {
		lines = (lines*full + room - 1) / room // The same text takes more.
	}
	for i, part := range wrap(Clean(value), room, lines) {
		if i > 0 {
			name = ""
		}
		d.lines = append(d.lines, line{fmt.Sprintf(" %-*.*s%s", margin-1, margin-2, Clean(name), part), style})
	}
}

// few is row for the first page.
func (d *document) few(name, value string, style Style) { d.row(name, value, style, fewLines) }

// some is row for the other pages.
func (d *document) some(name, value string) { d.row(name, value, Plain, someLines) }

// head is a heading.
func (d *document) head(text string) {
	if len(d.lines) > 0 {
		d.blank()
	}
	d.add(Bold, "%s", text)
}

// document makes the page that the view names.
func (m *Model) document(v View, width, height int) *document {
	d := &document{width: width, height: height}
	switch v.Page {
	case ServicesPage:
		m.services(d)
	case JournalPage:
		m.journal(d)
	case NetworkPage:
		m.network(d)
	case DisksPage:
		m.disks(d)
	case HardwarePage:
		m.hardware(d)
	case SecretsPage:
		m.secrets(d)
	case UpdatesPage:
		m.updates(d)
	case QuestionPage:
		m.question(d)
	case ChoicePage:
		m.choice(d)
	default:
		m.status(d)
	}
	return d
}

// Render draws a page. Scroll of the view is brought within the page, and the value that was used is returned: a page
// grows shorter while somebody reads it.
func (m *Model) Render(v View, width, height int) (*Grid, int) {
	g := NewGrid(width, height)
	top, bottom := 1, g.Height-1 // The title is above, the keys are below.
	room := max(bottom-top-1, 1)
	d := m.document(v, g.Width, room)
	if v.Page == StatusPage && !v.Small && m.Status != nil {
		if rows := banner(m.Status.Node, m.word(), g.Width, room-len(d.lines)-2); rows != nil {
			for i, r := range rows {
				g.put(1, top+1+i, r, Bold)
			}
			top += len(rows) + 1
			room -= len(rows) + 1
		}
	}
	scroll := min(max(v.Scroll, 0), max(len(d.lines)-room, 0))
	for i, l := range d.lines[scroll:min(scroll+room, len(d.lines))] {
		g.put(0, top+1+i, l.text, l.style)
	}
	m.title(g, v)
	m.keys(g, v)
	// The line between the title and the page says that there is more above, the one before the keys more below; a page
	// that is as long as the room has none.
	if scroll > 0 {
		g.put(1, top, fmt.Sprintf("-- %d lines above: Up, PgUp --", scroll), Plain)
	}
	if left := len(d.lines) - scroll - room; left > 0 {
		g.bar(bottom-1, Plain)
		g.put(1, bottom-1, fmt.Sprintf("-- %d lines below: Down, PgDn, Space --", left+1), Bold)
	}
	return g, scroll
}

// title draws the first line: whose machine it is, and how it is.
func (m *Model) title(g *Grid, v View) {
	g.bar(0, Reverse)
	name, cluster := "no status yet", ""
	if s := m.Status; s != nil {
		name, cluster = s.Node, s.Cluster
		if name == "" {
			name = "this machine"
		}
	}
	word := m.word()
	right := word + "  " + m.Now.UTC().Format("15:04") + " UTC "
	left := " " + Clean(name)
	if cluster != "" {
		left += " of " + Clean(cluster)
	}
	switch v.Page {
	case StatusPage:
	case QuestionPage:
		left += " - question"
	case ChoicePage:
		left += " - which node"
	default:
		left += " - " + Pages()[v.Page].Title
	}
	if most := g.Width - len(right) - 1; len(left) > most {
		left = left[:max(most-3, 0)] + "..."
	}
	g.put(0, 0, left, Reverse)
	g.put(g.Width-len(right), 0, right, Reverse)
}

// keys draws the last line.
func (m *Model) keys(g *Grid, v View) {
	g.bar(g.Height-1, Reverse)
	parts := make([]string, 0, len(Pages())+1)
	for _, e := range Pages() {
		parts = append(parts, fmt.Sprintf("%c %s", e.Key, e.Short))
	}
	if v.Leaves {
		parts = append(parts, "q quit")
	}
	switch v.Page { // The other keys are what is typed.
	case QuestionPage:
		parts = []string{"Enter answers", "Esc looks at the machine", "Ctrl-U begins anew"}
	case ChoicePage:
		parts = m.choiceKeys()
	}
	text := " " + strings.Join(parts, " ")
	if len(text) > g.Width && v.Page != QuestionPage && v.Page != ChoicePage {
		all := Pages()
		parts[0] = fmt.Sprintf("%c to %c are pages", all[0].Key, all[len(all)-1].Key)
		parts = slices.Delete(parts, 1, len(all))
		text = " " + strings.Join(parts, " ")
	}
	if spare := g.Width - len(text) - 1; spare >= len(parts) {
		text = " " + strings.Join(parts, "  ")
	}
	g.put(0, g.Height-1, text, Reverse)
}
