package payload

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPayloadSaysWhichProgramsItHas(t *testing.T) {
	dir, st := module(t, map[string]string{
		"go.mod":        "module example.test/hello\n\ngo 1.26.0\n",
		"go.sum":        "",
		"main.go":       "package main\n\nvar version, kind string\n\nfunc main() { println(version, kind) }\n",
		"other/main.go": "//go:build wanted\n\npackage main\n\nfunc main() { println(\"other\") }\n",
		"payload.yaml": `programs:
  - path: /usr/bin/multi
    links: [/usr/bin/one, /usr/lib/two]
    variables: {main.version: v1, main.kind: short}
  - package: ./other
    path: /usr/bin/other
    tags: [wanted]
`,
	}), newStore(t)
	o := Options{Env: os.Environ()}
	list, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "hello/multi", list[0].Name)
	require.Equal(t, "hello", list[0].Payload)
	require.Equal(t, "/usr/bin/multi", list[0].Target)
	require.Equal(t, []string{"/usr/bin/one", "/usr/lib/two"}, list[0].Links)
	require.Equal(t, "/usr/bin/other", list[1].Target)
	for i, want := range []string{"v1 short\n", "other\n"} {
		run := filepath.Join(t.TempDir(), "program")
		data, err := os.ReadFile(list[i].Path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(run, data, 0o755))
		out, err := exec.Command(run).CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}

	changed, err := os.ReadFile(filepath.Join(dir, DescriptionFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, DescriptionFile), append(changed, "    links: [/usr/bin/more]\n"...), 0o644))
	again, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/more"}, again[1].Links)
	require.True(t, again[1].Cached, "another link is no other program")
}

func TestADescriptionIsChecked(t *testing.T) {
	const mod = "module m\n\ngo 1.26.0\n\nrequire example.test/a v1.2.3\n"
	for name, tc := range map[string]struct{ in, err string }{
		"a version of go.mod":          {"version: example.test/a\nprograms: [{path: /usr/bin/a}]", ""},
		"a version that no module has": {"version: v3.31.0\nprograms: [{path: /usr/bin/a}]", ""},
		"a version of no module":       {"version: example.test/b\nprograms: [{path: /usr/bin/a}]", "go.mod does not require example.test/b"},
		"nothing":                      {"", "it lists no programs"},
		"a key that is none":           {"programs: [{file: /usr/bin/a}]", "field file not found"},
		"a path that leads elsewhere":  {"programs: [{path: /usr/../a}]", "not a clean absolute path"},
		"a relative link":              {"programs: [{path: /usr/bin/a, links: [b]}]", "not a clean absolute path"},
		"a package that is a flag":     {"programs: [{path: /a, package: -toolexec=x}]", "not a clean import path"},
		"a package that leads outside": {"programs: [{path: /a, package: ../b}]", "not a clean import path"},
		"a variable of go.mod":         {"programs: [{path: /a, variables: {main.v: '{example.test/a}'}}]", ""},
		"a variable of no module":      {"programs: [{path: /a, variables: {main.v: '{example.test/b}'}}]", "go.mod does not require example.test/b"},
		"a value with flags":           {"programs: [{path: /a, variables: {main.v: 'x -w'}}]", "the linker cannot set it"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := parseDescription([]byte(tc.in), []byte(mod))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, d.Programs[0].Package)
		})
	}
}

func FuzzDescription(f *testing.F) {
	f.Add("programs: [{path: /usr/bin/a, variables: {main.v: '{m}'}}]")
	f.Fuzz(func(t *testing.T, in string) {
		d, err := parseDescription([]byte(in), []byte("module m\n"))
		if err != nil {
			return
		}
		for _, p := range d.Programs {
			require.True(t, filepath.IsAbs(p.Path))
		}
	})
}
