// Package template renders the files of a role from Go templates (package text/template) with bounds: a template that
// repeats itself without end, nests without end or prints without end is an error, on whatever machine it runs.
//
// A template knows the node, the cluster and the settings of the role as its dot (Data), and the functions that
// Functions lists. It reads no file, no environment and no clock: the same input gives the same bytes.
package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds.
const (
	// MaxText is the length of a template in bytes.
	MaxText = 256 << 10
	// MaxOutput is what one template may print, in bytes.
	MaxOutput = 1 << 20
	// maxSteps bounds the actions that run, each counted by the words in it.
	maxSteps = 500_000
	// maxMade bounds the texts that functions make on the way, in bytes.
	maxMade = 16 << 20
	// maxDepth bounds templates that call templates.
	maxDepth = 100
)

// Template is a parsed template.
type Template struct {
	name string
	text *template.Template
	// trees are what was written, the main one first, without what counts.
	trees []*parse.Tree
	// written are the texts in it.
	written []string
}

// Parse parses a template and holds it to the functions that there are. name is its path for errors, which are of the
// type *Error.
func Parse(name, text string) (*Template, error) {
	if len(text) > MaxText {
		return nil, &Error{Line: 1, Column: 1, Message: fmt.Sprintf("the template has %d bytes; at most %d are read",
			len(text), MaxText)}
	}
	t, err := template.New(name).Option("missingkey=error").Funcs((&run{}).functions()).Parse(text)
	if err != nil {
		return nil, parseError(err)
	}
	if t.Tree == nil { // Nothing but definitions, or nothing at all.
		if t, err = t.Parse("{{/* empty */}}"); err != nil {
			return nil, parseError(err)
		}
	}
	out := &Template{name: name, text: t, trees: []*parse.Tree{t.Tree.Copy()}}
	all := t.Templates()
	slices.SortFunc(all, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	for _, one := range all {
		if one.Tree == nil {
			continue
		}
		if err := allowed(one.Tree); err != nil {
			return nil, err
		}
		if one.Name() != name {
			out.trees = append(out.trees, one.Tree.Copy())
		}
		walk(one.Tree.Root, func(n parse.Node) {
			if text, ok := n.(*parse.StringNode); ok {
				out.written = append(out.written, text.Text)
			}
		})
		count(one.Tree)
	}
	return out, nil
}

// Error is a fault with its place in the template. Line and Column count from 1.
type Error struct {
	Line, Column int
	Message      string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// errorPlace is how text/template begins an error; a column counts bytes from 0.
var errorPlace = regexp.MustCompile(`(?s)^template: [^\n]*?:(\d+)(?::(\d+))?: (.*)$`)

// parseError takes apart an error of text/template.
func parseError(err error) *Error {
	e := &Error{Line: 1, Column: 1, Message: err.Error()}
	if m := errorPlace.FindStringSubmatch(err.Error()); m != nil {
		fmt.Sscan(m[1], &e.Line)
		if m[2] != "" {
			fmt.Sscan(m[2], &e.Column)
			e.Column++
		}
		e.Message = m[3]
	}
	e.Message = plain(e.Message)
	return e
}

// executing is how text/template names the action that failed.
var executing = regexp.MustCompile(`(?s)^executing "[^"]*" at (<.*?>): (.*)$`)

// calling is how text/template begins the error of a function.
var calling = regexp.MustCompile(`^error calling \w+: `)

// plain says an error of text/template in words of this house.
func plain(text string) string {
	if m := executing.FindStringSubmatch(text); m != nil {
		text = m[1] + ": " + calling.ReplaceAllString(m[2], "")
	}
	text = strings.ReplaceAll(text, "\n", " ")
	if name, ok := strings.CutPrefix(text, "function "); ok && strings.HasSuffix(name, " not defined") {
		return fmt.Sprintf("there is no function %s; there are %s", strings.TrimSuffix(name, " not defined"),
			strings.Join(Functions(), ", "))
	}
	return text
}

// Given is what a template is rendered from, besides its dot.
type Given struct {
	// Data is the dot.
	Data *Data
	// Secret returns a secret of the node's bundle; it refuses one that the file does not name.
	Secret func(name string) (string, error)
	// SecretPath is the file of a secret as the program sees it; it refuses one that the file does not name.
	SecretPath func(name string) (string, error)
	// Authority returns the certificate of an authority of the cluster, PEM.
	Authority func(name string) (string, error)
}

// Render renders the template. It ends with an error when ctx does; the bounds of the package hold besides.
func (t *Template) Render(ctx context.Context, given Given) ([]byte, error) {
	r := &run{ctx: ctx, given: given, written: t.written}
	text, err := t.text.Clone()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", t.name, err)
	}
	text.Funcs(r.functions()).Funcs(r.counters())
	var out bounded
	if err := text.Execute(&out, given.Data); err != nil {
		if r.stopped != nil {
			return nil, fmt.Errorf("render %s: %w", t.name, r.stopped)
		}
		if out.err != nil {
			return nil, fmt.Errorf("render %s: %w", t.name, out.err)
		}
		return nil, fmt.Errorf("render %s: %w", t.name, r.untold(parseError(err)))
	}
	return out.Bytes(), nil
}

// ranging is what text/template says with the value in it, whatever that was made from.
var ranging = regexp.MustCompile(`(?s)(range can't iterate over ).*`)

// shortest is the length of a secret that is looked for in errors; what is shorter is no secret.
const shortest = 4

// untold takes the values of secrets out of an error, which ends in the journal.
func (r *run) untold(e *Error) *Error {
	e.Message = ranging.ReplaceAllString(e.Message, "${1}a single value")
	for _, s := range r.told {
		quoted := strconv.Quote(s)
		for _, form := range []string{s, quoted[1 : len(quoted)-1], strings.ReplaceAll(s, "\n", " ")} {
			if len(form) >= shortest {
				e.Message = strings.ReplaceAll(e.Message, form, "(a secret)")
			}
		}
	}
	return e
}

// Errors of a template that goes beyond a bound.
var (
	ErrOutput = fmt.Errorf("it prints more than %d bytes; write a shorter file", MaxOutput)
	ErrSteps  = errors.New("it repeats itself too often; look for a range or template without end")
	ErrDepth  = fmt.Errorf("its templates call each other more than %d deep; look for one that calls itself "+
		"without end", maxDepth)
	ErrMade = fmt.Errorf("its functions make more than %d MiB of text; look for one that repeats", maxMade>>20)
	ErrNone = errors.New("it prints a value that is not there, such as an entry of a list or map that nobody " +
		"wrote; ask with {{if}} first")
)

// bounded takes what a template prints.
type bounded struct {
	bytes.Buffer
	err error
}

// noValue is what text/template prints for nothing.
const noValue = "<no value>"

func (b *bounded) Write(p []byte) (int, error) {
	switch {
	case b.err != nil:
	case b.Len()+len(p) > MaxOutput:
		b.err = ErrOutput
	case string(p) == noValue:
		b.err = ErrNone
	default:
		return b.Buffer.Write(p)
	}
	return 0, b.err
}

// Names of the functions that count, which no template can write: Parse refuses them.
const (
	step  = "_step"
	enter = "_enter"
	leave = "_leave"
)

// count puts what counts into a template: a step before every action, and enter and leave around the whole.
func count(tree *parse.Tree) {
	countList(tree.Root)
	if tree.Root != nil {
		nodes := append([]parse.Node{call(enter)}, tree.Root.Nodes...)
		tree.Root.Nodes = append(nodes, call(leave))
	}
}

func countList(list *parse.ListNode) {
	if list == nil {
		return
	}
	nodes := []parse.Node{call(step, 1)} // Also for a list that is empty, which a range runs through all the same.
	for _, n := range list.Nodes {
		weight := 0
		switch n := n.(type) {
		case *parse.ActionNode:
			weight = words(n.Pipe)
		case *parse.TemplateNode:
			weight = words(n.Pipe)
		case *parse.IfNode:
			weight = branch(&n.BranchNode)
		case *parse.RangeNode:
			weight = branch(&n.BranchNode)
		case *parse.WithNode:
			weight = branch(&n.BranchNode)
		}
		if weight > 0 {
			nodes = append(nodes, call(step, weight))
		}
		nodes = append(nodes, n)
	}
	list.Nodes = nodes
}

func branch(b *parse.BranchNode) int {
	countList(b.List)
	countList(b.ElseList)
	return words(b.Pipe)
}

// words counts what is in a pipe.
func words(n parse.Node) int {
	total := 1
	switch n := n.(type) {
	case *parse.PipeNode:
		if n == nil {
			return 1
		}
		for _, c := range n.Cmds {
			total += words(c)
		}
	case *parse.CommandNode:
		for _, a := range n.Args {
			total += words(a)
		}
	case *parse.ChainNode:
		total += words(n.Node)
	}
	return total
}

// call is the action {{name argument}}.
func call(name string, argument ...int) parse.Node {
	cmd := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(name)}}
	for _, n := range argument {
		cmd.Args = append(cmd.Args, &parse.NumberNode{NodeType: parse.NodeNumber, IsInt: true, Int64: int64(n),
			Text: fmt.Sprint(n)})
	}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{cmd}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: pipe}
}
