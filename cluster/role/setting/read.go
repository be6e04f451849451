package setting

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"spore/cluster/check"
	"spore/cluster/form"
)

// Bounds of values.
const (
	// maxWhole is the largest whole number that JSON keeps exactly (RFC 8259, section 6).
	maxWhole = 1<<53 - 1
	// maxText is the length of a string without a max, in bytes.
	maxText = 64 << 10
	// maxEntries bounds lists and maps without a max.
	maxEntries = 10_000
	// maxPath is PATH_MAX of Linux.
	maxPath = 4095
	// maxKey is the length of a key of a map, in bytes.
	maxKey = 253
)

// secretForm is the syntax of a name in the secret bundle.
var secretForm = form.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// read reads one value; name is what it is called in messages. It is false after a fault.
func (t *Type) read(v any, name string, a at) (any, bool) {
	switch t.Type {
	case String:
		return t.readText(v, name, a)
	case Integer, Port:
		return t.readWhole(v, name, a)
	case Number:
		n, ok := number(v)
		if !ok {
			a.errorf("%s is %s; write a number such as 0.5", name, kindOf(v))
			return nil, false
		}
		return n, t.between(n, name, a)
	case Boolean:
		b, ok := v.(bool)
		if !ok {
			a.errorf("%s is %s; write true or false", name, kindOf(v))
		}
		return b, ok
	case Length, Bytes, Address, CIDR, Hostname, Path:
		return t.readForm(v, name, a)
	case List:
		return t.readList(v, name, a)
	case Map:
		return t.readMap(v, name, a)
	case Object:
		m, ok := v.(map[string]any)
		if !ok {
			a.errorf("%s is %s where a mapping belongs; write its keys below it, indented: %s", name, kindOf(v),
				t.keyNames())
			return nil, false
		}
		return readKeys(t.Keys, m, a)
	case SecretOf:
		return readSecret(v, name, a)
	}
	a.errorf("%s has a type %q that there is not", name, check.Clip(t.Type))
	return nil, false
}

func (t *Type) readText(v any, name string, a at) (any, bool) {
	s, ok := v.(string)
	switch {
	case !ok:
		a.errorf("%s is %s where a text belongs; put it into quotes", name, kindOf(v))
	case !utf8.ValidString(s) || strings.ContainsFunc(s, t.strange):
		hint := "write it in one line"
		if t.Lines {
			hint = "remove what no editor shows"
		}
		a.errorf("%s %q has characters that do not belong there; %s", name, check.Clip(s), hint)
		ok = false
	case len(s) > maxText:
		a.errorf("%s has %d bytes; write at most %d", name, len(s), maxText)
		ok = false
	case len(t.OneOf) > 0 && !slices.Contains(t.OneOf, s):
		hint := check.Suggest(s, t.OneOf)
		if hint == "" {
			hint = "; write " + check.OrWords(t.OneOf)
		}
		a.errorf("%s %q is unknown%s", name, check.Clip(s), hint)
		ok = false
	case !t.matches(s):
		a.errorf("%s %q does not have the form that the role asks for; write what matches %s", name, check.Clip(s),
			t.Pattern)
		ok = false
	default:
		ok = t.counted(utf8.RuneCountInString(s), "character", name, a)
	}
	return s, ok
}

// strange tells whether a character does not belong in the text.
func (t *Type) strange(r rune) bool {
	return unicode.IsControl(r) && !(t.Lines && (r == '\n' || r == '\t'))
}

// matches tells whether the whole of a text matches the pattern.
func (t *Type) matches(s string) bool {
	if t.Pattern == "" {
		return true
	}
	re, err := compile(t.Pattern)
	return err == nil && re.MatchString(s)
}

