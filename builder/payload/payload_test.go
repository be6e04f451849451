package payload

import (
	"context"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
)

const hello = "package main\n\nfunc main() { println(\"hello\") }\n"

func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	for name, data := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
	return dir
}

func simple(t *testing.T) string {
	return module(t, map[string]string{"go.mod": "module example.test/hello\n\ngo 1.26.0\n", "go.sum": "", "main.go": hello})
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	return st
}

func TestAProgramIsCompiledOnce(t *testing.T) {
	dir, st := simple(t), newStore(t)
	started := map[string]bool{}
	o := Options{Env: os.Environ(), Report: func(p Progress) { started[p.Program] = true }}

	plan := o
	plan.Plan = true
	planned, err := Build(context.Background(), st, dir, plan)
	require.NoError(t, err)
	require.Len(t, planned, 1)
	require.Empty(t, started, "a plan makes nothing")
	require.False(t, st.Has(planned[0].Key))

	list, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.Len(t, list, 1)
	p := list[0]
	require.Equal(t, planned[0].Key, p.Key)
	require.Equal(t, "hello", p.Name)
	require.Equal(t, "/usr/bin/hello", p.Target)
	require.False(t, p.Cached)

	again, err := Build(context.Background(), st, dir, o)
	require.NoError(t, err)
	require.True(t, again[0].Cached)
	require.Equal(t, p.Path, again[0].Path)
	require.Equal(t, map[string]bool{"hello": true}, started)

	r, err := p.Content().Open()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	info, err := buildinfo.ReadFile(p.Path)
	require.NoError(t, err)
	require.Equal(t, info.GoVersion, p.Toolchain)
	require.Equal(t, "example.test/hello", info.Main.Path)
	require.Regexp(t, `^go1\.\d+(\.\d+)?$`, info.GoVersion, "experiments are those of the toolchain, no more and no less")

	run := filepath.Join(t.TempDir(), "hello")
	data, err := os.ReadFile(p.Path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(run, data, 0o755))
	out, err := exec.Command(run).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(out))
}

func TestTheSameModuleElsewhereGivesTheSameBytes(t *testing.T) {
	goenv := filepath.Join(t.TempDir(), "env")
	require.NoError(t, os.WriteFile(goenv, []byte("GOEXPERIMENT=nodwarf5\nGOAMD64=v2\nGOFLAGS=-race\n"), 0o600))
	var bytes [][]byte
	var keys []store.Key
	for _, env := range [][]string{
		os.Environ(),
		append(os.Environ(), "GOFLAGS=-ldflags=-X=main.a=b", "CGO_ENABLED=1", "GOAMD64=v3", "GOARCH=arm64", "GOMAXPROCS=1", "GOGC=50", "GOMEMLIMIT=1GiB", "TZ=Asia/Tokyo", "GOEXPERIMENT=nogreenteagc", "GOENV="+goenv),
	} {
		list, err := Build(context.Background(), newStore(t), simple(t), Options{Env: env})
		require.NoError(t, err)
		p := list[0]
		data, err := os.ReadFile(p.Path)
		require.NoError(t, err)
		bytes, keys = append(bytes, data), append(keys, p.Key)
	}
	require.Equal(t, keys[0], keys[1])
	require.Equal(t, bytes[0], bytes[1])
}

