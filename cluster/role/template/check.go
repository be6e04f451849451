package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"

	"spore/cluster/check"
	"spore/cluster/role/setting"
)

// Known is what is known of a template before it is rendered.
type Known struct {
	// File is what declares all this, for messages.
	File string
	// Settings are the declared settings.
	Settings map[string]setting.Type
	// Secrets are what the file names: entries of the bundle, and settings.NAME for the secrets of a setting.
	Secrets []string
	// Certificates are the entries of Secrets that are certificates and their keys: all units of the role see their files.
	Certificates []string
	// Signal tells the units to read Certificates again; they are restarted where it is empty.
	Signal string
	// Units is how many units the role has: each sees the files of other secrets at a place of its own.
	Units int
	// Role tells whether there is a role; nil where nobody knows.
	Role func(name string) bool
	// Authorities are those of which a template may have the certificate.
	Authorities []string
}

// SettingSecrets begins what a file names to be given the secrets of a setting.
const SettingSecrets = "settings."

// Check finds what cannot work whatever the node is: keys that there are not, secrets that the file does not name,
// roles that nobody has heard of. What only the settings' values tell is found when the template is rendered.
func (t *Template) Check(known Known) []*Error {
	var out []*Error
	for i, tree := range t.trees {
		c := &checker{tree: tree, known: known}
		s := scope{dot: unknown, vars: map[string]shape{}}
		if i == 0 {
			s.dot = shape{is: dot}
		}
		s.vars["$"] = s.dot
		c.list(tree.Root, s)
		out = append(out, c.found...)
	}
	return out
}

// shape is what is known of a value: its Go type, or the settings' type that it has. Nothing is known of the zero
// shape.
type shape struct {
	is   reflect.Type
	of   *setting.Type
	keys map[string]setting.Type // of all settings
	// setting is the setting that it is a part of.
	setting string
}

var unknown = shape{}

// scope is what names stand for.
type scope struct {
	dot  shape
	vars map[string]shape
}

func (s scope) inside(dot shape) scope { return scope{dot, maps.Clone(s.vars)} }

type checker struct {
	tree  *parse.Tree
	known Known
	found []*Error
}

func (c *checker) errorf(n parse.Node, format string, args ...any) {
	c.found = append(c.found, errorAt(c.tree, n, fmt.Sprintf(format, args...)))
}

func (c *checker) list(list *parse.ListNode, s scope) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			c.pipe(n.Pipe, s)
		case *parse.TemplateNode:
			c.pipe(n.Pipe, s)
		case *parse.IfNode:
			inner := s.inside(s.dot)
			c.pipe(n.Pipe, inner)
			c.list(n.List, inner)
			c.list(n.ElseList, inner)
		case *parse.WithNode:
			inner := s.inside(s.dot)
			inner.dot = c.pipe(n.Pipe, inner)
			c.list(n.List, inner)
			c.list(n.ElseList, s.inside(s.dot))
		case *parse.RangeNode:
			inner := s.inside(s.dot)
			inner.dot = entry(c.pipe(n.Pipe, inner))
			for i, v := range n.Pipe.Decl {
				inner.vars[v.Ident[0]] = unknown // A key, or the number of an entry.
				if i == len(n.Pipe.Decl)-1 {
					inner.vars[v.Ident[0]] = inner.dot
				}
			}
			c.list(n.List, inner)
			c.list(n.ElseList, s.inside(s.dot))
		}
	}
}

// entry is what a range over a value goes through.
func entry(s shape) shape {
	switch {
	case s.of != nil && s.of.Of != nil:
		return shape{of: s.of.Of, setting: s.setting}
	case s.is != nil && s.is.Kind() == reflect.Slice:
		return shape{is: s.is.Elem()}
	}
	return unknown
}

// pipe checks a pipe and says what comes out of it.
func (c *checker) pipe(p *parse.PipeNode, s scope) shape {
	if p == nil {
		return unknown
	}
	out := unknown
	for i, cmd := range p.Cmds {
		var before *parse.CommandNode
		if i > 0 {
			before = p.Cmds[i-1]
		}
		out = c.command(cmd, before, out, s)
	}
	for _, v := range p.Decl {
		if !p.IsAssign {
			s.vars[v.Ident[0]] = out
		} else {
			s.vars[v.Ident[0]] = unknown
		}
	}
	return out
}

// command checks one command; piped is what the one before it gives.
func (c *checker) command(cmd, before *parse.CommandNode, piped shape, s scope) shape {
	shapes := make([]shape, len(cmd.Args))
	for i, a := range cmd.Args {
		shapes[i] = c.value(a, s)
	}
	args, given := cmd.Args[1:], shapes[1:]
	if before != nil { // It is the last argument.
		args, given = append(slices.Clone(args), lone(before)), append(slices.Clone(given), piped)
	}
	if id, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		if len(args) == 1 && args[0] != nil {
			c.function(id, args[0], given[0])
		}
		return unknown
	}
	if len(args) == 0 {
		return shapes[0]
	}
	if shapes[0].is == members && len(args) == 1 {
		if name, ok := args[0].(*parse.StringNode); ok && c.known.Role != nil && !c.known.Role(name.Text) {
			c.errorf(args[0], "there is no role %q; write one that nodes can have", check.Clip(name.Text))
		}
		return shape{is: reflect.TypeFor[[]Member]()}
	}
	return unknown
}

// lone is the only word of a command; nil of another one.
func lone(cmd *parse.CommandNode) parse.Node {
	if len(cmd.Args) == 1 {
		return cmd.Args[0]
	}
	return nil
}

