package initialize

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/schema"
	"spore/cluster"
	"spore/cluster/check"
	"spore/cluster/role"
)

// edge is a new folder of the example edge.
func edge(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plant")
	_, err := Write(dir, "edge", rand.Reader)
	require.NoError(t, err)
	return dir
}

// edit replaces a text of a file, which is in it once.
func edit(t *testing.T, name, old, fresh string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(data), old), old)
	require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(data), old, fresh, 1)), 0o644))
}

// withRole gives the role to the first node, as spore init says.
func withRole(t *testing.T, dir, name string) {
	t.Helper()
	file := filepath.Join(dir, "cluster.yaml")
	edit(t, file, "services: [mqtt, dns]", "services: [mqtt, dns, "+name+"]")
	edit(t, file, "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, "+name+"]")
}

func TestASkeletonOfARoleIsValidAfterTheTwoEditsThatAreNamed(t *testing.T) {
	dir := edge(t)
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{dir, "--role", "historian"})
	require.Equal(t, exit.OK, exit.Run(context.Background(), cmd))
	in := func(name string) string { return filepath.Join(dir, name) }
	require.Equal(t, strings.Join([]string{
		in(".schema/services/historian.json"), in("roles/historian.yaml"), in("roles/historian/historian.conf.tmpl"),
		in("services/historian.yaml"), in("units/historian.service"),
		"edit " + in("roles/historian.yaml") + ", and in " + in("cluster.yaml") + ":",
		"  add historian to services",
		"  add historian to the roles of each node that runs it",
		"then: spore validate " + dir, "",
	}, "\n"), out.String())

	_, report := cluster.Check(os.DirFS(dir), cluster.Options{})
	require.False(t, report.Failed(), "the folder is valid before the edits: %s", report)
	withRole(t, dir, "historian")
	c, report := cluster.Check(os.DirFS(dir), cluster.Options{Strict: true})
	require.False(t, report.Failed(), report.String())
	require.Equal(t, []string{"historian"}, c.List().OwnNames())
	require.Equal(t, []string{"historian.service"}, c.RoleUnits())
	_, err := cluster.Compile(c)
	require.NoError(t, err)
	for _, name := range []string{"roles/historian.yaml", "units/historian.service", "services/historian.yaml",
		"roles/historian/historian.conf.tmpl"} {
		data, err := os.ReadFile(in(name))
		require.NoError(t, err)
		require.NotContains(t, string(data), skeletonName)
	}
}

func TestARoleIsWrittenOverNothing(t *testing.T) {
	for _, there := range []string{"roles/line.yaml", "roles/line/line.conf.tmpl", "units/line.service", "services/line.yaml"} {
		t.Run(there, func(t *testing.T) {
			dir := edge(t)
			mine := filepath.Join(dir, there)
			require.NoError(t, os.MkdirAll(filepath.Dir(mine), 0o755))
			require.NoError(t, os.WriteFile(mine, []byte("mine\n"), 0o644))
			_, err := WriteRole(dir, "line")
			require.EqualError(t, err, mine+" exists already and is not overwritten; name another role")
			data, err := os.ReadFile(mine)
			require.NoError(t, err)
			require.Equal(t, "mine\n", string(data))
			for _, other := range []string{"roles/line.yaml", "units/line.service", ".schema/services/line.json"} {
				if other != there {
					require.NoFileExists(t, filepath.Join(dir, other))
				}
			}
		})
	}
}

func TestNamesThatNoRoleCanHave(t *testing.T) {
	dir := edge(t)
	const form = "write 2 to 32 lower-case letters, digits and -, the first a letter"
	for name, want := range map[string]string{
		"":                      `"" is not the name of a role; ` + form,
		"../x":                  `"../x" is not the name of a role; ` + form,
		"Line":                  `a role cannot be called "Line": "Line" is not the name of a role; ` + form,
		"a\nb: c":               `is not the name of a role; ` + form,
		"mqtt":                  `a role cannot be called "mqtt": the name "mqtt" belongs to the service mqtt`,
		"control-plane":         `a role cannot be called "control-plane": the name "control-plane" belongs to the service kubernetes`,
		"multi-user":            `a role cannot be called "multi-user": the name "multi-user" is of the node itself, which has a unit or target of it`,
		"spore-late":            `the name "spore-late" is of the node itself`,
		"daemon":                `the user "daemon" is of the node itself`,
		strings.Repeat("a", 32): `is not the name of a user; write 1 to 31 lower-case letters`,
	} {
		_, err := WriteRole(dir, name)
		require.ErrorContains(t, err, want, name)
		require.NotContains(t, err.Error(), "rename the file")
	}
	require.NoDirExists(t, filepath.Join(dir, "roles"))

	empty := t.TempDir()
	_, err := WriteRole(empty, "line")
	require.EqualError(t, err, empty+" has no cluster.yaml; name a configuration folder, or make one with `spore init`")
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries)

	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{dir, "--role", "line", "--example", "edge"})
	require.Equal(t, exit.Misuse, exit.Run(context.Background(), cmd))
	cmd.SetArgs([]string{empty, "--role", "line"})
	require.Equal(t, exit.Misuse, exit.Run(context.Background(), cmd), "--example stays given")
}

