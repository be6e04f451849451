// Package payload makes the programs of an image that are not Debian packages: what payloads/ pins, one Go module with
// go.mod and go.sum or one set of jars with pom.xml and pom.sum each, and our own agent and stage1.
//
// A compiled program is a function of its module's files, the Go toolchain and the flags. It is kept in the store under
// their hash, so that pins which have not changed cost reading a few small files. Every module that the compiler sees is
// verified against go.sum by the go command. Jars come through Maven and are verified against pom.sum here. This package
// does not fetch release binaries, and it compiles neither C nor Java.
package payload

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	goversion "go/version"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"spore/builder/stamp"
	"spore/builder/store"
	"spore/builder/tree"
)

// version is part of each key; it changes when the flags or the environment below do.
const version = "go-program 3"

// flags are what every program is built with: nothing of the build machine reaches the output.
var flags = []string{"build", "-trimpath", "-buildvcs=false"}

// stripped tells the linker to leave out symbols and debug information.
const stripped = "-s -w"

// maxOutput bounds how much of the compiler's output goes into an error, in bytes.
const maxOutput = 4096

// Options says how to compile.
type Options struct {
	// Go is the go command; "go" when empty.
	Go string
	// Maven is the command of Maven; "mvn" when empty. Only a payload of jars needs it.
	Maven string
	// Env is the environment, as of os.Environ, that the go command finds its caches and its proxy in, and Maven its
	// settings. Whatever would change a compiled program is replaced.
	Env []string
	// Tags are build tags.
	Tags []string
	// Plan has nothing made: programs come with names, versions and keys, and Size and Path say nothing.
	Plan bool
	// Hashes remembers the hashes of source files; nil reads them all.
	Hashes *stamp.Hashes
	// Started is called when a program, or a set of jars, is not in the store and the compiler, or Maven, starts; it may
	// be nil.
	Started func(name string)
}

// Program is a file of a payload in the store: a compiled program, a jar, or what lies beside the jars.
type Program struct {
	// Name tells it apart in messages: the name of the payload, with its file behind a slash where there are several.
	Name string
	// Payload is the payload that it belongs to; empty for our own.
	Payload string
	// Version is the version of the module that the payload is named after, empty where payload.yaml names none; a jar's is
	// its own.
	Version string
	// Artifact is what a jar is in a Maven repository, nil for what is none.
	Artifact *Artifact
	// Compiled tells programs, which carry the list of their modules, from all else.
	Compiled bool
	// Toolchain is the version of Go that compiles a program.
	Toolchain string
	// Mode holds the permission bits.
	Mode uint32
	// Target is its path in the image.
	Target string
	// Links are further paths that lead to it: it does what the name says that it is called by.
	Links []string
	// Sources are the files that it was made of, beside the modules or jars that these name.
	Sources Sources
	// Key names it in the store.
	Key store.Key
	// Path is its file in the store.
	Path string
	// Size is in bytes.
	Size int64
	// Cached is true when nothing had to be compiled or asked for.
	Cached bool
}

// Sources are the files of a payload's folder, or of our own tree.
type Sources struct {
	// Payload is the name of the payload's folder, empty for our own.
	Payload string
	// Hash is the Go command's hash over the hashes of the files (golang.org/x/mod/sumdb/dirhash, Hash1), as hexadecimal.
	Hash string
}

// Content is the program as the content of a file of the tree.
func (p Program) Content() tree.Content { return fileContent{p.Path, p.Size} }

type fileContent struct {
	path string
	size int64
}

func (f fileContent) Size() int64                  { return f.size }
func (f fileContent) Open() (io.ReadCloser, error) { return os.Open(f.path) }

// Build makes the programs of a payload, which is named after its directory under payloads/. Where that has a pom.xml, they
// are jars. Else it is the root of a Go module, and they are what payload.yaml lists, or the module's one main package as
// /usr/bin/NAME.
func Build(ctx context.Context, st *store.Store, dir string, o Options) ([]Program, error) {
	name := filepath.Base(dir)
	if exists(os.DirFS(dir), PomFile) {
		out, err := buildJars(ctx, st, dir, o)
		if err != nil {
			return nil, fmt.Errorf("payload %s: %w", name, err)
		}
		return out, nil
	}
	files, err := moduleFiles(dir, o.Hashes, ".")
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", name, err)
	}
	d, err := describe(dir)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", name, err)
	}
	sources := Sources{name, listHash(files)}
	// What it says of a program is in the program's key; how the program is called is not.
	files = slices.DeleteFunc(files, func(f file) bool { return f.path == DescriptionFile })
	var out []Program
	for _, row := range d.Programs {
		t := target{name: name, dir: dir, pkg: row.Package, files: files, variables: row.Variables}
		if len(d.Programs) > 1 {
			t.name += "/" + filepath.Base(row.Path)
		}
		po := o
		po.Tags = append(append([]string{}, o.Tags...), row.Tags...)
		p, err := build(ctx, st, t, po)
		if err != nil {
			return nil, err
		}
		p.Payload, p.Version, p.Target, p.Links, p.Sources = name, d.Version, row.Path, row.Links, sources
		out = append(out, p)
	}
	return out, nil
}