func compile(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

func (t *Type) readWhole(v any, name string, a at) (any, bool) {
	n, ok := whole(v)
	if !ok {
		hint := "write a whole number such as 1500"
		if t.Type == Port {
			hint = "write a whole number from 1 to 65535"
		}
		a.errorf("%s is %s; %s", name, kindOf(v), hint)
		return nil, false
	}
	if t.Type == Port && (n < 1 || n > 65535) {
		a.errorf("%s %d is out of bounds; write 1 to 65535", name, n)
		return nil, false
	}
	return n, t.between(float64(n), name, a)
}

// whole is a number without anything behind the point, as YAML or JSON has it.
func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return whole(int64(n))
	case int64:
		return n, -maxWhole <= n && n <= maxWhole
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) <= maxWhole
	case json.Number:
		i, err := n.Int64()
		return i, err == nil && -maxWhole <= i && i <= maxWhole
	}
	return 0, false
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return number(int64(n))
	case int64:
		return float64(n), -maxWhole <= n && n <= maxWhole
	case float64:
		return n, !math.IsNaN(n) && !math.IsInf(n, 0)
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// readForm reads what a text stands for.
func (t *Type) readForm(v any, name string, a at) (any, bool) {
	if t.Type == Bytes {
		if n, ok := whole(v); ok && n >= 0 {
			return Size(n), t.between(float64(n), name, a)
		}
	}
	s, ok := v.(string)
	if !ok {
		a.errorf("%s is %s; %s", name, kindOf(v), t.example())
		return nil, false
	}
	out, err := t.form(s)
	if err != nil {
		a.errorf("%s %s", name, err)
		return nil, false
	}
	switch out := out.(type) {
	case Size:
		return out, t.between(float64(out), name, a)
	case Duration:
		return out, t.between(float64(out), name, a)
	}
	return out, true
}

// form reads a text by its type. The error begins with the text.
func (t *Type) form(s string) (any, error) {
	switch t.Type {
	case Bytes:
		return ParseSize(s)
	case Length:
		return ParseDuration(s)
	case Address:
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" || addr.Is4In6() {
			return nil, fmt.Errorf("%q is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length",
				check.Clip(s))
		}
		return addr.String(), nil
	case CIDR:
		p, err := netip.ParsePrefix(s)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is not a network; write it as 10.77.0.0/24 or fd00::/64", check.Clip(s))
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%q has bits behind its prefix; write %s", check.Clip(s), p.Masked())
		}
		return p.String(), nil
	case Hostname:
		if !check.IsDomain(s) {
			return nil, fmt.Errorf("%q is not a host name; write lower-case letters, digits, - and dots between, "+
				"such as broker.plant.example", check.Clip(s))
		}
		return s, nil
	}
	if err := CleanPath(s); err != nil {
		return nil, err
	}
	return s, nil
}

// CleanPath refuses what is not an absolute path in its shortest form. The error begins with the path.
func CleanPath(s string) error {
	switch {
	case !path.IsAbs(s) || len(s) > maxPath || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q is not an absolute path; write one such as /var/lib/valkey", check.Clip(s))
	case path.Clean(s) != s:
		return fmt.Errorf("%q is not in its shortest form; write %s", check.Clip(s), check.Clip(path.Clean(s)))
	}
	return nil
}

func (t *Type) readList(v any, name string, a at) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		a.errorf("%s is %s where a list belongs; write a list, one entry a line with a dash before it", name, kindOf(v))
		return nil, false
	}
	if !t.counted(len(list), "entry", name, a) {
		return nil, false
	}
	out := make([]any, len(list))
	for i, e := range list {
		read, good := t.of().read(e, "an entry of "+name, a.then(i))
		out[i], ok = read, ok && good
	}
	return out, t.different(out, name, a) && ok
}

// different refuses a second entry with the same value behind the key that unique names.
func (t *Type) different(list []any, name string, a at) bool {
	if t.Unique == "" {
		return true
	}
	first, ok := map[any]int{}, true
	for i, e := range list {
		m, _ := e.(map[string]any)
		v, written := m[t.Unique]
		if kind := reflect.TypeOf(v); !written || kind == nil || !kind.Comparable() {
			continue // A fault that was said, or nothing.
		}
		if before, twice := first[v]; twice {
			a.then(i).then(t.Unique).errorf("the %s %q is in the entries %d and %d of %s; each entry has another one",
				t.Unique, check.Clip(fmt.Sprint(v)), before+1, i+1, name)
			ok = false
			continue
		}
		first[v] = i
	}
	return ok
}

func (t *Type) readMap(v any, name string, a at) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		a.errorf("%s is %s where a mapping belongs; write lines of the form name: value below it, indented", name,
			kindOf(v))
		return nil, false
	}
	if !t.counted(len(m), "entry", name, a) {
		return nil, false
	}
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "" || len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			a.then(key).errorf("the key %q of %s is not a name; write 1 to %d characters in one line",
				check.Clip(key), name, maxKey)
			ok = false
			continue
		}
		read, good := t.of().read(m[key], key, a.then(key))
		out[key], ok = read, ok && good
	}
	return out, ok
}

