package setting

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"spore/cluster/check"
	"spore/cluster/form"
)

// Bounds of a declaration.
const (
	maxDepth   = 8
	maxKeys    = 200
	maxPattern = 1000
)

// keyForm is what a template can write behind a point.
var keyForm = form.New(`^[a-z][A-Za-z0-9]{0,62}$`)

// Check finds what is wrong with the declaration of settings.
func Check(keys map[string]Type, fail Fail) { checkKeys(keys, at{fail: fail}, 0) }

func checkKeys(keys map[string]Type, a at, depth int) {
	if len(keys) > maxKeys {
		a.errorf("there are %d keys; at most %d are read", len(keys), maxKeys)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if !keyForm.MatchString(name) {
			a.then(name).errorf("the key %q is not a name that a template can write; write 1 to 63 letters and "+
				"digits, the first a lower-case letter, such as maxMemory", check.Clip(name))
		}
		t := keys[name]
		t.check(name, a.then(name), depth)
	}
}

// allowed are the keys that only some types have.
var allowed = map[string][]string{
	"pattern": {String},
	"oneOf":   {String},
	"lines":   {String},
	"min":     {String, Integer, Number, Port, Bytes, Length, List, Map},
	"max":     {String, Integer, Number, Port, Bytes, Length, List, Map},
	"unique":  {List},
	"of":      {List, Map},
	"keys":    {Object},
}

// has lists the keys of allowed that a declaration has.
func (t *Type) has() []string {
	var out []string
	for key, written := range map[string]bool{
		"pattern": t.Pattern != "", "oneOf": t.OneOf != nil, "lines": t.Lines, "min": t.Min != nil,
		"max": t.Max != nil, "unique": t.Unique != "", "of": t.Of != nil, "keys": t.Keys != nil,
	} {
		if written {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func (t *Type) check(name string, a at, depth int) {
	if depth > maxDepth {
		a.errorf("%s is inside of %d others; at most %d are read", name, depth, maxDepth)
		return
	}
	if !slices.Contains(Names, t.Type) {
		if t.Type == "" {
			return // The decoder said it.
		}
		hint := check.Suggest(t.Type, Names)
		if hint == "" {
			hint = "; write " + check.OrWords(Names)
		}
		a.then("type").errorf("the type %q is unknown%s", check.Clip(t.Type), hint)
		return
	}
	good := true
	for _, key := range t.has() {
		if !slices.Contains(allowed[key], t.Type) {
			a.then(key).errorf("%s is of the type %s, and %s is for %s; remove %s", name, t.Type, key,
				check.OrWords(allowed[key]), key)
			good = false
		}
	}
	if !good {
		return
	}
	if strings.ContainsAny(t.Description, "\n\r") {
		a.then("description").errorf("the description of %s has several lines; write one", name)
	} else if strings.ContainsFunc(t.Description, unicode.IsControl) {
		a.then("description").errorf("the description of %s has a control character; write one line of words", name)
	}
	switch t.Type {
	case List, Map:
		if t.Of == nil {
			a.errorf("%s is a %s and does not say of what; add of: {type: string}", name, t.Type)
			return
		}
		if t.Of.Default != nil || t.Of.Required {
			a.then("of").errorf("an entry of %s is always written; remove default and required", name)
		}
		t.Of.check("an entry of "+name, a.then("of"), depth+1)
		t.checkUnique(name, a.then("unique"))
	case Object:
		if len(t.Keys) == 0 {
			a.errorf("%s is an object without keys; add keys: {NAME: {type: string}}", name)
			return
		}
		checkKeys(t.Keys, a.then("keys"), depth+1)
	}
	if t.checkBounds(name, a) && t.checkPattern(name, a) {
		t.checkDefault(name, a)
	}
}

// checkUnique checks that the entries have the key, and a value there that can be compared.
func (t *Type) checkUnique(name string, a at) {
	if t.Unique == "" {
		return
	}
	key, is := t.Of.Keys[t.Unique]
	switch {
	case t.Of.Type != Object:
		a.errorf("unique of %s names a key, and its entries are of the type %s; remove unique, or write "+
			"of: {type: object, keys: …}", name, t.Of.Type)
	case !is:
		known := slices.Sorted(maps.Keys(t.Of.Keys))
		hint := check.Suggest(t.Unique, known)
		if hint == "" {
			hint = "; write " + check.OrWords(known)
		}
		a.errorf("the entries of %s have no key %q%s", name, check.Clip(t.Unique), hint)
	case slices.Contains([]string{List, Map, Object}, key.Type):
		a.errorf("unique of %s names a %s; write a key with one value, such as a name", name, key.Type)
	}
}

func (t *Type) checkBounds(name string, a at) bool {
	for _, b := range []struct {
		key   string
		value any
	}{{"min", t.Min}, {"max", t.Max}} {
		if b.value == nil {
			continue
		}
		if n, ok := t.bound(b.value); !ok || n < 0 && t.Type != Integer && t.Type != Number {
			a.then(b.key).errorf("%s of %s is not %s", b.key, name, t.boundWords())
			return false
		}
	}
	if low, high, _ := t.bounds(); low > high {
		a.then("min").errorf("min of %s is more than max; exchange them", name)
		return false
	}
	return true
}

// boundWords say what a min or max is.
func (t *Type) boundWords() string {
	switch t.Type {
	case Bytes:
		return "a size; write one such as 64MiB"
	case Length:
		return "a duration; write one such as 90s or 1h30m"
	case Number:
		return "a number; write one such as 0.5"
	}
	return "a whole number; write one such as 10"
}

func (t *Type) checkPattern(name string, a at) bool {
	if t.OneOf != nil && len(t.OneOf) == 0 {
		a.then("oneOf").errorf("%s can have no value; write the values that it may have, or remove oneOf", name)
		return false
	}
	if t.Pattern == "" {
		return true
	}
	if len(t.Pattern) > maxPattern {
		a.then("pattern").errorf("the pattern of %s has %d bytes; write at most %d", name, len(t.Pattern), maxPattern)
		return false
	}
	if _, err := compile(t.Pattern); err != nil {
		a.then("pattern").errorf("the pattern of %s is not a regular expression: %s; write it as RE2 has it, such as [a-z]+",
			name, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return false
	}
	return true
}

func (t *Type) checkDefault(name string, a at) {
	if t.Default == nil {
		return
	}
	a = a.then("default")
	if t.Required {
		a.errorf("%s is required, so that its default never counts; remove one of the two", name)
		return
	}
	v, ok := t.read(t.Default, "the default of "+name, a)
	if ok && len(Secrets(v)) > 0 {
		a.errorf("the default of %s names a secret; give the role one of its own under secrets", name)
	}
}
