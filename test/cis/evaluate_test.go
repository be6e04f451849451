package cis

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestAConditionHolds(t *testing.T) {
	for _, tt := range []struct {
		name, condition string
		found           found
		want            bool
	}{
		{"a flag that is there", "test_items: [{flag: --a}]", found{words: []string{"--a=x"}}, true},
		{"a flag that is not there", "test_items: [{flag: --a}]", found{words: []string{"--ab=x"}}, false},
		{"a flag that must not be there", "test_items: [{flag: --a, set: false}]", found{words: []string{"--a"}}, false},
		{"a flag without a value is true", "test_items: [{flag: --a, compare: {op: eq, value: true}}]", found{words: []string{"--a"}}, true},
		{"another value", "test_items: [{flag: --a, compare: {op: eq, value: false}}]", found{words: []string{"--a=true"}}, false},
		{"not that value", "test_items: [{flag: --a, compare: {op: noteq, value: false}}]", found{words: []string{"--a=true"}}, true},
		{"a list that has it", "test_items: [{flag: --a, compare: {op: has, value: y}}]", found{words: []string{"--a=x,y"}}, true},
		{"a list that must not have it", "test_items: [{flag: --a, compare: {op: nothave, value: y}}]", found{words: []string{"--a=x,y"}}, false},
		{"enough", "test_items: [{flag: --a, compare: {op: gte, value: 30}}]", found{words: []string{"--a=30"}}, true},
		{"too little", "test_items: [{flag: --a, compare: {op: gte, value: 30}}]", found{words: []string{"--a=4"}}, false},
		{"allowed elements", "test_items: [{flag: --a, compare: {op: valid_elements, value: 'x,y,z'}}]", found{words: []string{"--a=z,x"}}, true},
		{"a foreign element", "test_items: [{flag: --a, compare: {op: valid_elements, value: 'x,y'}}]", found{words: []string{"--a=x,w"}}, false},
		{"one of two is not enough", "test_items: [{flag: --a}, {flag: --b}]", found{words: []string{"--a"}}, false},
		{"one of two is enough", "{bin_op: or, test_items: [{flag: --a}, {flag: --b}]}", found{words: []string{"--b"}}, true},
		{"a file says it", "test_items: [{flag: --a, path: '{.b.c1}', compare: {op: eq, value: 0}}]", found{config: json.RawMessage(`{"b":{"c1":0}}`)}, true},
		{"the command line is stronger", "test_items: [{flag: --a, path: '{.b}', compare: {op: eq, value: 0}}]", found{words: []string{"--a=1"}, config: json.RawMessage(`{"b":0}`)}, false},
		{"a list in a file", "test_items: [{flag: --a, path: '{range .b[:]}{}{'','' }{end}', compare: {op: valid_elements, value: 'x,y'}}]", found{config: json.RawMessage(`{"b":["x","y"]}`)}, true},
		{"a mode", "test_items: [{flag: permissions, compare: {op: bitmask, value: '600'}}]", found{lines: []string{"permissions=400"}}, true},
		{"a mode that is too wide", "test_items: [{flag: permissions, compare: {op: bitmask, value: '600'}}]", found{lines: []string{"permissions=640"}}, false},
		{"an owner", "test_items: [{flag: 'root:root'}]", found{lines: []string{"root:root"}}, true},
		{"another owner", "test_items: [{flag: 'root:root'}]", found{lines: []string{"etcd:etcd"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Check{ID: "x"}
			require.NoError(t, yaml.Unmarshal([]byte(tt.condition), &c.Tests))
			got, err := c.holds(tt.found)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestAConditionThatIsNotUnderstoodIsAnError(t *testing.T) {
	for want, condition := range map[string]string{
		"the list has no condition":    "{}",
		`comparison "like" is not`:     "test_items: [{flag: --a, compare: {op: like, value: x}}]",
		"has a form that is not known": "test_items: [{flag: --b, path: '{.b[0]}'}]",
		"invalid syntax":               "test_items: [{flag: --a, compare: {op: gte, value: 1}}]",
	} {
		var c Check
		require.NoError(t, yaml.Unmarshal([]byte(condition), &c.Tests))
		_, err := c.holds(found{words: []string{"--a=x"}, config: json.RawMessage("{}")})
		require.ErrorContains(t, err, want)
	}
}

func TestTheEditionIsThatOfTheNewestKubernetes(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	l, err := ReadList(fstest.MapFS{
		"cfg/config.yaml":        file(`{version_mapping: {"1.9": cis-1.24, "1.34": cis-1.12, "1.35-x": y, "gke-2.0": z}}`),
		"cfg/cis-1.12/node.yaml": file(`groups: [{checks: [{id: 1.10}, {id: 1.2}]}]`),
		"cfg/cis-1.24/node.yaml": file(`groups: [{checks: [{id: 9}]}]`),
	}, "v1")
	require.NoError(t, err)
	require.Equal(t, "cis-1.12", l.Edition)
	require.Equal(t, []string{"1.2", "1.10"}, []string{l.Checks[0].ID, l.Checks[1].ID})
	_, err = ReadList(fstest.MapFS{"cfg/config.yaml": file("{}")}, "v1")
	require.ErrorContains(t, err, "no edition for any version")
}

// What our nodes lose, the evaluation finds.
func TestALostSettingIsFound(t *testing.T) {
	dir, version, err := Module(".")
	require.NoError(t, err)
	list, err := ReadList(os.DirFS(dir), version)
	require.NoError(t, err)
	replace := func(program, old, with string) func(*Evidence) {
		return func(e *Evidence) {
			words := e.Master.Arguments[program]
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], old, with)
			}
		}
	}
	configFile := func(path, old, with string) func(*Evidence) {
		return func(e *Evidence) {
			e.Master.Configs[path] = json.RawMessage(strings.ReplaceAll(string(e.Master.Configs[path]), old, with))
		}
	}
	for _, tt := range []struct {
		name, want string
		change     func(*Evidence)
	}{
		{"profiling", "check 1.2.15", replace("kube-apiserver", "--profiling=false", "--profiling=true")},
		{"a program", "no node runs kube-scheduler", func(e *Evidence) { delete(e.Master.Arguments, "kube-scheduler") }},
		{"etcd's clients", "check 2.2", configFile("/run/etcd/config.json", `"client-cert-auth": true`, `"client-cert-auth": false`)},
		{"etcd's socket", "check 1.2.23 .*it applies now", func(e *Evidence) {
			e.Master.Files["/run/etcd"] = File{"755", "etcd:etcd"}
		}},
		{"etcd by TCP", "check 1.2.23 .*it applies now",
			replace("kube-apiserver", "unix:///run/etcd/client.sock", "https://10.77.0.1:2379")},
		{"encryption", "check 1.2.28", configFile("/run/kube-apiserver/encryption.json", `"secretbox"`, `"identity"`)},
		{"the bound of whoever has no name", "check 1.2.1 .*may ask for /api", configFile("/run/kube-apiserver/authentication.json", `"/livez"`, `"/api"`)},
		{"the audit of exec", "check 3.2.2", configFile("/run/kube-apiserver/audit-policy.json", `"level": "Metadata"`, `"level": "None"`)},
		{"the level of pod security", "check 5.2.1", configFile("/run/kube-apiserver/admission.json", `"enforce": "baseline"`, `"enforce": "privileged"`)},
		{"a mode", "check 1.1.15", func(e *Evidence) { e.Master.Files["/run/kube-scheduler/kubeconfig"] = File{"644", "root:root"} }},
		{"an owner", "check 1.1.19", func(e *Evidence) { e.Master.Files["/run/spore/secrets/etcd/x"] = File{"600", "etcd:etcd"} }},
		{"a pod manifest", "it applies now", configFile("/run/kubelet/config.json", `"readOnlyPort"`, `"staticPodPath": "/etc/x", "readOnlyPort"`)},
		{"a wide role", "check 5.1.2 .*may get/list/watch secrets", func(e *Evidence) {
			e.Objects = append(e.Objects, Object{"kind": "ClusterRole", "metadata": map[string]any{"name": "spore:cluster-dns"}, "rules": []any{
				map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"list"}},
			}})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := RenderedFrom(config, units)
			require.NoError(t, err)
			tt.change(&e)
			_, err = Evaluate(list, e)
			require.Error(t, err)
			require.Regexp(t, tt.want, err.Error())
		})
	}
}

func TestOnlyTheBindingsOfPeopleMayBeInTheNamespaceDefault(t *testing.T) {
	binding := func(name, role string) Evidence {
		return Evidence{Objects: []Object{{
			"kind": "RoleBinding", "metadata": map[string]any{"name": name, "namespace": "default"}, "roleRef": map[string]any{"name": role},
		}}}
	}
	require.NoError(t, nothingInDefault(binding("spore:admin", "admin")))
	require.Error(t, nothingInDefault(binding("spore:admin", "cluster-admin")))
	require.Error(t, nothingInDefault(binding("mine", "admin")))
}
