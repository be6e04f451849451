package nodeapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// VerbsPath is followed by the name of a verb: a POST with an Order as its body, whose answer is Events, one JSON
// object a line.
const VerbsPath = "/v1/verbs/"

// Bounds of an order and of one event, in bytes.
const (
	MaxOrder = 16 << 10
	MaxEvent = 1 << 20
)

// maxArgument is how long the value of one argument may be, in bytes.
const maxArgument = 4 << 10

// Kind says with what rights of the machine a verb is carried out.
type Kind string

// Kinds.
const (
	// Looks is a verb that changes nothing. It ends when its caller goes away.
	Looks Kind = "look"
	// Acts is a verb that changes something. It goes on to its end when its caller goes away, and each call is kept as
	// a record.
	Acts Kind = "act"
)

// Verb is something that a person has a node do: a row of the table by which the server decides, and by which the
// command says what there is.
type Verb struct {
	// Name is a word of lower-case letters and hyphens.
	Name string
	Kind Kind
	// Who may.
	Who []Role
	// Arguments lists what it takes.
	Arguments []Argument
	// Destroys is true where what is lost does not come back; the order then repeats what it is about (Order.Confirm).
	Destroys bool
	// Quorum is true where the order may have a value of Force: the name of a quorum that it takes below its majority, or
	// ForceWatchdog.
	Quorum bool
	// Bound is how long it may take; 0 is a minute.
	Bound time.Duration
	// AtOnce is how many of them a node carries out at once; 0 is one of those that act, and 8 of those that look.
	AtOnce int
}

// Argument is one thing that a verb takes.
type Argument struct {
	Name string
	// Needed is true where it cannot be left out.
	Needed bool
	// Check says what is wrong with a value; nil takes any text without control characters. An empty value is one that
	// was left out.
	Check func(value string) error
}

// Order is what a person asks for.
type Order struct {
	// Arguments are the values by name.
	Arguments map[string]string `json:"arguments,omitempty"`
	// DryRun has the node say what it would do.
	DryRun bool `json:"dryRun,omitempty"`
	// Confirm repeats what the order destroys: the name of the node, or the serial number of a disk.
	Confirm string `json:"confirm,omitempty"`
	// Force is the name of a quorum that may be taken below its majority, or several with commas between them; ceph-osd
	// stands for OSDs that Ceph needs. ForceWatchdog has the alert silenced that says that alerts arrive.
	Force string `json:"force,omitempty"`
}

// Event is a line of the answer. Exactly one of its fields is there, and the last event has Done or Error.
type Event struct {
	// Say tells a person what is done now, or for whom the node waits.
	Say string `json:"say,omitempty"`
	// Result is a part of the result, whose form is the verb's.
	Result json.RawMessage `json:"result,omitempty"`
	// Error is why it failed, in words for a person. Nothing follows it.
	Error string `json:"error,omitempty"`
	// Done is what was done. Nothing follows it.
	Done string `json:"done,omitempty"`
}

// FindVerb returns a row of the table.
func FindVerb(name string) (Verb, bool) {
	verbs := Verbs()
	i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == name })
	if i < 0 {
		return Verb{}, false
	}
	return verbs[i], true
}

// ParseOrder reads an order; what it does not know is an error. It does not know for which verb it is: Check does.
func ParseOrder(data []byte) (Order, error) {
	var o Order
	if len(data) > MaxOrder {
		return o, fmt.Errorf("an order has at most %d bytes", MaxOrder)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return Order{}, fmt.Errorf("the order is malformed: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Order{}, errors.New("the order is malformed: something follows it")
	}
	return o, nil
}

// Check says what is wrong with an order for this verb. Who asks is looked at elsewhere.
func (v Verb) Check(o Order) error {
	for _, name := range slices.Sorted(maps.Keys(o.Arguments)) {
		i := slices.IndexFunc(v.Arguments, func(a Argument) bool { return a.Name == name })
		if i < 0 {
			return fmt.Errorf("%s has no argument %.64q", v.Name, name)
		}
		if err := v.Arguments[i].check(o.Arguments[name]); err != nil {
			return fmt.Errorf("%s: %s: %w", v.Name, name, err)
		}
	}
	for _, a := range v.Arguments {
		if a.Needed && o.Arguments[a.Name] == "" {
			return fmt.Errorf("%s: %s is missing", v.Name, a.Name)
		}
	}
	switch {
	case v.Destroys && o.Confirm == "" && !o.DryRun:
		return fmt.Errorf("%s destroys something; the order has to repeat what (confirm)", v.Name)
	case o.Force != "" && !v.Quorum:
		return fmt.Errorf("%s cannot be forced", v.Name)
	case !plain(o.Confirm), !plain(o.Force):
		return fmt.Errorf("%s: confirm and force are words without control characters", v.Name)
	}
	return nil
}

func (a Argument) check(value string) error {
	switch {
	case !plain(value):
		return fmt.Errorf("a value is text of at most %d bytes without control characters", maxArgument)
	case value == "" || a.Check == nil:
		return nil
	}
	return a.Check(value)
}

// plain tells whether a text is short and has nothing that a terminal or a log would take for something else.
func plain(text string) bool {
	if len(text) > maxArgument || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return false
		}
	}
	return true
}

// OneOf is a Check that takes some words alone.
func OneOf(words ...string) func(string) error {
	return func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("%.64q is not one of %v", value, words)
	}
}

// ReadEvents reads the answer, event by event, until the last; see is called for each that is not the last. It returns
// what was done, or why it failed. An answer without an end is an error: the node, or the connection to it, has gone.
func ReadEvents(r io.Reader, see func(Event) error) (done string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), MaxEvent+1)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 { // The node says that it is still there.
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return "", fmt.Errorf("the answer is malformed: %w", err)
		}
		switch {
		case e.Error != "":
			return "", Failed{e.Error}
		case e.Done != "":
			return HarmlessLines(e.Done), nil
		}
		if err := see(e); err != nil {
			return "", err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", fmt.Errorf("a line of the answer has more than %d bytes", MaxEvent)
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return "", errors.New("the answer has no end: the connection was lost, or the node stopped")
}

// Failed is why a node could not do what it was asked, in its words.
type Failed struct{ Why string }

func (f Failed) Error() string { return HarmlessLines(f.Why) }

// HarmlessLines is a text of several lines, each without what a terminal would obey.
func HarmlessLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Harmless(line)
	}
	return strings.Join(lines, "\n")
}
