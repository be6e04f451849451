// Package payload makes the programs of an image that are not Debian packages: what payloads/ pins, one Go module with
// go.mod and go.sum or one set of jars with pom.xml and pom.sum each, and our own agent and stage1.
//
// A compiled program is a function of its module's files, the Go toolchain and the flags. It is kept in the store under
// their hash, so that pins which have not changed cost reading a few small files. Every module that the compiler sees
// is verified against go.sum by the go command. Jars come through Maven and are verified against pom.sum here. This
// package does not fetch release binaries, and it compiles neither C nor Java.
package payload

import (
	"context"
	"debug/buildinfo"
	"fmt"
	goversion "go/version"
	"io"
	"io/fs"
	"maps"
	"net/http"
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

// flags are the command and the options that every program is built with: nothing of the build machine reaches the
// output.
var flags = []string{"build", "-trimpath", "-buildvcs=false"}

// WithoutDWARF has the compiler make no debug information: it takes a sixth of its time, and the linker leaves it out
// of what ships. Our own programs go without this flag: they share what is compiled for the builder.
const WithoutDWARF = "-gcflags=all=-dwarf=false"

// stripped tells the linker to leave out symbols and debug information.
const stripped = "-s -w"

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
	// Folder is the configuration folder, for programs of the user's own.
	Folder fs.FS
	// Transport fetches what programs of the user's own name by a URL; nil takes only what is in the store, and keeps the
	// go command from fetching modules for them.
	Transport http.RoundTripper
	// Toolchain compiles programs of the user's own whose go.mod names none, such as go1.26.8; the go command's own
	// version when empty.
	Toolchain string
	// Report is told how far it is when a program, or a set of jars, is not in the store: at once, and each second until
	// it is made. Calls come one after the other. It may be nil.
	Report func(Progress)
}

// Program is a file of a payload in the store: a compiled program, a jar, or what lies beside the jars.
type Program struct {
	// Name tells it apart in messages: the name of the payload, with its file behind a slash where there are several.
	Name string
	// Payload is the payload that it belongs to; empty for our own.
	Payload string
	// Version is the version of the module that the payload is named after, empty where payload.yaml names none; a jar's
	// is its own.
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
	// Sum is what its bytes must be, as far as that is pinned: of each jar, and of a program whose line in ProgramSumFile
	// has this Key. It is what lets bytes in that this machine has not made.
	Sum *Sum
	// Configured is the file of the configuration folder that says where it comes from; empty for what is ours.
	Configured string
	// MadeOf is a hash of that file and of what it names (see the function).
	MadeOf string
	// License is an SPDX licence expression; empty where nothing says it.
	License string
	// Module is what a program of the user's own is, where it is a Go module; else nil.
	Module *Module
	// Inputs are the files and folders that a program of the user's own was made of.
	Inputs []Input
	// Unpacked is a hash of the archive and of what is taken from it, for a file of an archive: what is known of the file
	// before there is a Key.
	Unpacked string
	// Interpreter is what starts a file that was not compiled here: of a script, or of a program that is linked
	// dynamically, with its Libraries. All empty where nothing is needed.
	Interpreter string
	Libraries   []string
	// form is what such a file is (see needs).
	form string
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

// OfJars reports whether the payload in dir is one of jars.
func OfJars(dir string) bool { return exists(os.DirFS(dir), PomFile) }

// Build makes the programs of a payload, which is named after its directory under payloads/. Where that has a pom.xml,
// they are jars. Else it is the root of a Go module, and they are what payload.yaml lists, or the module's one main
// package as /usr/bin/NAME.
func Build(ctx context.Context, st *store.Store, dir string, o Options) ([]Program, error) {
	name := filepath.Base(dir)
	if OfJars(dir) {
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
	// What the programs are to become is not among what they are made of.
	files = slices.DeleteFunc(files, func(f file) bool { return f.path == ProgramSumFile })
	sums, err := readProgramSums(dir)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", name, err)
	}
	sources := Sources{name, listHash(files)}
	// What it says of a program is in the program's key; how the program is called is not.
	files = slices.DeleteFunc(files, func(f file) bool { return f.path == DescriptionFile })
	var out []Program
	for _, row := range d.Programs {
		t := target{name: name, dir: dir, pkg: row.Package, files: files, variables: row.Variables, options: []string{WithoutDWARF}}
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
		if line, ok := sums[row.Path]; ok && line.key == p.Key {
			p.Sum = &line.sum
		}
		out = append(out, p)
	}
	return out, nil
}

// OwnDirs are the directories of the source tree that programs of the image are made of; the builder is not among them.
func OwnDirs() []string {
	return []string{"agent", "cluster", "dashboard", "fleet", "pki", "services", "storage", "wire"}
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
	// options are further ones of go build.
	options []string
	// toolchain compiles it; empty for what go.mod in dir says. env is beside the fixed environment.
	toolchain string
	env       []string
	// stage, where set, lays out the module below a folder that is removed afterwards, and returns its directory, for
	// which messages write shown. hint is what else to do when it cannot be compiled.
	stage func(ctx context.Context, into string, run compiler, m *meter) (string, error)
	shown string
	hint  string
}

// flags are those of the go command but for the linker's.
func (t target) flags() []string { return append(slices.Clone(flags), t.options...) }

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
	toolchain, err := t.toolchain, error(nil)
	if toolchain == "" {
		toolchain, err = toolchainOf(ctx, t, o)
	}
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
	in := []string{t.name, t.pkg, toolchain, strings.Join(t.flags(), " "), t.linkerFlags(), strings.Join(tags, ","), strings.Join(append(fixedEnv(toolchain), t.env...), "\n")}
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
	return chooseToolchain(ctx, mod, t.dir, o)
}

func chooseToolchain(ctx context.Context, mod []byte, dir string, o Options) (string, error) {
	if v := toolchainLine(mod); v != "" {
		return v, nil
	}
	if v := installed(o.Go, mod); v != "" {
		return v, nil
	}
	cmd := exec.CommandContext(ctx, o.Go, "env", "GOVERSION")
	cmd.Dir, cmd.Env = dir, kept(o.Env)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version (is Go installed?): %w", o.Go, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// toolchainFor is the Go version for a program of the user's own: the toolchain line of its go.mod, else that of our
// payloads, or the version of its go line where that is newer. So it is the same on every machine.
func (o Options) toolchainFor(ctx context.Context, mod []byte) (string, error) {
	if v := toolchainLine(mod); v != "" {
		return v, nil
	}
	wanted, err := modfile.ParseLax("go.mod", mod, nil)
	if err != nil {
		return "", err
	}
	if o.Toolchain == "" {
		if o.Go == "" {
			o.Go = "go"
		}
		return chooseToolchain(ctx, mod, "", o)
	}
	if wanted.Go == nil || goversion.Compare("go"+wanted.Go.Version, o.Toolchain) <= 0 {
		return o.Toolchain, nil
	}
	v := "go" + wanted.Go.Version
	if goversion.Lang(v) == v {
		v += ".0" // the first release of a language version (go.dev/doc/toolchain#version)
	}
	return v, nil
}

// Toolchain is the toolchain line of the go.mod in a folder.
func Toolchain(dir string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return toolchainLine(mod), err
}

// installed is the version of the go command, where that is new enough for a go.mod to be compiled by it; else empty.
// It is read from the program's own file: to run it takes a third of the time of a build that finds everything in the
// store.
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