func readSecret(v any, name string, a at) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		a.errorf("%s holds a literal secret; it would be readable in every image: write `%s: {secretRef: NAME}` "+
			"and put the secret into the bundle under NAME",
			name, strings.TrimPrefix(name, "an entry of "))
		return nil, false
	}
	ref, is := m["secretRef"].(string)
	if !is || len(m) != 1 {
		a.errorf("%s is not the name of a secret; write {secretRef: NAME}", name)
		return nil, false
	}
	if !secretForm.MatchString(ref) {
		a.then("secretRef").errorf("%s: secretRef %q is not the name of a bundle entry; write 1 to 63 "+
			"lower-case letters, digits and -, such as valkey-password",
			name, check.Clip(ref))
		return nil, false
	}
	return Secret(ref), true
}

// between holds a number to min and max.
func (t *Type) between(n float64, name string, a at) bool {
	low, high, ok := t.bounds()
	if !ok || low <= n && n <= high {
		return true
	}
	shown := t.Show(n)
	switch {
	case t.Max == nil:
		a.errorf("%s %s is out of bounds; write %s or more", name, shown, t.Show(low))
	case t.Min == nil:
		a.errorf("%s %s is out of bounds; write %s or less", name, shown, t.Show(high))
	default:
		a.errorf("%s %s is out of bounds; write %s to %s", name, shown, t.Show(low), t.Show(high))
	}
	return false
}

// Show is a number of the type as a file has it.
func (t *Type) Show(n float64) string {
	switch t.Type {
	case Bytes:
		return Size(n).Text()
	case Length:
		return Duration(n).String()
	}
	return fmt.Sprint(json.Number(fmt.Sprintf("%.15g", n)))
}

// counted holds the number of characters or entries to min and max.
func (t *Type) counted(n int, what, name string, a at) bool {
	low, high, ok := t.bounds()
	if t.Max == nil && what == "entry" {
		high = maxEntries
	}
	if !ok || low <= float64(n) && float64(n) <= high {
		return true
	}
	few := func(f float64) string {
		if what == "entry" && f != 1 {
			return fmt.Sprintf("%.0f entries", f)
		}
		return check.Count(int(f), what)
	}
	if float64(n) < low {
		a.errorf("%s has %s; write at least %s", name, few(float64(n)), few(low))
	} else {
		a.errorf("%s has %s; write at most %s", name, few(float64(n)), few(high))
	}
	return false
}

// bounds are min and max as numbers. It is false where one of them cannot be read, which the check of the definition
// says.
func (t *Type) bounds() (low, high float64, ok bool) {
	low, high = math.Inf(-1), math.Inf(1)
	if t.Min != nil {
		if low, ok = t.bound(t.Min); !ok {
			return
		}
	}
	if t.Max != nil {
		if high, ok = t.bound(t.Max); !ok {
			return
		}
	}
	return low, high, true
}

func (t *Type) bound(v any) (float64, bool) {
	s, isText := v.(string)
	switch {
	case t.Type == Bytes && isText:
		size, err := ParseSize(s)
		return float64(size), err == nil
	case t.Type == Length:
		d, err := ParseDuration(s)
		return float64(d), isText && err == nil
	case t.Type == Number:
		return number(v)
	}
	n, ok := whole(v)
	return float64(n), ok
}

// example says what to write for a type.
func (t *Type) example() string {
	switch t.Type {
	case Integer:
		return "write a whole number"
	case Number:
		return "write a number"
	case Boolean:
		return "write true or false"
	case Length:
		return "write a duration such as 90s or 1h30m"
	case Bytes:
		return "write a size such as 64MiB"
	case Address:
		return "write an IP address such as 10.77.0.5"
	case CIDR:
		return "write a network such as 10.77.0.0/24"
	case Port:
		return "write a whole number from 1 to 65535"
	case Hostname:
		return "write a host name such as broker.plant.example"
	case Path:
		return "write an absolute path such as /var/lib/valkey"
	case List:
		return "write a list, [] for an empty one"
	case Map:
		return "write names with values below it, indented"
	case Object:
		return "write its keys below it, indented: " + t.keyNames()
	case SecretOf:
		return "write {secretRef: NAME}"
	}
	if len(t.OneOf) > 0 {
		return "write " + check.OrWords(t.OneOf)
	}
	return "write a text"
}

func (t *Type) keyNames() string { return strings.Join(slices.Sorted(maps.Keys(t.Keys)), ", ") }

// kindOf says what a value of a file is.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "a number"
}