// function checks what a function is asked for.
func (c *checker) function(id *parse.IdentifierNode, arg parse.Node, s shape) {
	text, isText := arg.(*parse.StringNode)
	switch id.Ident {
	case "secret", "secretPath":
		switch {
		case isText && !slices.Contains(c.known.Secrets, text.Text):
			c.errorf(arg, "the file does not name the secret %q; add it to its secrets in %s", check.Clip(text.Text),
				c.known.File)
		case s.of != nil && s.of.Type != setting.SecretOf:
			c.errorf(arg, "%s is a %s and not a secret; declare it with type: secret", arg, s.of.Type)
		case s.of != nil && !slices.Contains(c.known.Secrets, SettingSecrets+s.setting):
			c.errorf(arg, "the file does not name the secrets of the setting %s; add %s to its secrets in %s",
				s.setting, SettingSecrets+s.setting, c.known.File)
		}
		if id.Ident == "secret" && c.known.Signal != "" && isText && slices.Contains(c.known.Certificates, text.Text) {
			c.errorf(arg, "at the signal %s the units read a new certificate, and this file is made at their start alone; "+
				"write the path: {{secretPath %s}}", c.known.Signal, arg)
		}
		if id.Ident == "secretPath" && c.known.Units > 1 && !(isText && slices.Contains(c.known.Certificates, text.Text)) {
			c.errorf(arg, "the role has %d units, and each sees the secret in another file; write the secret itself: "+
				"{{secret %s}}", c.known.Units, arg)
		}
	case "authority":
		if isText && !slices.Contains(c.known.Authorities, text.Text) {
			c.errorf(arg, "the role has no authority %q; there are %s", check.Clip(text.Text),
				orNone(c.known.Authorities))
		}
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// dot is the type of a template's dot.
var dot = reflect.TypeFor[*Data]()

// members is the type of the method.
var members = reflect.TypeFor[func(string) ([]Member, error)]()

// value checks one word of a command.
func (c *checker) value(n parse.Node, s scope) shape {
	switch n := n.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.FieldNode:
		return c.fields(n, s.dot, n.Ident)
	case *parse.VariableNode:
		return c.fields(n, s.vars[n.Ident[0]], n.Ident[1:])
	case *parse.ChainNode:
		return c.fields(n, c.value(n.Node, s), n.Field)
	case *parse.PipeNode:
		return c.pipe(n, s)
	}
	return unknown
}

// fields goes down the keys behind a value.
func (c *checker) fields(n parse.Node, s shape, names []string) shape {
	for _, name := range names {
		next, problem := c.field(s, name)
		if problem != "" {
			c.errorf(n, "%s: %s", n, problem)
			return unknown
		}
		s = next
	}
	return s
}

// field is the value behind a name, or why there is none.
func (c *checker) field(s shape, name string) (shape, string) {
	switch {
	case s.is == dot && name == "Settings":
		keys := map[string]setting.Type{}
		maps.Copy(keys, c.known.Settings)
		return shape{keys: keys}, ""
	case s.keys != nil:
		t, ok := s.keys[name]
		if !ok {
			return unknown, "there is no setting " + noKey(name, slices.Sorted(maps.Keys(s.keys)))
		}
		return shape{of: &t, setting: name}, ""
	case s.of != nil:
		return settingField(s, name)
	case s.is == nil:
		return unknown, ""
	}
	return goField(s.is, name)
}

// settingField is a key of a setting's value.
func settingField(s shape, name string) (shape, string) {
	switch s.of.Type {
	case setting.Object:
		t, ok := s.of.Keys[name]
		if !ok {
			return unknown, s.setting + " has no key " + noKey(name, slices.Sorted(maps.Keys(s.of.Keys)))
		}
		return shape{of: &t, setting: s.setting}, ""
	case setting.Map:
		return entry(s), ""
	case setting.Bytes:
		return goField(reflect.TypeFor[setting.Size](), name)
	case setting.Length:
		return goField(reflect.TypeFor[setting.Duration](), name)
	case setting.List:
		return unknown, s.setting + " is a list here; go through it with range"
	}
	return unknown, fmt.Sprintf("%s is a %s here and has no keys; remove .%s", s.setting, s.of.Type, name)
}

// goField is a field or method of a value of the dot.
func goField(t reflect.Type, name string) (shape, string) {
	if m, ok := t.MethodByName(name); ok {
		if name == "Members" {
			return shape{is: members}, ""
		}
		if m.Type.NumIn() == 1 {
			return shape{is: m.Type.Out(0)}, ""
		}
	}
	var known []string
	for i := range t.NumMethod() {
		if m := t.Method(i); (m.Type.NumIn() == 1 || m.Name == "Members") && !strings.HasPrefix(m.Name, "Marshal") {
			known = append(known, m.Name)
		}
	}
	of := t
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Map {
		return shape{is: of.Elem()}, ""
	}
	if of.Kind() == reflect.Struct {
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() {
				continue
			}
			if f.Name == name {
				return shape{is: f.Type}, ""
			}
			known = append(known, f.Name)
		}
	}
	slices.Sort(known)
	if len(known) == 0 {
		return unknown, fmt.Sprintf("there is nothing behind the point; remove .%s", name)
	}
	return unknown, "there is no " + noKey(name, known)
}

// noKey is the name of what there is not, and what there is.
func noKey(name string, known []string) string {
	hint := check.Suggest(name, known)
	if hint == "" {
		hint = "; there are " + orNone(known)
	}
	return fmt.Sprintf("%q%s", check.Clip(name), hint)
}