// OwnDirs are the directories of the source tree that programs of the image are made of; the builder is not among them.
func OwnDirs() []string {
	return []string{"agent", "blank", "cluster", "disk", "fat", "flash", "gpt", "nodeapi", "pki", "update"}
}

// BuildOwn compiles a main package of our own source tree, such as "agent" or "agent/stage1", under the given name. The
// key is made of go.mod, go.sum and everything in OwnDirs but tests.
func BuildOwn(ctx context.Context, st *store.Store, source, pkg, name string, o Options) (Program, error) {
	files, err := moduleFiles(source, o.Hashes, OwnDirs()...)
	if err != nil {
		return Program{}, fmt.Errorf("program %s: %w", name, err)
	}
	p, err := build(ctx, st, target{name: name, dir: source, pkg: "./" + pkg, files: files}, o)
	p.Sources.Hash = listHash(files)
	return p, err
}

// target is one main package with the files that its key is made of.
type target struct {
	name, dir, pkg string
	files          []file
	// variables are set by the linker (cmd/link -X).
	variables map[string]string
}

// linkerFlags are those of the go command's -ldflags, with the variables in a fixed order.
func (t target) linkerFlags() string {
	out := stripped
	for _, name := range slices.Sorted(maps.Keys(t.variables)) {
		out += " -X " + name + "=" + t.variables[name]
	}
	return out
}

func build(ctx context.Context, st *store.Store, t target, o Options) (Program, error) {
	if o.Go == "" {
		o.Go = "go"
	}
	toolchain, err := toolchainOf(ctx, t, o)
	if err != nil {
		return Program{}, fmt.Errorf("program %s: %w", t.name, err)
	}
	key := t.key(toolchain, o.Tags)
	cached := st.Has(key)
	p := Program{Name: t.name, Compiled: true, Toolchain: toolchain, Mode: 0o755, Target: "/usr/bin/" + t.name, Key: key, Path: st.Path(key), Cached: cached}
	if o.Plan {
		return p, nil
	}
	if !cached {
		if o.Started != nil {
			o.Started(t.name)
		}
		err := st.Put(key, func(w *os.File) error { return compile(ctx, st, w, t, toolchain, o) })
		if err != nil {
			return Program{}, fmt.Errorf("program %s: %w", t.name, err)
		}
	}
	info, err := os.Stat(st.Path(key))
	if err != nil {
		return Program{}, fmt.Errorf("program %s: %w", t.name, err)
	}
	p.Size = info.Size()
	return p, nil
}

// key hashes all that decides about the output.
func (t target) key(toolchain string, tags []string) store.Key {
	in := []string{t.name, t.pkg, toolchain, strings.Join(flags, " "), t.linkerFlags(), strings.Join(tags, ","), strings.Join(fixedEnv(toolchain), "\n")}
	for _, f := range t.files {
		in = append(in, f.path, f.hash)
	}
	return store.KeyOf(version, in...)
}

