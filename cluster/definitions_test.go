package cluster

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	"spore/cluster/role"
)

// ownRole is a good folder with a role of the user's own.
func ownRole(t testing.TB) fstest.MapFS {
	files := goodFolder(t)
	require.NoError(t, fs.WalkDir(os.DirFS("../examples/own-valkey"), "roles", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(p, "valkey") {
			return err
		}
		data, err := os.ReadFile("../examples/own-valkey/" + p)
		files[p] = &fstest.MapFile{Data: data}
		return err
	}))
	return files
}

func TestARoleOfTheUsersOwnIsLoaded(t *testing.T) {
	c, report := Check(ownRole(t), Options{})
	require.Empty(t, serious(report))
	require.Len(t, c.Roles, 1)
	d := c.Roles[0]
	require.Equal(t, "valkey", d.Name)
	require.Equal(t, []string{"valkey-server.service"}, d.Units)
	require.Contains(t, d.Templates["valkey.conf.tmpl"], "requirepass")
	require.Equal(t, "64MiB", d.Settings["maxMemory"].Default)
	require.Equal(t, int64(6379), d.Settings["port"].Default)

	text, err := json.Marshal(d)
	require.NoError(t, err)
	var back role.Definition
	require.NoError(t, json.Unmarshal(text, &back))
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again), "a node reads what the builder wrote")
}

func TestAFolderOfARoleIsInTheClusterPartWhereItsServiceIsListed(t *testing.T) {
	files := ownRole(t)
	c, _ := Load(files)
	require.NotContains(t, c.Source(), "roles/valkey.yaml")
	c.Cluster.Services = append(c.Cluster.Services, "valkey")
	require.Equal(t, files["roles/valkey.yaml"].Data, c.Source()["roles/valkey.yaml"])
	require.Equal(t, files["roles/valkey/valkey.conf.tmpl"].Data, c.Source()["roles/valkey/valkey.conf.tmpl"])
}

func TestAPlaceInARole(t *testing.T) {
	c, _ := Load(ownRole(t))
	require.Equal(t, 5, c.At("roles/valkey.yaml", "packages").Line)
}

// settingsOf reads services/valkey.yaml by the role and returns what is wrong with it.
func settingsOf(t testing.TB, text string) (*role.Settings, string) {
	files := ownRole(t)
	c, report := Load(files)
	require.Empty(t, serious(report))
	files["services/valkey.yaml"] = &fstest.MapFile{Data: []byte(text)}
	l := &loader{fsys: files}
	settings := c.Roles[0].NewSettings()
	file := l.file("services/valkey.yaml", settings)
	k := &check.Checker{Cluster: &c.Cluster, File: c.cluster}
	settings.Check(k, file)
	return settings, serious(append(l.report, k.Report...).Sorted())
}

func TestSettingsOfARole(t *testing.T) {
	text, err := os.ReadFile("../examples/own-valkey/services/valkey.yaml")
	require.NoError(t, err)
	for name, tc := range map[string]struct{ text, want string }{
		"the example":   {string(text), `{"eviction":"noeviction","maxMemory":134217728,"port":6379,"save":"1m0s","users":[{"keys":"line-a:*","name":"line-a","password":{"secretRef":"valkey-line-a"}},{"keys":"device:*","name":"gateway","password":{"secretRef":"valkey-gateway"}}]}`},
		"an empty file": {"", `{"eviction":"noeviction","maxMemory":67108864,"port":6379,"save":"1m0s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			settings, wrong := settingsOf(t, tc.text)
			require.Empty(t, wrong)
			got, err := json.Marshal(settings)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
		})
	}
}

func TestSettingsOfARoleThatDoNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"an unknown key":                {"maxMemry: 1MiB\n", []string{`services/valkey.yaml:1:11: error: unknown key "maxMemry"; did you mean "maxMemory"?`}},
		"another type":                  {"port: http\n", []string{`services/valkey.yaml:1:7: error: port is a text; write a whole number from 1 to 65535`}},
		"too little":                    {"\nmaxMemory: 1KiB\n", []string{`services/valkey.yaml:2:12: error: maxMemory 1KiB is out of bounds; write 1MiB or more`}},
		"a missing key in a list":       {"users:\n  - name: a\n", []string{`services/valkey.yaml:2:5: error: the key "password" is missing; add it and write {secretRef: NAME}`}},
		"a literal password":            {"users:\n  - {name: a, password: hunter2}\n", []string{"services/valkey.yaml:2:15: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef", "services/valkey.yaml:2:25: error: password holds a literal secret; it would be readable in every image: write `password: {secretRef: NAME}` and put the secret into the bundle under NAME"}},
		"a key twice":                   {"port: 1\nport: 2\n", []string{`services/valkey.yaml:2:1: error: the key "port" is here twice, first in line 1; keep one of them`}},
		"a key without a value":         {"port:\n", []string{`services/valkey.yaml:1:6: error: port has no value; write one, or remove the key`}},
		"a date":                        {"eviction: 2026-01-01\n", []string{`services/valkey.yaml:1:11: error: eviction is a date; put it into quotes if it is a text`}},
		"a number with an underscore":   {"port: 6_379\n", []string{`services/valkey.yaml:1:7: error: port is not a whole number of at most 18 digits; write one such as 1500, without leading letters`}},
		"a number without end":          {"port: .inf\n", []string{`services/valkey.yaml:1:7: error: port is not a number that a file can hold; write one such as 0.5`}},
		"yes in another spelling":       {"port: True\n", []string{`services/valkey.yaml:1:7: error: port is true or false; write a whole number from 1 to 65535`}},
		"an anchor":                     {"port: &a 1\n", []string{`services/valkey.yaml:1:7: error: port uses an anchor or alias; write the value out`}},
		"an anchor in a list":           {"users: [&a {name: x}]\n", []string{`services/valkey.yaml:1:9: error: an entry of users uses an anchor or alias; write the value out`}},
		"a list":                        {"- a\n", []string{"services/valkey.yaml:1:1: error: the file is not a mapping; write keys with values, as in `spore init`"}},
		"a key of an object, misspelt":  {"users:\n  - {name: a, pasword: {secretRef: b}}\n", []string{`services/valkey.yaml:2:5: error: the key "password" is missing; add it and write {secretRef: NAME}`, `services/valkey.yaml:2:24: error: unknown key "pasword"; did you mean "password"?`}},
		"a name without the right form": {"users:\n  - {name: A, password: {secretRef: b}}\n", []string{`services/valkey.yaml:2:12: error: name "A" does not have the form that the role asks for; write what matches [a-z][a-z0-9-]{0,30}`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := settingsOf(t, tc.text)
			require.Equal(t, strings.Join(tc.want, "\n")+"\n", wrong)
		})
	}
}
