package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spore/agent/choice/call"
)

// MaxTyped is how much a person may type on the page of the choice, in characters: a name has at most 63 (RFC 1035,
// section 2.3.4).
const MaxTyped = 64

// Choosing is how far a person is with choosing a node.
type Choosing struct {
	// Filter is a part of a name or of a role, At which of the nodes that have it is marked, from 0.
	Filter string
	At     int
	// Node was taken from the list; empty while there is the list. Typed is its name as the person repeats it.
	Node, Typed string
	// Sent says that it is being done, Said what came of it, and Done that it was done.
	Sent, Done bool
	Said       string
}

// Found are the nodes that the filter lets through.
func (m *Model) Found() (out []call.Node) {
	if m.Choice == nil {
		return nil
	}
	filter := strings.ToLower(m.Choosing.Filter)
	for _, n := range m.Choice.Nodes {
		if strings.Contains(n.Name, filter) || strings.Contains(strings.Join(n.Roles, " "), filter) {
			out = append(out, n)
		}
	}
	return out
}

// Picks tells whether there is a list from which a node can be taken.
func (m *Model) Picks() bool { return m.Choice != nil && m.Choice.Refused == "" }

// Undoes tells whether what there is to do is to undo the choice.
func (m *Model) Undoes() bool {
	c := m.Choice
	return c != nil && c.Refused != "" && c.Chosen != "" && c.Stays == ""
}

// Confirms is the node whose name the person has to repeat; empty where there is none.
func (m *Model) Confirms() string {
	if m.Undoes() {
		return m.Choice.Chosen
	}
	return m.Choosing.Node
}

// Marks of a node in the list: something speaks for it, nothing speaks against it, something does.
const (
	markFor     = "[yes]"
	markNothing = "[   ]"
	markAgainst = "[no ]"
)

// choice is the page on which a person chooses which node the machine is, or undoes that.
func (m *Model) choice(d *document) {
	c := m.Choice
	switch {
	case c == nil:
		d.head("Which node this machine could be")
		m.unknown(d, m.ChoiceProblem)
	case m.Undoes():
		m.undo(d)
	case m.Choosing.Node != "":
		m.confirm(d)
	default:
		m.list(d)
	}
}

func (m *Model) list(d *document) {
	c := m.Choice
	if s := m.Status; s != nil && s.Seen != nil {
		d.row("cards", strings.Join(s.Seen.MACs, "  "), Plain, 1)
		d.row("serial", s.Seen.Serial, Plain, 1)
	}
	if m.Hardware != nil {
		for _, r := range m.Hardware.Rows {
			if r[0] == "model" || r[0] == "firmware" {
				d.row(r[0], r[1], Plain, 1)
			}
		}
	}
	if c.Refused != "" {
		d.few("no choice", c.Refused, Bold)
		d.few("chosen here", c.Chosen, Bold)
		d.few("no way back", c.Stays, Plain)
		if len(c.Nodes) == 0 {
			return
		}
	} else {
		d.few("find", m.Choosing.Filter+"_", Bold)
	}
	d.few("", markFor+" this machine has what is listed, "+markAgainst+" it has not", Plain)
	d.blank()
	found := m.Found()
	if len(found) == 0 {
		d.some("", "no node has this in its name or roles")
		return
	}
	// As many as are seen, with the marked one among them.
	room := max(d.height-len(d.lines)-1, 1)
	at := min(max(m.Choosing.At, 0), len(found)-1)
	first := min(max(at-room/2, 0), max(len(found)-room, 0))
	for i, n := range found[first:min(first+room, len(found))] {
		pointer, style := " ", Plain
		if first+i == at && c.Refused == "" {
			pointer, style = ">", Bold
		}
		mark, text := markNothing, strings.Join(n.Roles, " ")
		switch {
		case len(n.Against) > 0:
			mark, text = markAgainst, "has "+strings.Join(n.Against, ", ")
		case len(n.For) > 0:
			mark, text = markFor, strings.Join(n.For, ", ")
		}
		d.add(style, "%s %s %-24.63s %s", pointer, mark, Clean(n.Name), Clean(text))
	}
	d.add(Plain, "%d of %d nodes", at+1, len(found))
}

