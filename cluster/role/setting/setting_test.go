package setting

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// declared reads declarations as a role writes them.
func declared(t testing.TB, text string) map[string]Type {
	t.Helper()
	var out map[string]Type
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return out
}

// written reads values as package cluster does: whole numbers are int64.
func written(t testing.TB, text string) map[string]any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	out, _ := plain(v).(map[string]any)
	return out
}

func plain(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

// faults collects what is wrong, with the path before it.
func faults(into *[]string) Fail {
	return func(path []any, message string) {
		var words []string
		for _, p := range path {
			words = append(words, fmt.Sprint(p))
		}
		*into = append(*into, strings.Join(words, ".")+": "+message)
	}
}

func TestValuesAreReadByTheirTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		declared, written string
		want              any
	}{
		"a text":                               {`{type: string}`, `a b`, "a b"},
		"one of a list":                        {`{type: string, oneOf: [a, b]}`, `b`, "b"},
		"one that matches":                     {`{type: string, pattern: "a|[b-d]+"}`, `bcd`, "bcd"},
		"several lines":                        {`{type: string, lines: true}`, `"a\n\tb"`, "a\n\tb"},
		"characters, not bytes":                {`{type: string, max: 3}`, `"äöü"`, "äöü"},
		"a whole number":                       {`{type: integer, min: -5, max: 5}`, `-5`, int64(-5)},
		"a number":                             {`{type: number, max: 1}`, `0.25`, 0.25},
		"a whole one as number":                {`{type: number}`, `3`, 3.0},
		"true":                                 {`{type: boolean}`, `true`, true},
		"a duration":                           {`{type: duration, min: 1s}`, `1h30m`, Duration(90 * time.Minute)},
		"a size":                               {`{type: size, min: 1MiB, max: 1GiB}`, `64MiB`, Size(64 << 20)},
		"a part of a size":                     {`{type: size}`, `1.5KiB`, Size(1536)},
		"a size in bytes":                      {`{type: size}`, `1000`, Size(1000)},
		"an address":                           {`{type: address}`, `FD00::5`, "fd00::5"},
		"a network":                            {`{type: cidr}`, `10.77.0.0/24`, "10.77.0.0/24"},
		"a port":                               {`{type: port}`, `65535`, int64(65535)},
		"a host name":                          {`{type: hostname}`, `broker.plant.example`, "broker.plant.example"},
		"a path":                               {`{type: path}`, `/var/lib/x`, "/var/lib/x"},
		"a list":                               {`{type: list, of: {type: port}, max: 2}`, `[1, 2]`, []any{int64(1), int64(2)}},
		"an empty list":                        {`{type: list, of: {type: port}}`, `[]`, []any{}},
		"a list of different names":            {`{type: list, unique: name, of: {type: object, keys: {name: {type: string}}}}`, `[{name: a}, {name: b}, {}, {}]`, []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}, map[string]any{"name": ""}, map[string]any{"name": ""}}},
		"a map":                                {`{type: map, of: {type: size}}`, `{a b: 1KiB}`, map[string]any{"a b": Size(1024)}},
		"an object":                            {`{type: object, keys: {a: {type: port, default: 7}, b: {type: string}}}`, `{b: x}`, map[string]any{"a": int64(7), "b": "x"}},
		"a secret":                             {`{type: secret}`, `{secretRef: a-1}`, Secret("a-1")},
		"a default":                            {`{type: duration, default: 5s}`, ``, Duration(5 * time.Second)},
		"the default of a key":                 {`{type: object, keys: {a: {type: port, default: 7}}}`, ``, map[string]any{"a": int64(7)}},
		"nothing":                              {`{type: string}`, ``, ""},
		"no number":                            {`{type: integer, min: 3}`, ``, int64(0)},
		"no list":                              {`{type: list, of: {type: string}, min: 1}`, ``, []any{}},
		"no secret":                            {`{type: secret}`, ``, Secret("")},
		"an object of which a key is required": {`{type: object, keys: {a: {type: port, required: true}}}`, ``, map[string]any{}},
		"keys that nobody wrote":               {`{type: list, of: {type: object, keys: {a: {type: size}, b: {type: string}}}}`, `[{b: x}]`, []any{map[string]any{"a": Size(0), "b": "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			keys := declared(t, "x: "+tc.declared)
			var said []string
			Check(keys, faults(&said))
			require.Empty(t, said)
			values := map[string]any{}
			if tc.written != "" {
				values = written(t, "x: "+tc.written)
			}
			read, ok := Read(keys, values, faults(&said))
			require.Empty(t, said)
			require.True(t, ok)
			require.Equal(t, tc.want, Complete(keys, read)["x"])

			text, err := json.Marshal(read)
			require.NoError(t, err)
			var back map[string]any
			require.NoError(t, json.Unmarshal(text, &back))
			again, ok := Read(keys, back, faults(&said))
			require.Empty(t, said)
			require.True(t, ok)
			require.Equal(t, read, again)
		})
	}
}

