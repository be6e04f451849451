package cluster

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"spore/cluster/check"
	"spore/cluster/spec"
	"spore/cluster/spelling"
)

// decoder fills a spec type from YAML nodes and collects every problem on the way. It is strict: a key that the type
// does not have, a key twice, a value of another type, an empty value and a missing key are errors.
type decoder struct {
	report func(line, column int, message string)
}

var secretRefType = reflect.TypeFor[spec.SecretRef]()

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.report(n.Line, n.Column, fmt.Sprintf(format, args...))
}

// value decodes n into v. name is the key that n belongs to, for messages.
func (d *decoder) value(n *yaml.Node, v reflect.Value, name string) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.fail(n, "%s uses an anchor or alias; write the value out", name)
		return
	}
	if n.ShortTag() == "!!null" {
		d.fail(n, "%s has no value; %s, or remove the key", name, example(v.Type()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), name)
	case reflect.Struct:
		d.mapping(n, v, name)
	case reflect.Slice:
		d.list(n, v, name)
	case reflect.Map:
		d.named(n, v, name)
	case reflect.Interface:
		if free := d.free(n, name); free != nil {
			v.Set(reflect.ValueOf(free))
		}
	default:
		d.scalar(n, v, name)
	}
}

// example says what to write for a type.
func example(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "write [] for an empty list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "write its keys below it, indented"
	case reflect.Bool:
		return "write true or false"
	case reflect.Int:
		return "write a whole number"
	case reflect.Interface:
		return "write one"
	}
	return "write a text"
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	case "!!str":
		return "a text"
	}
	return "a " + strings.TrimLeft(n.ShortTag(), "!")
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, name string) {
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode {
		d.fail(n, "%s is %s; %s", name, kindOf(n), example(v.Type()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		if tag != "!!str" {
			d.fail(n, "%s is %s where a text belongs; put it into quotes: %q", name, kindOf(n), check.Clip(n.Value))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.Value)
		if tag != "!!bool" || err != nil {
			d.fail(n, "%s is %s; write true or false", name, kindOf(n))
			return
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.ParseInt(n.Value, 10, 32)
		if tag != "!!int" || err != nil {
			d.fail(n, "%s is not a whole number of at most nine digits; write one such as 1500", name)
			return
		}
		v.SetInt(i)
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, name string) {
	if n.Kind != yaml.SequenceNode {
		hint := "write a list, one entry a line with a dash before it"
		if n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("write [%s]", check.Clip(n.Value))
		}
		d.fail(n, "%s is %s where a list belongs; %s", name, kindOf(n), hint)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, e := range n.Content {
		d.value(e, v.Index(i), "an entry of "+name)
	}
}

// named decodes a mapping whose keys are names that the user chooses.
func (d *decoder) named(n *yaml.Node, v reflect.Value, name string) {
	if n.Kind != yaml.MappingNode {
		form := "lines of the form key: \"value\""
		if v.Type().Elem().Kind() != reflect.String {
			form = "a name, and its keys below it, indented"
		}
		d.fail(n, "%s is %s where a mapping belongs; write %s", name, kindOf(n), form)
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !d.key(n.Content[i], seen) {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], e, n.Content[i].Value)
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value), e)
	}
}

// key checks one key of a mapping.
func (d *decoder) key(k *yaml.Node, seen map[string]*yaml.Node) bool {
	if k.Kind != yaml.ScalarNode || k.Anchor != "" || k.ShortTag() == "!!merge" || k.ShortTag() == "!!null" {
		d.fail(k, "this key is not a plain text; write the keys out, without anchors and merges")
		return false
	}
	if first := seen[k.Value]; first != nil {
		d.fail(k, "the key %q is here twice, first in line %d; keep one of them", check.Clip(k.Value), first.Line)
		return false
	}
	seen[k.Value] = k
	return true
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, name string) {
	if n.Kind != yaml.MappingNode {
		if v.Type() == secretRefType {
			d.fail(n, "%s holds a literal secret; it would be readable in every image: write `%s: {secretRef: NAME}` and put the secret into the bundle under NAME", name, name)
			return
		}
		d.fail(n, "%s is %s where a mapping belongs; write its keys below it, indented: %s", name, kindOf(n), strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	seen, meant := map[string]*yaml.Node{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if !d.key(k, seen) {
			continue
		}
		field, ok := fieldByName(v.Type(), k.Value)
		if !ok {
			meant[d.unknownKey(k, n.Content[i+1], v.Type())] = true
			continue
		}
		d.value(n.Content[i+1], v.Field(field), k.Value)
	}
	for _, f := range fields(v.Type()) {
		if f.required && seen[f.name] == nil && !meant[f.name] {
			d.fail(n, "the key %q is missing; add it and %s", f.name, example(v.Type().Field(f.index).Type))
		}
	}
}

// unknownKey reports a key that the type does not have, and returns the key that was probably meant.
func (d *decoder) unknownKey(k, value *yaml.Node, t reflect.Type) (meant string) {
	if secretName(k.Value) && value.Kind == yaml.ScalarNode {
		d.fail(k, "the key %q is unknown here and looks like a literal secret; secrets do not belong in these files: name an entry of the bundle by secretRef where a service wants one", check.Clip(k.Value))
		return ""
	}
	known := fieldNames(t)
	meant = spelling.Nearest(k.Value, known)
	d.fail(k, "unknown key %q%s", check.Clip(k.Value), orList(check.DidYouMean(meant), "known keys", known))
	return meant
}

// field is one key of a mapping, as the yaml tag of a Go field declares it.
type field struct {
	name     string
	index    int
	required bool
}

// fieldCache holds the fields of each spec type, which never change.
var fieldCache sync.Map

func fields(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		name, rest, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "-" {
			continue // The file's name or its neighbours say it.
		}
		out = append(out, field{name, i, !strings.Contains(rest, "omitempty")})
	}
	fieldCache.Store(t, out)
	return out
}

func fieldNames(t reflect.Type) []string {
	var out []string
	for _, f := range fields(t) {
		out = append(out, f.name)
	}
	return out
}

func fieldByName(t reflect.Type, name string) (int, bool) {
	for _, f := range fields(t) {
		if f.name == name {
			return f.index, true
		}
	}
	return 0, false
}
