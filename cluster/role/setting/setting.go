// Package setting has the types of the settings that a role of the user's own declares, and reads by them what
// services/NAME.yaml of the configuration says. It knows values, not files: whoever calls it says where a fault is.
package setting

import (
	"fmt"
	"maps"
	"slices"

	"spore/cluster/check"
)

// Names of the types.
const (
	String   = "string"
	Integer  = "integer"
	Number   = "number"
	Boolean  = "boolean"
	Length   = "duration"
	Bytes    = "size"
	Address  = "address"
	CIDR     = "cidr"
	Port     = "port"
	Hostname = "hostname"
	Path     = "path"
	List     = "list"
	Map      = "map"
	Object   = "object"
	SecretOf = "secret"
)

// Names lists the types in the order of the reference.
var Names = []string{
	String, Integer, Number, Boolean, Length, Bytes, Address, CIDR, Port, Hostname, Path, List, Map, Object, SecretOf,
}

// Type is the type of a setting.
type Type struct {
	// Type is string, integer, number, boolean, duration, size, address, cidr, port, hostname, path, list, map, object or
	// secret.
	Type string `yaml:"type" json:"type"`
	// Description says in one line what the setting is for.
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Default is what counts where the setting is not written. Without it, that is the empty value: "", 0, false, [] or
	// {}.
	Default any `yaml:"default,omitempty" json:"default,omitempty"`
	// Required makes it an error to leave the setting out.
	Required bool `yaml:"required,omitempty" json:"required,omitempty"`
	// Pattern is a regular expression (RE2) that the whole of a string has to match.
	Pattern string `yaml:"pattern,omitempty" json:"pattern,omitempty"`
	// OneOf holds the only values that a string may have.
	OneOf []string `yaml:"oneOf,omitempty" json:"oneOf,omitempty"`
	// Lines allows a string to have several lines.
	Lines bool `yaml:"lines,omitempty" json:"lines,omitempty"`
	// Min is the lowest value of a number, port, size or duration, the fewest characters of a string, or the fewest
	// entries of a list or map.
	Min any `yaml:"min,omitempty" json:"min,omitempty"`
	// Max is the highest value, or the most characters or entries.
	Max any `yaml:"max,omitempty" json:"max,omitempty"`
	// Unique is the key of a list's objects whose value no two entries share.
	Unique string `yaml:"unique,omitempty" json:"unique,omitempty"`
	// Of is the type of the entries of a list or map.
	Of *Type `yaml:"of,omitempty" json:"of,omitempty"`
	// Keys are the keys of an object, each with its type.
	Keys map[string]Type `yaml:"keys,omitempty" json:"keys,omitempty"`
}

// Fail says what is wrong with the value that a path of keys and indexes leads to.
type Fail func(path []any, message string)

// at is a place on the way into a value.
type at struct {
	fail Fail
	path []any
}

func (a at) then(step any) at { return at{a.fail, append(slices.Clone(a.path), step)} }

func (a at) errorf(format string, args ...any) { a.fail(a.path, fmt.Sprintf(format, args...)) }

// Read reads the values of the keys. The result has what was written and the defaults of what was not, each in its form
// (Size, Duration, Secret, int64, float64, bool, string, []any, map[string]any); Complete adds the empty values. It is
// false after a fault.
func Read(keys map[string]Type, values map[string]any, fail Fail) (map[string]any, bool) {
	return readKeys(keys, values, at{fail: fail})
}

func readKeys(keys map[string]Type, values map[string]any, a at) (map[string]any, bool) {
	out, good := map[string]any{}, true
	known := slices.Sorted(maps.Keys(keys))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := keys[name]; ok {
			continue
		}
		good = false
		hint := check.Suggest(name, known)
		if hint == "" && len(known) > 0 {
			hint = "; write " + check.OrWords(known)
		}
		if len(known) == 0 {
			hint = "; the role has no settings: remove it"
		}
		a.then(name).errorf("unknown key %q%s", check.Clip(name), hint)
	}
	for _, name := range known {
		t := keys[name]
		value, written := values[name]
		switch {
		case written:
			v, ok := t.read(value, name, a.then(name))
			if good = good && ok; ok {
				out[name] = v
			}
		case t.Required:
			good = false
			a.errorf("the key %q is missing; add it and %s", name, t.example())
		default:
			if v, ok := t.unwritten(name); ok {
				out[name] = v
			}
		}
	}
	return out, good
}

// unwritten is what counts of a setting that is not written: its default, or the defaults of an object's keys.
func (t *Type) unwritten(name string) (any, bool) {
	quiet := at{fail: func([]any, string) {}}
	if t.Default != nil {
		return t.read(t.Default, name, quiet)
	}
	if t.Type != Object {
		return nil, false
	}
	values, ok := readKeys(t.Keys, nil, quiet)
	return values, ok
}

// Complete returns values that Read gave with the empty value for each that nobody wrote, so that a template finds
// every key. An object with a required key that nobody wrote is empty.
func Complete(keys map[string]Type, values map[string]any) map[string]any {
	out := map[string]any{}
	for name, t := range keys {
		out[name] = t.complete(values[name])
	}
	return out
}

func (t *Type) complete(v any) any {
	switch v := v.(type) {
	case nil:
		return t.empty()
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = t.of().complete(e)
		}
		return out
	case map[string]any:
		if t.Type == Object {
			return Complete(t.Keys, v)
		}
		out := map[string]any{}
		for name, e := range v {
			out[name] = t.of().complete(e)
		}
		return out
	default:
		return v
	}
}

// of is the type of the entries; that of a list without one, which the check of the definition refuses, is string.
func (t *Type) of() *Type {
	if t.Of == nil {
		return &Type{Type: String}
	}
	return t.Of
}

func (t *Type) empty() any {
	switch t.Type {
	case Integer, Port:
		return int64(0)
	case Number:
		return float64(0)
	case Boolean:
		return false
	case Length:
		return Duration(0)
	case Bytes:
		return Size(0)
	case List:
		return []any{}
	case Map, Object:
		return map[string]any{}
	case SecretOf:
		return Secret("")
	}
	return ""
}

// Secrets lists the entries of the bundle that values name, in the order of their keys, each once.
func Secrets(values any) []string {
	var out []string
	add := func(v any) {
		for _, name := range Secrets(v) {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	switch v := values.(type) {
	case Secret:
		if v != "" {
			out = append(out, string(v))
		}
	case []any:
		for _, e := range v {
			add(e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(v[name])
		}
	}
	return out
}
