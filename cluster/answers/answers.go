// Package answers reads and checks an answer file (spec.Answers): what a machine has to know to install itself without a
// person. The operator's programs and the machine itself read it with the same code: the file that a machine finds on its
// medium comes from outside, and is checked there once more against the verified configuration.
//
// It is small, because spore-agent links it: the file has two levels and is decoded by hand.
package answers

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"spore/cluster/check"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/cluster/spelling"
	"spore/cluster/yamlfile"
)

// Name is what the file is called on a volume CIDATA (package nocloud).
const Name = "spore-answers.yaml"

// MaxSize bounds the file, in bytes.
const MaxSize = 64 << 10

// Closed lists of values, for the checks, the JSON Schema and the reference.
var (
	States   = []string{spec.StateKeep, spec.StateErase}
	Encrypts = spec.Encrypts
	Thens    = []string{spec.ThenRestart, spec.ThenPowerOff, spec.ThenStay}
)

// Choices are the closed lists by Go type and key.
func Choices() map[string][]string {
	return map[string][]string{"Answers.state": States, "Answers.encrypt": Encrypts, "Answers.then": Thens}
}

// File is an answer file that was read, with the positions of what is in it.
type File struct {
	spec.Answers
	// Data is the file as it is.
	Data   []byte
	path   string
	root   *yaml.Node
	faults map[[2]int]bool
	// broken says that Parse found a problem below disk.
	broken bool
}

// Path is the name that messages have.
func (f *File) Path() string { return f.path }

// At returns the position of the value at a path of keys, or of the nearest thing around it that exists.
func (f *File) At(path ...any) (line, column int) {
	if f.root == nil {
		return 1, 1
	}
	n := yamlfile.At(f.root, path...)
	return n.Line, n.Column
}

// Has reports whether there is a value at the path.
func (f *File) Has(path ...any) bool { return yamlfile.Find(f.root, path...) != nil }

// Faulty reports whether Parse found a problem at this position already.
func (f *File) Faulty(line, column int) bool { return f.faults[[2]int{line, column}] }

// Read is Parse for a file of the host; its error is that it cannot be read.
func Read(name string) (*File, check.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer file %s: %w", name, err)
	}
	file, report := Parse(name, data)
	return file, report, nil
}

// Parse reads a file strictly: a key that there is not, a key twice, a value of another type, an anchor, and an empty
// value are errors. name is what messages call it. The File is never nil; the report has all problems of form, and Check
// finds those of meaning.
func Parse(name string, data []byte) (*File, check.Report) {
	p := &parser{File: &File{Data: data, path: name, faults: map[[2]int]bool{}}}
	if len(data) > MaxSize {
		p.fail(1, 1, "the file has more than %d KiB; an answer file has six lines", MaxSize>>10)
		return p.File, p.report
	}
	root, fault := yamlfile.Parse(data)
	if fault != nil {
		p.fail(fault.Line, fault.Column, "%s", fault.Message)
		return p.File, p.report
	}
	if root == nil {
		p.fail(1, 1, "the file is empty; it needs at least the keys %s", check.OrWords([]string{"node", "disk"}))
		return p.File, p.report
	}
	p.root = root
	p.mapping(root, map[string]into{
		"node": p.text(&p.Node), "state": p.text(&p.Answers.State), "encrypt": p.text(&p.Encrypt), "then": p.text(&p.Then),
		"disk": func(_ string, n *yaml.Node) {
			if n.Kind != yaml.MappingNode {
				p.failAt(n, "disk is not a mapping; write `disk: {serial: S5H9NX0R}`, or wwn or byID, as `spore disks` shows them")
				return
			}
			before := len(p.report)
			p.mapping(n, map[string]into{
				"serial": p.text(&p.Disk.Serial), "wwn": p.text(&p.Disk.WWN), "byID": p.text(&p.Disk.ByID),
			}, []string{"serial", "wwn", "byID"}, nil)
			p.broken = len(p.report) > before
		},
	}, []string{"node", "disk", "state", "encrypt", "then"}, []string{"node", "disk"})
	return p.File, p.report.Sorted()
}

// into takes the value of a key.
type into func(key string, n *yaml.Node)

type parser struct {
	*File
	report check.Report
}

func (p *parser) fail(line, column int, format string, args ...any) {
	p.faults[[2]int{line, column}] = true
	p.report = append(p.report, check.Problem{
		Severity: check.Error, File: p.path, Line: line, Column: column, Message: fmt.Sprintf(format, args...),
	})
}

func (p *parser) failAt(n *yaml.Node, format string, args ...any) {
	p.fail(n.Line, n.Column, format, args...)
}