func TestAValueThatDoesNotFitSaysWhatToWrite(t *testing.T) {
	for name, tc := range map[string]struct{ declared, written, want string }{
		"a number for a text":           {`{type: string}`, `5`, `x: x is a number where a text belongs; put it into quotes`},
		"a list for a text":             {`{type: string}`, `[a]`, `x: x is a list where a text belongs; put it into quotes`},
		"several lines":                 {`{type: string}`, `"a\nb"`, `x: x "a\nb" has characters that do not belong there; write it in one line`},
		"a bell":                        {`{type: string, lines: true}`, `"a\ab"`, `x: x "a\ab" has characters that do not belong there; remove what no editor shows`},
		"a text that is too short":      {`{type: string, min: 2}`, `a`, `x: x has 1 character; write at least 2 characters`},
		"a text that is too long":       {`{type: string, max: 2}`, `abc`, `x: x has 3 characters; write at most 2 characters`},
		"a very long text":              {`{type: string}`, strings.Repeat("x", 70000), `x: x has 70000 bytes; write at most 65536`},
		"a text without the form":       {`{type: string, pattern: "[a-z]+"}`, `a1`, `x: x "a1" does not have the form that the role asks for; write what matches [a-z]+`},
		"a pattern holds the whole":     {`{type: string, pattern: "a|b"}`, `ab`, `x: x "ab" does not have the form that the role asks for; write what matches a|b`},
		"a word that there is not":      {`{type: string, oneOf: [always, never]}`, `no`, `x: x "no" is unknown; write always or never`},
		"a misspelt word":               {`{type: string, oneOf: [always, never]}`, `allways`, `x: x "allways" is unknown; did you mean "always"?`},
		"a text for a whole number":     {`{type: integer}`, `many`, `x: x is a text; write a whole number such as 1500`},
		"a part of a number":            {`{type: integer}`, `1.5`, `x: x is a number; write a whole number such as 1500`},
		"a number beyond JSON":          {`{type: integer}`, `9007199254740992`, `x: x is a number; write a whole number such as 1500`},
		"too small a number":            {`{type: integer, min: 1, max: 9}`, `0`, `x: x 0 is out of bounds; write 1 to 9`},
		"a number below":                {`{type: integer, min: 1}`, `0`, `x: x 0 is out of bounds; write 1 or more`},
		"a number above":                {`{type: number, max: 0.5}`, `0.75`, `x: x 0.75 is out of bounds; write 0.5 or less`},
		"a text for a number":           {`{type: number}`, `x`, `x: x is a text; write a number such as 0.5`},
		"yes":                           {`{type: boolean}`, `"yes"`, `x: x is a text; write true or false`},
		"a number for a duration":       {`{type: duration}`, `90`, `x: x is a number; write a duration such as 90s or 1h30m`},
		"a duration without a unit":     {`{type: duration}`, `"90"`, `x: x "90" is not a duration; write a number with ms, s, m or h, such as 90s or 1h30m`},
		"a duration of days":            {`{type: duration}`, `2d`, `x: x "2d" is not a duration; write a number with ms, s, m or h, such as 90s or 1h30m`},
		"time that runs back":           {`{type: duration}`, `-5s`, `x: x "-5s" is not a duration; write a number with ms, s, m or h, such as 90s or 1h30m`},
		"too long a duration":           {`{type: duration, min: 1s, max: 1m}`, `2m`, `x: x 2m0s is out of bounds; write 1s to 1m0s`},
		"MB":                            {`{type: size}`, `64MB`, `x: x "64MB" is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB`},
		"less than a byte":              {`{type: size}`, `1.0001KiB`, `x: x 1.0001KiB is not a whole number of bytes; write fewer digits behind the point`},
		"more than there is":            {`{type: size}`, `99999TiB`, `x: x 99999TiB is more than 8192TiB; write less`},
		"too large a size":              {`{type: size, max: 1GiB}`, `2GiB`, `x: x 2GiB is out of bounds; write 1GiB or less`},
		"a size below 0":                {`{type: size}`, `-1`, `x: x is a number; write a size such as 64MiB`},
		"a name for an address":         {`{type: address}`, `host`, `x: x "host" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`},
		"an address with a zone":        {`{type: address}`, `fe80::1%eth0`, `x: x "fe80::1%eth0" is not an IP address; write it as 10.77.0.5 or fd00::5, without prefix length`},
		"an address for a network":      {`{type: cidr}`, `10.77.0.0`, `x: x "10.77.0.0" is not a network; write it as 10.77.0.0/24 or fd00::/64`},
		"bits behind a prefix":          {`{type: cidr}`, `10.77.0.5/24`, `x: x "10.77.0.5/24" has bits behind its prefix; write 10.77.0.0/24`},
		"port 0":                        {`{type: port}`, `0`, `x: x 0 is out of bounds; write 1 to 65535`},
		"a text for a port":             {`{type: port}`, `http`, `x: x is a text; write a whole number from 1 to 65535`},
		"a port that is too low":        {`{type: port, min: 1024}`, `80`, `x: x 80 is out of bounds; write 1024 or more`},
		"a host name with a blank":      {`{type: hostname}`, `a b`, `x: x "a b" is not a host name; write lower-case letters, digits, - and dots between, such as broker.plant.example`},
		"a path from nowhere":           {`{type: path}`, `var/x`, `x: x "var/x" is not an absolute path; write one such as /var/lib/valkey`},
		"a path with dots":              {`{type: path}`, `/var/../etc`, `x: x "/var/../etc" is not in its shortest form; write /etc`},
		"a text for a list":             {`{type: list, of: {type: string}}`, `a`, `x: x is a text where a list belongs; write a list, one entry a line with a dash before it`},
		"an entry of another type":      {`{type: list, of: {type: integer}}`, `[1, a]`, `x.1: an entry of x is a text; write a whole number such as 1500`},
		"too few entries":               {`{type: list, of: {type: string}, min: 1}`, `[]`, `x: x has 0 entries; write at least 1 entry`},
		"too many entries":              {`{type: list, of: {type: string}, max: 1}`, `[a, b]`, `x: x has 2 entries; write at most 1 entry`},
		"a name twice":                  {`{type: list, unique: name, of: {type: object, keys: {name: {type: string}}}}`, `[{name: b}, {name: a}, {name: b}]`, `x.2.name: the name "b" is in the entries 1 and 3 of x; each entry has another one`},
		"a number twice":                {`{type: list, unique: id, of: {type: object, keys: {id: {type: integer}}}}`, `[{id: 1}, {id: 1}]`, `x.1.id: the id "1" is in the entries 1 and 2 of x; each entry has another one`},
		"a secret twice":                {`{type: list, unique: p, of: {type: object, keys: {p: {type: secret}}}}`, `[{p: {secretRef: a}}, {p: {secretRef: a}}]`, `x.1.p: the p "a" is in the entries 1 and 2 of x; each entry has another one`},
		"a list for a map":              {`{type: map, of: {type: string}}`, `[a]`, `x: x is a list where a mapping belongs; write lines of the form name: value below it, indented`},
		"a value of a map":              {`{type: map, of: {type: integer}}`, `{a: b}`, `x.a: a is a text; write a whole number such as 1500`},
		"too many in a map":             {`{type: map, of: {type: integer}, max: 0}`, `{a: 1}`, `x: x has 1 entry; write at most 0 entries`},
		"a key without a name":          {`{type: map, of: {type: integer}}`, `{"": 1}`, `x.: the key "" of x is not a name; write 1 to 253 characters in one line`},
		"a text for an object":          {`{type: object, keys: {b: {type: port}, a: {type: port}}}`, `x`, `x: x is a text where a mapping belongs; write its keys below it, indented: a, b`},
		"a key that an object has not":  {`{type: object, keys: {port: {type: port}}}`, `{prot: 1}`, `x.prot: unknown key "prot"; did you mean "port"?`},
		"a missing key":                 {`{type: object, keys: {port: {type: port, required: true}}}`, `{}`, `x: the key "port" is missing; add it and write a whole number from 1 to 65535`},
		"a literal secret":              {`{type: secret}`, `hunter2`, "x: x holds a literal secret; it would be readable in every image: write `x: {secretRef: NAME}` and put the secret into the bundle under NAME"},
		"a secret by another key":       {`{type: secret}`, `{ref: x}`, `x: x is not the name of a secret; write {secretRef: NAME}`},
		"a secret and more":             {`{type: secret}`, `{secretRef: x, y: z}`, `x: x is not the name of a secret; write {secretRef: NAME}`},
		"a secret with a capital":       {`{type: secret}`, `{secretRef: X}`, `x.secretRef: x: secretRef "X" is not the name of a bundle entry; write 1 to 63 lower-case letters, digits and -, such as valkey-password`},
		"a secret in a list of objects": {`{type: list, of: {type: object, keys: {p: {type: secret}}}}`, `[{p: y}]`, "x.0.p: p holds a literal secret; it would be readable in every image: write `p: {secretRef: NAME}` and put the secret into the bundle under NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := declared(t, "x: "+tc.declared)
			var said []string
			Check(keys, faults(&said))
			require.Empty(t, said)
			_, ok := Read(keys, written(t, "x: "+tc.written), faults(&said))
			require.False(t, ok)
			require.Equal(t, []string{tc.want}, said)
		})
	}
}

