package template

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"gopkg.in/yaml.v3"

	"spore/cluster/role/setting"
)

// builtin are the functions of text/template that a template may call, and that make nothing.
var builtin = []string{"and", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or", "slice"}

// Functions lists the functions that a template may call.
func Functions() []string {
	out := append(slices.Clone(builtin), slices.Collect(maps.Keys((&run{}).functions()))...)
	slices.Sort(out)
	return out
}

// run is one rendering.
type run struct {
	ctx   context.Context
	given Given
	// steps, made, depth and rounds are counted against the bounds.
	steps, made, depth, rounds int
	// stopped says which bound was met.
	stopped error
	// told are the secrets that the template was given: no error may have one.
	told []string
	// written are the texts in the template itself.
	written []string
}

// functions are those of this house. They replace print, printf and println, whose texts would have no bound.
func (r *run) functions() template.FuncMap {
	return template.FuncMap{
		"add":        func(a, b any) (int64, error) { return whole(a, b, func(x, y int64) int64 { return x + y }) },
		"sub":        func(a, b any) (int64, error) { return whole(a, b, func(x, y int64) int64 { return x - y }) },
		"mul":        func(a, b any) (int64, error) { return whole(a, b, func(x, y int64) int64 { return x * y }) },
		"div":        divide,
		"authority":  r.authority,
		"base64":     r.base64,
		"default":    otherwise,
		"indent":     r.indent,
		"join":       r.join,
		"lower":      func(v any) (string, error) { return r.text(v, strings.ToLower) },
		"upper":      func(v any) (string, error) { return r.text(v, strings.ToUpper) },
		"trim":       func(v any) (string, error) { return r.text(v, strings.TrimSpace) },
		"pbkdf2":     r.pbkdf2,
		"print":      r.print,
		"printf":     r.printf,
		"println":    r.println,
		"quote":      func(v any) (string, error) { return r.text(v, quote) },
		"replace":    r.replace,
		"secret":     r.secret,
		"secretPath": r.secretPath,
		"sha256":     r.sha256,
		"split":      r.split,
		"toJson":     r.toJSON,
		"toYaml":     r.toYAML,
	}
}

// counters are the functions that Parse put in.
func (r *run) counters() template.FuncMap {
	return template.FuncMap{
		step: r.step,
		enter: func() (string, error) {
			if r.depth++; r.depth > maxDepth {
				return "", r.stop(ErrDepth)
			}
			return "", nil
		},
		leave: func() string { r.depth--; return "" },
	}
}

// step counts an action, and ends with the context.
func (r *run) step(weight int) (string, error) {
	if r.steps += weight; r.steps > maxSteps {
		return "", r.stop(ErrSteps)
	}
	if err := r.ctx.Err(); err != nil {
		return "", r.stop(fmt.Errorf("it took too long: %w", context.Cause(r.ctx)))
	}
	return "", nil
}

func (r *run) stop(err error) error {
	if r.stopped == nil {
		r.stopped = err
	}
	return r.stopped
}

// make calls what makes a text of at most so many bytes, unless that is too much.
func (r *run) make(most int, text func() string) (string, error) {
	if most > MaxOutput || r.made+most > maxMade {
		return "", r.stop(ErrMade)
	}
	s := text()
	if r.made += len(s); r.made > maxMade {
		return "", r.stop(ErrMade)
	}
	return s, nil
}

// sizeOf is at least the length of values when they are printed or encoded, or more than any bound allows.
func sizeOf(v any) int {
	total := 0
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		if total += 32; total > MaxOutput {
			return
		}
		switch v.Kind() {
		case reflect.String:
			total += 6 * v.Len() // \u0000
		case reflect.Interface, reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				walk(key)
				walk(v.MapIndex(key))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(v))
	return total
}

// text is a value as a text that a function changed.
func (r *run) text(v any, change func(string) string) (string, error) {
	return r.make(sizeOf(v), func() string { return change(fmt.Sprint(v)) })
}

func (r *run) println(v ...any) (string, error) {
	return r.make(sizeOf(v), func() string { return fmt.Sprintln(v...) })
}

func (r *run) print(v ...any) (string, error) {
	return r.make(sizeOf(v), func() string { return fmt.Sprint(v...) })
}

// maxFormat is the length of a format in bytes.
const maxFormat = 1000

// verbs are what a format may have behind a %: a width and precision of at most three digits, and no verb that prints
// where something is in memory.
var verbs = regexp.MustCompile(`%[-+# 0]{0,5}[0-9]{0,3}(?:\.[0-9]{0,3})?[%bcdeEfFgGoqstTUvxX]`)

func (r *run) printf(format string, v ...any) (string, error) {
	rest := verbs.ReplaceAllString(format, "")
	if len(format) > maxFormat || strings.Contains(rest, "%") {
		return "", fmt.Errorf("the format is not one of at most %d bytes with verbs such as %%s, %%d, %%q, "+
			"%%05d or %%.2f", maxFormat)
	}
	most := sizeOf(v) + len(rest) + 1000*strings.Count(format, "%")
	return r.make(most, func() string { return fmt.Sprintf(format, v...) })
}

// quote writes a text as JSON has it, which YAML, TOML and most other files read as well.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return "" // No text is an error.
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *run) join(separator string, list any) (string, error) {
	items, err := entries(list)
	if err != nil {
		return "", err
	}
	return r.make(sizeOf(items)+len(items)*len(separator), func() string {
		words := make([]string, len(items))
		for i, e := range items {
			words[i] = fmt.Sprint(e)
		}
		return strings.Join(words, separator)
	})
}

func entries(list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return nil, fmt.Errorf("%T is not a list", list)
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = v.Index(i).Interface()
	}
	return out, nil
}

