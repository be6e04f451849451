package jsonschema

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/cluster"
	"spore/cluster/role"
	"spore/cluster/role/setting"
)

// compiled is the schema of a role's settings, as a foreign validator reads it.
func compiled(t *testing.T, d *role.Definition) *jsonschema.Schema {
	t.Helper()
	text, err := Settings(d)
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("settings.json", v))
	s, err := c.Compile("settings.json")
	require.NoError(t, err)
	return s
}

// document is a YAML file as both sides read it.
func document(t *testing.T, text string) (any, map[string]any) {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	data, err := json.Marshal(v)
	require.NoError(t, err)
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	m, _ := v.(map[string]any)
	return out, m
}

// fine tells whether the settings fit their types.
func fine(d *role.Definition, values map[string]any) bool {
	_, ok := setting.Read(d.Settings, values, func([]any, string) {})
	return ok
}

func TestTheSettingsOfValkeyFollowTheirSchema(t *testing.T) {
	const folder = "../../../examples/own-valkey"
	c, _ := cluster.LoadDir(folder)
	require.Len(t, c.Roles, 2)
	s := compiled(t, c.Roles[1])
	data, err := os.ReadFile(folder + "/services/valkey.yaml")
	require.NoError(t, err)
	v, _ := document(t, string(data))
	require.NoError(t, s.Validate(v))
	for name, text := range map[string]string{
		"an unknown key":          "maxMemry: 1MiB\n",
		"a number for a text":     "eviction: 7\n",
		"another word":            "eviction: lru\n",
		"a size in another unit":  "maxMemory: 64MB\n",
		"a literal secret":        "users: [{name: a, password: hunter2}]\n",
		"a user without a secret": "users: [{name: a}]\n",
		"a name of another form":  "users: [{name: A, password: {secretRef: a}}]\n",
		"a port out of bounds":    "port: 70000\n",
	} {
		v, m := document(t, text)
		require.Error(t, s.Validate(v), name)
		require.False(t, fine(c.Roles[1], m), name)
	}
}

// What a type takes, its schema takes; of what it refuses, the schema refuses what the row says.
func TestEveryTypeHasASchema(t *testing.T) {
	const unseen = true // by an editor
	for _, tt := range []struct {
		declared    string
		good, wrong []string
		unseen      []string
	}{
		{"{type: string}", []string{`""`, "a", "ä b"}, []string{"1", "true", "[a]"}, []string{`"a\nb"`}},
		{"{type: string, min: 2, max: 3}", []string{"ab", "äöü"}, []string{"a", "abcd"}, nil},
		{"{type: string, pattern: 'a|b{2}'}", []string{"a", "bb"}, []string{"ab", "b"}, nil},
		{"{type: string, pattern: '(?i)a'}", []string{"A"}, nil, []string{"b"}},
		{`{type: string, pattern: '\pL+'}`, []string{"ä"}, nil, []string{`"1"`}},
		{`{type: string, pattern: '\{[a-z]{2}\}\.\d'}`, []string{`"{ab}.1"`}, []string{`"{a}.1"`}, nil},
		{"{type: string, pattern: 'a{'}", []string{`"a{"`}, nil, []string{"b"}},
		{"{type: string, oneOf: [a, b]}", []string{"a"}, []string{"c"}, nil},
		{"{type: string, lines: true}", []string{`"a\nb"`}, []string{"1"}, nil},
		{"{type: integer, min: -2, max: 5}", []string{"-2", "5"}, []string{"-3", "6", "1.5", "x"}, nil},
		{"{type: number, min: 0.5}", []string{"0.5", "7"}, []string{"0.4", "x"}, nil},
		{"{type: boolean}", []string{"true", "false"}, []string{`"yes"`, "1"}, nil},
		{"{type: duration, min: 1s}", []string{"1s", "1h30m", "1.5s"}, []string{"5", "1d", "-1s"}, []string{"1ms"}},
		{"{type: size, min: 1KiB}", []string{"1KiB", "1.5GiB", "4096"}, []string{"1MB", "-1", "12"},
			[]string{"9999999TiB"}},
		{"{type: address}", []string{"10.77.0.5", "fd00::5"}, []string{"5"}, []string{"10.77.0"}},
		{"{type: cidr}", []string{"10.77.0.0/24", "fd00::/64"}, []string{"10.77.0.0"}, []string{"10.77.0.1/24"}},
		{"{type: port}", []string{"1", "65535"}, []string{"0", "65536", `"80"`}, nil},
		{"{type: port, min: 1024}", []string{"1024"}, []string{"80"}, nil},
		{"{type: hostname}", []string{"broker.plant.example"}, []string{"1"}, []string{"-a"}},
		{"{type: path}", []string{"/var/lib/x"}, []string{"var"}, []string{"/var/../x"}},
		{"{type: list, of: {type: integer}, min: 1, max: 2}", []string{"[1]", "[1, 2]"},
			[]string{"[]", "[1, 2, 3]", "[a]", "1"}, nil},
		{"{type: list, unique: a, of: {type: object, keys: {a: {type: port}}}}", []string{"[{a: 1}, {a: 2}, {}]"},
			[]string{"[{b: 1}]"}, []string{"[{a: 1}, {a: 1}]"}},
		{"{type: map, of: {type: integer}, max: 1}", []string{"{}", "{a: 1}"},
			[]string{"{a: x}", "{a: 1, b: 2}", "[]"}, nil},
		{"{type: object, keys: {a: {type: string, required: true}, b: {type: port}}}", []string{"{a: x}", "{a: x, b: 1}"},
			[]string{"{}", "{a: x, c: 1}", "{b: 1}"}, nil},
		{"{type: secret}", []string{"{secretRef: valkey-password}"},
			[]string{"x", "{}", "{secretRef: A}", "{secretRef: a, b: c}"}, nil},
	} {
		t.Run(tt.declared, func(t *testing.T) {
			var typ setting.Type
			require.NoError(t, yaml.Unmarshal([]byte(tt.declared), &typ))
			d := &role.Definition{Name: "x", Settings: map[string]setting.Type{"key": typ}}
			setting.Check(d.Settings, func(_ []any, message string) { require.Fail(t, message) })
			s := compiled(t, d)
			check := func(values []string, good, seen bool) {
				for _, text := range values {
					v, m := document(t, "key: "+text+"\n")
					require.Equal(t, good, fine(d, m), text)
					require.Equal(t, seen, s.Validate(v) == nil, text)
				}
			}
			check(tt.good, true, true)
			check(tt.wrong, false, false)
			check(tt.unseen, false, unseen)
		})
	}
	for _, kind := range setting.Names {
		require.NotNil(t, of(&setting.Type{Type: kind}).Type, kind)
	}
}

func TestAnEmptyFileTakesTheDefaults(t *testing.T) {
	d := &role.Definition{Name: "x", Settings: map[string]setting.Type{"a": {Type: setting.String, Default: "<b>"}}}
	require.NoError(t, compiled(t, d).Validate(nil))
	text, err := Settings(d)
	require.NoError(t, err)
	require.Contains(t, string(text), `"default": "<b>"`)
	d.Settings["a"] = setting.Type{Type: setting.String, Required: true}
	require.Error(t, compiled(t, d).Validate(nil))
	d.Settings = nil
	require.Error(t, compiled(t, d).Validate(map[string]any{"a": "b"}))
}