func TestKeysOfTheFile(t *testing.T) {
	var said []string
	_, ok := Read(declared(t, "{port: {type: port}, size: {type: size, required: true}}"), written(t, "{prot: 1, zzzzzzzz: 1}"), faults(&said))
	require.False(t, ok)
	require.Equal(t, []string{`prot: unknown key "prot"; did you mean "port"?`, `zzzzzzzz: unknown key "zzzzzzzz"; write port or size`, `: the key "size" is missing; add it and write a size such as 64MiB`}, said)
	said = nil
	_, ok = Read(nil, map[string]any{"a": "b"}, faults(&said))
	require.False(t, ok)
	require.Equal(t, []string{`a: unknown key "a"; the role has no settings: remove it`}, said)
}

func TestADeclarationThatIsWrongSaysWhatToWrite(t *testing.T) {
	for name, tc := range map[string]struct{ declared, want string }{
		"a name with a dash":             {`max-memory: {type: size}`, `max-memory: the key "max-memory" is not a name that a template can write; write 1 to 63 letters and digits, the first a lower-case letter, such as maxMemory`},
		"an unknown type":                {`x: {type: blob}`, `x.type: the type "blob" is unknown; write string, integer, number, boolean, duration, size, address, cidr, port, hostname, path, list, map, object or secret`},
		"a misspelt type":                {`x: {type: strnig}`, `x.type: the type "strnig" is unknown; did you mean "string"?`},
		"a pattern of a number":          {`x: {type: integer, pattern: a}`, `x.pattern: x is of the type integer, and pattern is for string; remove pattern`},
		"bounds of a boolean":            {`x: {type: boolean, min: 1}`, `x.min: x is of the type boolean, and min is for string, integer, number, port, size, duration, list or map; remove min`},
		"keys of a list":                 {`x: {type: list, keys: {a: {type: port}}}`, `x.keys: x is of the type list, and keys is for object; remove keys`},
		"unique of a text":               {`x: {type: string, unique: a}`, `x.unique: x is of the type string, and unique is for list; remove unique`},
		"unique of texts":                {`x: {type: list, unique: a, of: {type: string}}`, `x.unique: unique of x names a key, and its entries are of the type string; remove unique, or write of: {type: object, keys: …}`},
		"unique of a key misspelt":       {`x: {type: list, unique: nmae, of: {type: object, keys: {name: {type: string}}}}`, `x.unique: the entries of x have no key "nmae"; did you mean "name"?`},
		"unique of no key":               {`x: {type: list, unique: zzz, of: {type: object, keys: {name: {type: string}, a: {type: port}}}}`, `x.unique: the entries of x have no key "zzz"; write a or name`},
		"unique of lists":                {`x: {type: list, unique: a, of: {type: object, keys: {a: {type: list, of: {type: string}}}}}`, `x.unique: unique of x names a list; write a key with one value, such as a name`},
		"a list of nothing":              {`x: {type: list}`, `x: x is a list and does not say of what; add of: {type: string}`},
		"an object without keys":         {`x: {type: object}`, `x: x is an object without keys; add keys: {NAME: {type: string}}`},
		"a required entry":               {`x: {type: list, of: {type: string, required: true}}`, `x.of: an entry of x is always written; remove default and required`},
		"an unknown type of an entry":    {`x: {type: list, of: {type: blobs, of: {type: port}}}`, `x.of.type: the type "blobs" is unknown; write string, integer, number, boolean, duration, size, address, cidr, port, hostname, path, list, map, object or secret`},
		"an unknown type of a key":       {`x: {type: object, keys: {y: {type: prot}}}`, `x.keys.y.type: the type "prot" is unknown; did you mean "port"?`},
		"a min that is no number":        {`x: {type: integer, min: a}`, `x.min: min of x is not a whole number; write one such as 10`},
		"a min that is no size":          {`x: {type: size, min: 1MB}`, `x.min: min of x is not a size; write one such as 64MiB`},
		"a max that is no duration":      {`x: {type: duration, max: 5}`, `x.max: max of x is not a duration; write one such as 90s or 1h30m`},
		"a length below 0":               {`x: {type: string, min: -1}`, `x.min: min of x is not a whole number; write one such as 10`},
		"a min above max":                {`x: {type: size, min: 2MiB, max: 1MiB}`, `x.min: min of x is more than max; exchange them`},
		"a pattern that is none":         {`x: {type: string, pattern: "a("}`, "x.pattern: the pattern of x is not a regular expression: missing closing ): `a(`; write it as RE2 has it, such as [a-z]+"},
		"a pattern that closes ours":     {`x: {type: string, pattern: "a)|(b"}`, "x.pattern: the pattern of x is not a regular expression: unexpected ): `a)|(b`; write it as RE2 has it, such as [a-z]+"},
		"a long pattern":                 {`x: {type: string, pattern: "` + strings.Repeat("a", 1001) + `"}`, `x.pattern: the pattern of x has 1001 bytes; write at most 1000`},
		"no value at all":                {`x: {type: string, oneOf: []}`, `x.oneOf: x can have no value; write the values that it may have, or remove oneOf`},
		"a default of another type":      {`x: {type: integer, default: a}`, `x.default: the default of x is a text; write a whole number such as 1500`},
		"a default out of bounds":        {`x: {type: size, default: 1KiB, min: 1MiB}`, `x.default: the default of x 1KiB is out of bounds; write 1MiB or more`},
		"a default without the form":     {`x: {type: string, default: A, pattern: "[a-z]"}`, `x.default: the default of x "A" does not have the form that the role asks for; write what matches [a-z]`},
		"a default in a list":            {`x: {type: list, of: {type: port}, default: [80, x]}`, `x.default.1: an entry of the default of x is a text; write a whole number from 1 to 65535`},
		"a default that never counts":    {`x: {type: integer, default: 1, required: true}`, `x.default: x is required, so that its default never counts; remove one of the two`},
		"a secret by default":            {`x: {type: secret, default: {secretRef: a}}`, `x.default: the default of x names a secret; give the role one of its own under secrets`},
		"one in a list":                  {`x: {type: list, of: {type: secret}, default: [{secretRef: a}]}`, `x.default: the default of x names a secret; give the role one of its own under secrets`},
		"a control in a description":     {`x: {type: string, description: "a\x1b[2J"}`, `x.description: the description of x has a control character; write one line of words`},
		"a description of several lines": {"x: {type: string, description: \"a\\nb\"}", `x.description: the description of x has several lines; write one`},
		"objects without end":            {`x: ` + strings.Repeat("{type: list, of: ", 10) + "{type: port}" + strings.Repeat("}", 10), `x` + strings.Repeat(".of", 9) + `: ` + strings.Repeat("an entry of ", 9) + `x is inside of 9 others; at most 8 are read`},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			Check(declared(t, tc.declared), faults(&said))
			require.Equal(t, []string{tc.want}, said)
		})
	}
	var said []string
	keys := map[string]Type{}
	for i := range 201 {
		keys[fmt.Sprint("x", i)] = Type{Type: Port}
	}
	Check(keys, faults(&said))
	require.Equal(t, []string{": there are 201 keys; at most 200 are read"}, said)
}