// unused is a line with a key that the skeleton does not use.
var unused = regexp.MustCompile(`(?m)^( *)#([a-zA-Z-])`)

// alternatives are keys of health beside port: one of them is asked.
var alternatives = regexp.MustCompile(`(?m)^ *#(command|http|journal): .*\n`)

// everyKey is the definition of the skeleton with all keys that it does not use.
func everyKey(t *testing.T) string {
	data, err := skeletons.ReadFile("skeleton/roles/my-role.yaml")
	require.NoError(t, err)
	return unused.ReplaceAllString(string(data), "$1$2")
}

func TestTheSkeletonShowsEveryKeyOfARole(t *testing.T) {
	d := yaml.NewDecoder(strings.NewReader(everyKey(t)))
	d.KnownFields(true)
	var all role.Definition
	require.NoError(t, d.Decode(&all), "each key of the skeleton is one of role.Definition")
	shown := map[string]bool{}
	visit(reflect.ValueOf(all), func(typ reflect.Type, key string, written bool) {
		name := typ.Name() + "." + key
		shown[name] = shown[name] || written
	})
	var missing []string
	for name, is := range shown {
		if !is {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	require.Empty(t, missing, "add them to skeleton/roles/my-role.yaml")
	require.Greater(t, len(shown), 50)
}

// visit calls f for each key of a value and of all that it holds.
func visit(v reflect.Value, f func(typ reflect.Type, key string, written bool)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), f)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			visit(v.MapIndex(key), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if key == "" || key == "-" {
				continue
			}
			f(v.Type(), key, !v.Field(i).IsZero())
			visit(v.Field(i), f)
		}
	}
}

// What the comments of the skeleton say can be used: but for what another file has to name first.
func TestEveryKeyOfTheSkeletonCanBeUsed(t *testing.T) {
	dir := edge(t)
	_, err := WriteRole(dir, skeletonName)
	require.NoError(t, err)
	withRole(t, dir, skeletonName)
	data, err := skeletons.ReadFile("skeleton/roles/my-role.yaml")
	require.NoError(t, err)
	text := unused.ReplaceAllString(alternatives.ReplaceAllString(string(data), ""), "$1$2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "roles", "my-role.yaml"), []byte(text), 0o644))
	_, report := cluster.Check(os.DirFS(dir), cluster.Options{})
	var left []string
	for _, p := range report {
		elsewhere := strings.Contains(p.Message, "programs/ has no program") ||
			strings.Contains(p.Message, "write nodes/edge-01.yaml with disks")
		if p.Severity == check.Error && !elsewhere {
			left = append(left, p.Message)
		}
	}
	require.Equal(t, []string{`the units run as the user my-role, and as root: both cannot be; remove user, or name under ` +
		`capabilities what they need`}, left)
}

// Editors find nothing wrong with the files, nor with any key that is taken into use.
func TestTheSkeletonFollowsItsSchemas(t *testing.T) {
	dir := edge(t)
	_, err := WriteRole(dir, skeletonName)
	require.NoError(t, err)
	withRole(t, dir, skeletonName)
	settings, err := os.ReadFile(filepath.Join(dir, "services", "my-role.yaml"))
	require.NoError(t, err)
	cluster, err := os.ReadFile(filepath.Join(dir, "cluster.yaml"))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"roles/my-role.yaml": everyKey(t), "cluster.yaml": string(cluster),
		"services/my-role.yaml": unused.ReplaceAllString(string(settings), "$1$2"),
	} {
		m := modeline.FindStringSubmatch(text)
		require.NotNil(t, m, name)
		s, err := jsonschema.NewCompiler().Compile(filepath.Join(dir, filepath.Dir(name), m[1]))
		require.NoError(t, err)
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(text), &v))
		require.NoError(t, s.Validate(v), name)
	}
}

var modeline = regexp.MustCompile(`^# yaml-language-server: \$schema=(\S+)\n`)

func TestTheSchemaOfTheSkeletonIsThatOfTheCommand(t *testing.T) {
	dir := edge(t)
	_, err := WriteRole(dir, "line")
	require.NoError(t, err)
	c, _ := cluster.LoadDir(dir)
	written, err := schema.Write(dir, c.Roles)
	require.NoError(t, err)
	require.Empty(t, written)

	require.NoError(t, os.Remove(filepath.Join(dir, ".schema", "role.json")))
	names, err := WriteRole(dir, "other")
	require.NoError(t, err)
	require.Equal(t, []string{".schema/role.json", ".schema/services/other.json"}, names[:2], "a folder of an older version")
}