func (r *run) replace(old, new string, v any) (string, error) {
	s := fmt.Sprint(v)
	most := len(s) + (strings.Count(s, old))*len(new)
	return r.make(most, func() string { return strings.ReplaceAll(s, old, new) })
}

func (r *run) split(separator, s string) ([]string, error) {
	const header = 16 // bytes of each text in the list, besides what they share
	if r.made += header * (1 + strings.Count(s, separator)); r.made > maxMade {
		return nil, r.stop(ErrMade)
	}
	return strings.Split(s, separator), nil
}

// maxIndent bounds the blanks before a line.
const maxIndent = 80

// indent puts blanks before each line but the first.
func (r *run) indent(blanks int, v any) (string, error) {
	if blanks < 0 || blanks > maxIndent {
		return "", fmt.Errorf("%d blanks before a line are out of bounds; write 0 to %d", blanks, maxIndent)
	}
	s := fmt.Sprint(v)
	return r.make(len(s)+blanks*strings.Count(s, "\n"), func() string {
		return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", blanks))
	})
}

func (r *run) toJSON(v any) (string, error) {
	var err error
	s, stopped := r.make(sizeOf(v), func() string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(v)
		return strings.TrimSuffix(b.String(), "\n")
	})
	return s, errors.Join(stopped, err)
}

func (r *run) toYAML(v any) (string, error) {
	var err error
	s, stopped := r.make(sizeOf(v), func() string {
		var b bytes.Buffer
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		err = e.Encode(v)
		return strings.TrimSuffix(b.String(), "\n")
	})
	return s, errors.Join(stopped, err)
}

// otherwise is the value, or the first where the value is empty: {{ .Settings.name | default "x" }}.
func otherwise(instead, v any) any {
	if truth, ok := template.IsTrue(v); ok && truth {
		return v
	}
	return instead
}

// whole counts with whole numbers: those of settings, sizes in bytes, and what Go calls int.
func whole(a, b any, count func(x, y int64) int64) (int64, error) {
	x, err := integer(a)
	if err != nil {
		return 0, err
	}
	y, err := integer(b)
	if err != nil {
		return 0, err
	}
	return count(x, y), nil
}

func divide(a, b any) (int64, error) {
	y, err := integer(b)
	if err == nil && y == 0 {
		err = errors.New("nothing can be divided by 0")
	}
	if err != nil {
		return 0, err
	}
	return whole(a, b, func(x, y int64) int64 { return x / y })
}

func integer(v any) (int64, error) {
	r := reflect.ValueOf(v)
	if r.CanInt() {
		return r.Int(), nil
	}
	return 0, fmt.Errorf("%T is not a whole number", v)
}

// secretName is the entry that a text or a setting names.
func secretName(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case setting.Secret:
		if v == "" {
			return "", errors.New("the setting names no secret; ask with {{if}} first")
		}
		return string(v), nil
	}
	return "", fmt.Errorf("%T is not the name of a secret", v)
}

func (r *run) secret(v any) (string, error) {
	s, err := r.ask(v, r.given.Secret)
	if err == nil {
		r.told = append(r.told, s)
	}
	return s, err
}

func (r *run) secretPath(v any) (string, error) { return r.ask(v, r.given.SecretPath) }

func (r *run) authority(name string) (string, error) { return r.ask(name, r.given.Authority) }

func (r *run) ask(v any, get func(string) (string, error)) (string, error) {
	name, err := secretName(v)
	if err != nil {
		return "", err
	}
	if get == nil {
		return "", errors.New("there are no secrets here")
	}
	s, err := get(name)
	if err != nil && r.mayTell(v) {
		return "", errors.New("there is nothing of the name that the template makes here; write the name itself")
	}
	if err != nil {
		return "", err
	}
	return r.make(len(s), func() string { return s })
}

// mayTell tells whether a name may be a secret in another form: the template has one, and made the name itself.
func (r *run) mayTell(v any) bool {
	name, isText := v.(string)
	return isText && len(r.told) > 0 && !slices.Contains(r.written, name)
}

// allowed refuses functions of text/template that are not offered.
func allowed(tree *parse.Tree) *Error {
	var found *Error
	known := Functions()
	walk(tree.Root, func(n parse.Node) {
		id, ok := n.(*parse.IdentifierNode)
		if !ok || found != nil || slices.Contains(known, id.Ident) {
			return
		}
		message := fmt.Sprintf("there is no function %q; there are %s", id.Ident, strings.Join(known, ", "))
		found = errorAt(tree, n, message)
	})
	return found
}

// errorAt is a fault at a node.
func errorAt(tree *parse.Tree, n parse.Node, message string) *Error {
	location, _ := tree.ErrorContext(n)
	e := parseError(fmt.Errorf("template: %s: %s", location, "x"))
	e.Message = message
	return e
}

// walk visits a node and all below it.
func walk(n parse.Node, visit func(parse.Node)) {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return
	}
	visit(n)
	switch n := n.(type) {
	case *parse.ListNode:
		for _, e := range n.Nodes {
			walk(e, visit)
		}
	case *parse.ActionNode:
		walk(n.Pipe, visit)
	case *parse.TemplateNode:
		walk(n.Pipe, visit)
	case *parse.IfNode:
		walkBranch(&n.BranchNode, visit)
	case *parse.RangeNode:
		walkBranch(&n.BranchNode, visit)
	case *parse.WithNode:
		walkBranch(&n.BranchNode, visit)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			walk(c, visit)
		}
	case *parse.CommandNode:
		for _, a := range n.Args {
			walk(a, visit)
		}
	case *parse.ChainNode:
		walk(n.Node, visit)
	}
}

func walkBranch(b *parse.BranchNode, visit func(parse.Node)) {
	walk(b.Pipe, visit)
	walk(b.List, visit)
	walk(b.ElseList, visit)
}