func TestSecretsOfValues(t *testing.T) {
	require.Equal(t, []string{"a", "b", "c"}, Secrets(map[string]any{
		"x": Secret("a"), "y": []any{Secret("b"), map[string]any{"k": Secret("a")}, map[string]any{"k": Secret("c")}}, "z": Secret(""), "n": int64(1),
	}))
}

// FuzzRead holds that values are read, or refused with a text, and that what was read is read again from JSON.
func FuzzRead(f *testing.F) {
	keys := declared(f, `
a: {type: string, pattern: "[a-z]+"}
b: {type: integer, min: 1, max: 5}
c: {type: number}
d: {type: duration, max: 1h}
e: {type: size}
f: {type: list, unique: name, of: {type: object, keys: {name: {type: string}, secret: {type: secret}}}}
g: {type: map, of: {type: cidr}}
h: {type: port, default: 80}
i: {type: address}
j: {type: path}
k: {type: hostname}
l: {type: boolean}
`)
	for _, text := range []string{`a: x`, `{b: 3, c: 1e300, d: 59m, e: 1.5GiB}`, `f: [{name: a, secret: {secretRef: b}}]`, `g: {x: 10.0.0.0/8}`, `{h: 1, i: "::", j: /, k: a.b, l: true}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if yaml.Unmarshal([]byte(text), &v) != nil {
			return
		}
		values, ok := plain(v).(map[string]any)
		if !ok {
			return
		}
		var said []string
		read, ok := Read(keys, values, faults(&said))
		require.Equal(t, ok, len(said) == 0, said)
		if !ok {
			return
		}
		Complete(keys, read)
		data, err := json.Marshal(read)
		require.NoError(t, err)
		var back map[string]any
		require.NoError(t, json.Unmarshal(data, &back))
		again, ok := Read(keys, back, faults(&said))
		require.True(t, ok, said)
		require.Equal(t, read, again)
	})
}