func TestKeys(t *testing.T) {
	base := map[string]string{"go.mod": "module m\n\ngo 1.26.0\n\ntoolchain go1.26.8\n", "go.sum": "", "main.go": hello}
	key := func(t *testing.T, change func(map[string]string), tags ...string) store.Key {
		files := map[string]string{}
		for k, v := range base {
			files[k] = v
		}
		change(files)
		dir := module(t, files)
		list, err := moduleFiles(dir, nil, ".")
		require.NoError(t, err)
		tg := target{name: "m", dir: dir, pkg: ".", files: list}
		toolchain, err := toolchainOf(context.Background(), tg, Options{Go: "/nonexistent"})
		require.NoError(t, err, "a go.mod that pins its toolchain needs no go command to be hashed")
		return tg.key(toolchain, tags)
	}
	want := key(t, func(map[string]string) {})
	for _, tt := range []struct {
		name   string
		change func(map[string]string)
		tags   []string
		same   bool
	}{
		{"nothing", func(map[string]string) {}, nil, true},
		{"a test", func(f map[string]string) { f["x_test.go"] = "package main" }, nil, true},
		{"test data", func(f map[string]string) { f["testdata/x"] = "1" }, nil, true},
		{"a hidden file", func(f map[string]string) { f[".x.swp"] = "1" }, nil, true},
		{"a source file", func(f map[string]string) { f["main.go"] += "\n" }, nil, false},
		{"a new file", func(f map[string]string) { f["sub/a.go"] = "package sub" }, nil, false},
		{"an embedded file", func(f map[string]string) { f["sub/a.txt"] = "1" }, nil, false},
		{"a sum", func(f map[string]string) { f["go.sum"] = "a" }, nil, false},
		{"the toolchain", func(f map[string]string) { f["go.mod"] = strings.Replace(f["go.mod"], "1.26.8", "1.26.9", 1) }, nil, false},
		{"a tag", func(map[string]string) {}, []string{"x"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := key(t, tt.change, tt.tags...)
			if tt.same {
				require.Equal(t, want, got)
			} else {
				require.NotEqual(t, want, got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	mod := "module example.test/hello\n\ngo 1.26.0\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no go.sum", map[string]string{"go.mod": mod, "main.go": hello}, []string{"payload hello", "go.sum"}},
		{"no go.mod", map[string]string{"go.sum": "", "main.go": hello}, []string{"payload hello", "go.mod"}},
		{"code that does not compile", map[string]string{"go.mod": mod, "go.sum": "", "main.go": "package main\nfunc main() { x }\n"}, []string{"program hello", "main.go:2:15: undefined: x"}},
		{"a library", map[string]string{"go.mod": mod, "go.sum": "", "main.go": "package lib\n"}, []string{"program hello", "is not a program"}},
		{"an import that is not pinned", map[string]string{"go.mod": mod, "go.sum": "", "main.go": "package main\nimport _ \"example.test/other\"\nfunc main() {}\n"}, []string{"cannot find module providing package example.test/other"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := newStore(t)
			_, err := Build(context.Background(), st, module(t, tt.files), Options{Env: os.Environ()})
			require.Error(t, err)
			for _, w := range tt.want {
				require.ErrorContains(t, err, w)
			}
			left, err := os.ReadDir(st.TempDir())
			require.NoError(t, err)
			require.Empty(t, left, "nothing half-written stays")
		})
	}
	t.Run("no go command", func(t *testing.T) {
		_, err := Build(context.Background(), newStore(t), simple(t), Options{Go: "/nonexistent/go"})
		require.ErrorContains(t, err, "is Go installed?")
	})
}

// The key of our own programs covers OwnDirs only, so nothing else of the tree may be compiled into them.
// Packages beside them that only tests use may have more.
func TestOurProgramsAreMadeOfOwnDirsOnly(t *testing.T) {
	list := func(args ...string) []string {
		cmd := exec.Command("go", append([]string{"list", "-f"}, args...)...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	programs := list(`{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./agent/...")
	require.Contains(t, programs, "spore/agent")
	for _, pkg := range list(append([]string{"{{if not .Standard}}{{.ImportPath}}{{end}}", "-deps"}, programs...)...) {
		rel, own := strings.CutPrefix(pkg, "spore/")
		if !own {
			continue
		}
		top, _, _ := strings.Cut(rel, "/")
		require.Contains(t, OwnDirs(), top, "%s is compiled into the agent", pkg)
	}
}

func TestOurOwnProgramIsBuiltFromTheTree(t *testing.T) {
	src := module(t, map[string]string{
		"go.mod": "module spore\n\ngo 1.26.0\n", "go.sum": "",
		"agent/main.go":    "package main\n\nimport \"spore/cluster/x\"\n\nfunc main() { println(x.X) }\n",
		"cluster/x/x.go":   "package x\n\nconst X = 1\n",
		"builder/build.go": "package builder\n",
	})
	st := newStore(t)
	p, err := BuildOwn(context.Background(), st, src, "agent", "spore-agent", Options{Env: os.Environ()})
	require.NoError(t, err)
	require.Equal(t, "spore-agent", p.Name)

	require.NoError(t, os.WriteFile(filepath.Join(src, "builder/build.go"), []byte("package builder // changed\n"), 0o644))
	again, err := BuildOwn(context.Background(), st, src, "agent", "spore-agent", Options{Env: os.Environ()})
	require.NoError(t, err)
	require.True(t, again.Cached, "a change of the builder costs no new agent")

	require.NoError(t, os.WriteFile(filepath.Join(src, "cluster/x/x.go"), []byte("package x\n\nconst X = 2\n"), 0o644))
	changed, err := BuildOwn(context.Background(), st, src, "agent", "spore-agent", Options{Env: os.Environ()})
	require.NoError(t, err)
	require.False(t, changed.Cached)
}

func TestTheInstalledToolchainIsWhatTheGoCommandSays(t *testing.T) {
	cmd := exec.Command("go", "env", "GOVERSION")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOTOOLCHAIN=local", "GOENV=off", "GOWORK=off")
	out, err := cmd.Output()
	require.NoError(t, err)
	version := strings.TrimSpace(string(out))
	for mod, want := range map[string]string{
		"module m\n\ngo 1.21.0\n":                  version,
		"module m\n\ngo " + version[2:] + "\n":     version,
		"module m\n\ngo 1.999.0\n":                 "", // another is fetched
		"module m\n":                               "",
		"module m\n\ngo one\n":                     "",
		"module m\n\ngo 1.21.0\n\nunknown x y z\n": version,
	} {
		require.Equal(t, want, installed("go", []byte(mod)), mod)
	}
	require.Empty(t, installed("/bin/sh", []byte("module m\n\ngo 1.21.0\n")), "not the go command")
	require.Empty(t, installed("no-such-command", nil))
}