// confirm shows what is known of a node that was taken from the list, and has its name repeated.
func (m *Model) confirm(d *document) {
	var n call.Node
	for _, one := range m.Choice.Nodes {
		if one.Name == m.Choosing.Node {
			n = one
		}
	}
	d.few("node", m.Choosing.Node, Bold)
	d.few("roles", strings.Join(n.Roles, " "), Plain)
	d.few("it has", strings.Join(n.For, ", "), Plain)
	if len(n.Against) > 0 {
		d.few("careful", "by the configuration "+n.Name+" has "+strings.Join(n.Against, ", ")+", and this machine has not", Bold)
		if slices.ContainsFunc(n.Against, func(a string) bool { return strings.HasPrefix(a, "card ") }) {
			d.few("network", "an address that the configuration gives to such a card is given to none here: the node may have no network", Bold)
		}
	}
	d.few("then", "the choice is kept on the medium that this machine was started from, and the machine restarts as "+n.Name, Plain)
	secrets := "the medium has no bundle: a role that needs secrets waits, and the first page then says for what"
	switch {
	case m.Choice.Enroll != "" && !m.Choice.Bundle:
		secrets = "the medium has no bundle: after the restart, this machine asks for one at " + m.Choice.Enroll + ", and its first " +
			"page has the fingerprint that the operator compares and approves"
	case m.Choice.Bundle:
		secrets = "the bundle on the medium counts if it is signed for " + n.Name + "; its passphrase, if it has one, is asked " +
			"for after the restart"
	}
	d.few("secrets", secrets, Plain)
	proves := "nothing, so it brings no secret"
	if s := m.Status; s != nil && s.Firmware != nil && s.Firmware.SecureBoot {
		proves += ": Secure Boot does not cover it"
	}
	d.few("it proves", proves, Plain)
	d.few("only once", "no other machine may be "+n.Name, Bold)
	m.repeat(d, "to choose it")
}

// undo has the name of the node repeated that was chosen here.
func (m *Model) undo(d *document) {
	d.few("chosen here", m.Choice.Chosen, Bold)
	d.few("undo", "it has no state here. The choice is taken off the medium, and the machine restarts as one that matches what "+
		"it has", Plain)
	m.repeat(d, "to undo the choice")
}

func (m *Model) repeat(d *document, what string) {
	d.blank()
	c := m.Choosing
	if !c.Done {
		d.few("type", "the name of the node, "+what, Plain)
		d.few("name", c.Typed+"_", Bold)
	}
	said := c.Said
	if c.Sent {
		said = "it is being done"
	}
	d.blank()
	d.few(map[bool]string{true: "done", false: "answer"}[c.Done], said, Bold)
}

// choiceKeys are the keys of the page.
func (m *Model) choiceKeys() []string {
	switch {
	case m.Choosing.Done || m.Choosing.Sent:
		return []string{"Esc looks at the machine"}
	case m.Undoes():
		return []string{"Enter undoes the choice", "Ctrl-U begins anew", "Esc looks at the machine"}
	case m.Choosing.Node != "" && m.Choice != nil:
		return []string{"Enter chooses", "Ctrl-U begins anew", "Esc goes back to the list"}
	case m.Picks():
		return []string{"Type to find", "Up Down PgUp PgDn", "Enter takes", "Esc looks at the machine"}
	}
	return []string{"Enter asks again", "Esc looks at the machine"}
}

// Step is how far PgUp and PgDn go in a list on a terminal of a height.
func Step(height int) int { return max(height-10, 1) }

// Move marks another node of the list.
func (m *Model) Move(by int) {
	last := len(m.Found()) - 1
	m.Choosing.At = max(min(max(m.Choosing.At, 0)+by, last), 0)
}

// Take takes the marked node from the list, and tells whether there is one.
func (m *Model) Take() bool {
	found := m.Found()
	if !m.Picks() || m.Choosing.At >= len(found) {
		return false
	}
	m.Choosing.Node, m.Choosing.Typed, m.Choosing.Said = found[m.Choosing.At].Name, "", ""
	return true
}

// Confirmed is the call that the person has made by repeating the name; the problem says why it is none.
func (m *Model) Confirmed() (c call.Call, problem string) {
	name := m.Confirms()
	if name == "" || m.Choosing.Typed != name {
		return call.Call{}, fmt.Sprintf("that is not the name %s", cmp.Or(name, "of a node"))
	}
	c = call.Call{Do: call.Choose, Node: name, Confirm: m.Choosing.Typed}
	if m.Undoes() {
		c.Do = call.Undo
	}
	return c, ""
}