// toolchainOf is the Go version that compiles the program: the toolchain line of go.mod, else what the go command is.
func toolchainOf(ctx context.Context, t target, o Options) (string, error) {
	mod, err := os.ReadFile(filepath.Join(t.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	if v := toolchainLine(mod); v != "" {
		return v, nil
	}
	if v := installed(o.Go, mod); v != "" {
		return v, nil
	}
	cmd := exec.CommandContext(ctx, o.Go, "env", "GOVERSION")
	cmd.Dir, cmd.Env = t.dir, kept(o.Env)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version (is Go installed?): %w", o.Go, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// installed is the version of the go command, where that is new enough for a go.mod to be compiled by it; else empty. It is
// read from the program's own file: to run it takes a third of the time of a build that finds everything in the store.
func installed(command string, mod []byte) string {
	file, err := exec.LookPath(command)
	if err != nil {
		return ""
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil || info.Path != "cmd/go" || !goversion.IsValid(info.GoVersion) {
		return "" // a script that leads to one, or a version of its developers
	}
	wanted, err := modfile.ParseLax("go.mod", mod, nil)
	if err != nil || wanted.Go == nil || goversion.Compare(info.GoVersion, "go"+wanted.Go.Version) < 0 {
		return ""
	}
	return info.GoVersion
}

// toolchainLine finds the toolchain directive of a go.mod (go.dev/ref/mod#go-mod-file-toolchain).
func toolchainLine(mod []byte) string {
	for _, line := range strings.Split(string(mod), "\n") {
		line, _, _ = strings.Cut(line, "//")
		if f := strings.Fields(line); len(f) == 2 && f[0] == "toolchain" && f[1] != "default" {
			return f[1]
		}
	}
	return ""
}

// compile runs the go command in a directory of the store's own and copies what it made to w.
func compile(ctx context.Context, st *store.Store, w io.Writer, t target, toolchain string, o Options) error {
	tmp, err := os.MkdirTemp(st.TempDir(), "go-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "program")
	args := append(append([]string{}, flags...), "-ldflags", t.linkerFlags(), "-o", out)
	if len(o.Tags) > 0 {
		args = append(args, "-tags", strings.Join(o.Tags, ","))
	}
	cmd := exec.CommandContext(ctx, o.Go, append(args, t.pkg)...)
	from, err := places(ctx, tmp, o)
	if err != nil {
		return err
	}
	cmd.Dir, cmd.Env = t.dir, append(from, fixedEnv(toolchain)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s in %s: %w: %s", t.pkg, t.dir, err, tail(log.Bytes()))
	}
	if err := checkStatic(out); err != nil {
		return err
	}
	f, err := os.Open(out)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// tail is the end of the compiler's output, where the errors are.
func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxOutput {
		b = append([]byte("…"), b[len(b)-maxOutput:]...)
	}
	return string(b)
}

// checkStatic makes sure that the program needs no loader: nothing says which libraries the image will have.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("what go build made is no program: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("internal error: the program is linked dynamically")
		}
	}
	return nil
}

// kept is the part of an environment that keptEnv names.
func kept(base []string) []string {
	var env []string
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if keptEnv[name] {
			env = append(env, kv)
		}
	}
	return env
}

// askedFor are settings that can stand in the user's GOENV file and are needed to find modules.
var askedFor = []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE", "GOAUTH"}

// places is the environment in which the go command finds its caches and its modules as the user set them.
func places(ctx context.Context, dir string, o Options) ([]string, error) {
	cmd := exec.CommandContext(ctx, o.Go, append([]string{"env", "-json"}, askedFor...)...)
	cmd.Dir, cmd.Env = dir, append(kept(o.Env), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its settings (is Go installed?): %w", o.Go, err)
	}
	var values map[string]string
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("ask %s for its settings: %w", o.Go, err)
	}
	env := kept(o.Env)
	for _, name := range askedFor {
		if v := values[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env, nil
}

// keptEnv is what the go command needs to find its caches and its modules; none of it can change what a module that
// go.sum names contains.
var keptEnv = map[string]bool{
	"HOME": true, "PATH": true, "TMPDIR": true, "USER": true, "XDG_CACHE_HOME": true, "XDG_CONFIG_HOME": true,
	"GOROOT": true, "GOPATH": true, "GOCACHE": true, "GOMODCACHE": true, "GOTMPDIR": true, "GOENV": true, "GOMAXPROCS": true,
	"GOPROXY": true, "GOSUMDB": true, "GONOSUMDB": true, "GOPRIVATE": true, "GONOPROXY": true, "GOINSECURE": true, "GOAUTH": true, "NETRC": true,
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "http_proxy": true, "https_proxy": true, "no_proxy": true,
	"SSL_CERT_FILE": true, "SSL_CERT_DIR": true,
}

// fixedEnv decides about the output. The user's GOENV file is off: what of it is needed, places has asked for. GOEXPERIMENT
// stays unset, which is the toolchain's own choice; "none" would turn off what is on by default.
func fixedEnv(toolchain string) []string {
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1",
		"GOENV=off", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOFIPS140=off", "GO111MODULE=on", "LC_ALL=C",
	}
	if toolchain != "" {
		env = append(env, "GOTOOLCHAIN="+toolchain)
	}
	return env
}