// mapping takes the keys of a mapping; known are all of them, in the order of the messages.
func (p *parser) mapping(n *yaml.Node, keys map[string]into, known, required []string) {
	seen, meant := map[string]*yaml.Node{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch take, ok := keys[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Anchor != "" || k.ShortTag() != "!!str":
			p.failAt(k, "this key is not a plain text; write one of %s, without anchors and merges", check.OrWords(known))
		case seen[k.Value] != nil:
			p.failAt(k, "the key %q is here twice, first in line %d; keep one of them", check.Clip(k.Value), seen[k.Value].Line)
		case !ok:
			near := spelling.Nearest(k.Value, known)
			meant[near] = true
			hint := check.DidYouMean(near)
			if hint == "" {
				hint = "; known keys: " + strings.Join(known, ", ")
			}
			p.failAt(k, "unknown key %q%s", check.Clip(k.Value), hint)
		case v.Kind == yaml.AliasNode || v.Anchor != "":
			p.failAt(v, "%s uses an anchor or alias; write the value out", k.Value)
		case v.ShortTag() == "!!null":
			p.failAt(v, "%s has no value; write one, or remove the key", k.Value)
		default:
			take(k.Value, v)
		}
		seen[k.Value] = k
	}
	for _, key := range required {
		if seen[key] == nil && !meant[key] {
			p.failAt(n, "the key %q is missing; add it", key)
		}
	}
}

// text takes a value that is a text.
func (p *parser) text(to *string) into {
	return func(key string, n *yaml.Node) {
		switch {
		case n.Kind != yaml.ScalarNode:
			p.failAt(n, "%s is not a text; write one value behind the colon", key)
		case n.ShortTag() != "!!str":
			p.failAt(n, "%s is not a text; put it into quotes: %q", key, check.Clip(n.Value))
		default:
			*to = n.Value
		}
	}
}

// Check tells what is wrong with what the file means for a configuration that has these nodes. What Parse reported is not
// reported again.
func Check(f *File, nodes []facts.Node) check.Report {
	if f.root == nil {
		return nil
	}
	k := &check.Checker{File: f}
	node := f.findNode(k, nodes)
	if f.Has("state") {
		k.OneOf(check.In(f, "state"), "what becomes of the state", f.State, States)
	}
	if f.Has("then") {
		k.OneOf(check.In(f, "then"), "what the machine does then", f.Then, Thens)
	}
	if f.Has("encrypt") && k.OneOf(check.In(f, "encrypt"), "the key of the state", f.Encrypt, Encrypts) && node != nil {
		if want := encryption(node.State); want != f.Encrypt {
			k.Errorf(check.In(f, "encrypt"), "the configuration says state.encrypt: %s for node %s, and an answer file cannot change that; write %s, "+
				"or change cluster.yaml or nodes/%s.yaml and build again", want, node.Name, want, node.Name)
		}
	}
	f.checkDisk(k, node)
	return k.Report.Sorted()
}

func encryption(s *spec.State) string {
	if !s.Encrypted() {
		return spec.EncryptNone
	}
	return s.Encrypt
}

func (f *File) findNode(k *check.Checker, nodes []facts.Node) *facts.Node {
	if !f.Has("node") {
		return nil
	}
	if i := slices.IndexFunc(nodes, func(n facts.Node) bool { return n.Name == f.Node }); i >= 0 {
		return &nodes[i]
	}
	names := facts.Names(nodes)
	hint := check.Suggest(f.Node, names)
	if hint == "" && len(names) > 0 {
		const shown = 10
		hint = "; its nodes are " + strings.Join(names[:min(len(names), shown)], ", ")
		if len(names) > shown {
			hint += fmt.Sprintf(" and %d more", len(names)-shown)
		}
	}
	k.Errorf(check.In(f, "node"), "cluster.yaml has no node %q%s", check.Clip(f.Node), hint)
	return nil
}

// checkDisk checks that the selector names one disk, and none that the node's file gives to a service.
func (f *File) checkDisk(k *check.Checker, node *facts.Node) {
	if !f.Has("disk") || f.broken {
		return
	}
	named, ok := k.Selector(check.In(f, "disk"), f.Disk)
	if !ok || node == nil {
		return
	}
	quiet := &check.Checker{File: f}
	for _, d := range node.Disks {
		if d.Use == "state" {
			continue // One disk can have both: state lies behind the system.
		}
		given, ok := quiet.Selector(check.In(f, "disk"), d.Selector)
		if ok && named.MaySelect(given) {
			k.Errorf(check.In(f, "disk"), "nodes/%s.yaml gives this disk to %s; name another one, or take it out of that file", node.Name, d.Use)
		}
	}
}
