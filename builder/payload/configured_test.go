package payload

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	modversion "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"

	"spore/builder/store"
	"spore/cluster"
	"spore/cluster/programs"
	"spore/cluster/regular"
)

// configuration is a folder with programs/ and what lies there.
type configuration struct{ dir string }

func configured(t *testing.T, files map[string]string) configuration {
	t.Helper()
	c := configuration{t.TempDir()}
	for name, data := range files {
		c.write(t, name, data)
	}
	return c
}

func (c configuration) write(t *testing.T, name, data string) {
	t.Helper()
	p := filepath.Join(c.dir, "programs", name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
}

func (c configuration) entry(t *testing.T) programs.Entry {
	t.Helper()
	loaded, _ := cluster.LoadDir(c.dir)
	require.Len(t, loaded.Programs, 1)
	return loaded.Programs[0]
}

func (c configuration) build(t *testing.T, st *store.Store, o Options) ([]Program, error) {
	t.Helper()
	o.Folder = regular.Folder(c.dir)
	if o.Env == nil {
		o.Env = os.Environ()
	}
	return BuildConfigured(t.Context(), st, c.entry(t), o)
}

// gateway is a module of the user's own without dependencies.
func gateway() map[string]string {
	return map[string]string{
		"gateway.yaml":   "folder: ./gateway\npackage: ./cmd/gateway\nlicence: MIT\nlinks: [/usr/bin/gw]\n",
		"gateway/go.mod": "module example.test/gateway\n\ngo 1.26.0\n",
		"gateway/cmd/gateway/main.go": "package main\n\nimport (\n\t_ \"embed\"\n\n\t\"example.test/gateway/text\"\n)\n\n" +
			"//go:embed testdata/_hello\nvar hello string\n\nfunc main() { println(hello + text.End) }\n",
		"gateway/cmd/gateway/testdata/_hello": "hello",
		"gateway/text/text.go":                "package text\n\nconst End = \"!\"\n",
		"gateway/.git/HEAD":                   "ref: refs/heads/main\n",
	}
}

func sumOfText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func contentOf(t *testing.T, p Program) string {
	t.Helper()
	data, err := os.ReadFile(p.Path)
	require.NoError(t, err)
	return string(data)
}

func TestAFolderIsCompiledOnceAndTheSameEverywhere(t *testing.T) {
	st := newStore(t)
	c := configured(t, gateway())
	planned, err := c.build(t, st, Options{Plan: true})
	require.NoError(t, err)
	made, err := c.build(t, st, Options{})
	require.NoError(t, err)
	require.Len(t, made, 1)
	p := made[0]
	require.Equal(t, planned[0].Key, p.Key)
	require.Equal(t, "programs/gateway", p.Name)
	require.Equal(t, "programs/gateway.yaml", p.Configured)
	require.Equal(t, "/usr/bin/gateway", p.Target)
	require.Equal(t, []string{"/usr/bin/gw"}, p.Links)
	require.Equal(t, uint32(0o755), p.Mode)
	require.Equal(t, "MIT", p.License)
	require.False(t, p.Cached)
	require.Equal(t, "programs/gateway", p.Inputs[0].Name)
	run := filepath.Join(t.TempDir(), "gateway")
	require.NoError(t, os.WriteFile(run, []byte(contentOf(t, p)), 0o755))
	said, err := exec.Command(run).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "hello!\n", string(said))

	// Of what is not the folder's content nothing counts.
	c.write(t, "gateway/.git/HEAD", "ref: refs/heads/other\n")
	again, err := c.build(t, st, Options{})
	require.NoError(t, err)
	require.True(t, again[0].Cached)
	elsewhere, err := configured(t, gateway()).build(t, newStore(t), Options{Env: append(os.Environ(), "GOFLAGS=-race",
		"CGO_ENABLED=1")})
	require.NoError(t, err)
	require.Equal(t, p.Key, elsewhere[0].Key)
	require.Equal(t, contentOf(t, p), contentOf(t, elsewhere[0]))

	// What is embedded counts, whatever its name.
	c.write(t, "gateway/cmd/gateway/testdata/_hello", "good morning")
	changed, err := c.build(t, st, Options{Plan: true})
	require.NoError(t, err)
	require.NotEqual(t, p.Key, changed[0].Key)
}

func TestAFolderWithVendorNeedsNoNetwork(t *testing.T) {
	c := configured(t, map[string]string{
		"gateway.yaml": "folder: ./gateway\n",
		"gateway/go.mod": "module example.test/gateway\n\ngo 1.26.0\n\nrequire " +
			"example.test/text v1.0.0\n",
		"gateway/main.go": "package main\n\nimport \"example.test/text\"\n\nfunc main() { " +
			"println(text.End) }\n",
		"gateway/vendor/modules.txt": "# example.test/text v1.0.0\n## explicit; go " +
			"1.26.0\nexample.test/text\n",
		"gateway/vendor/example.test/text/text.go":    "package text\n\nconst End = \"!\"\n",
		"gateway/vendor/example.test/text/LICENSE":    "none\n",
		"gateway/vendor/example.test/other/README.md": "unused\n",
	})
	made, err := c.build(t, newStore(t), Options{})
	require.NoError(t, err)
	require.False(t, made[0].Cached)
}

// proxy makes a module proxy of files (go.dev/ref/mod#goproxy-protocol) with one module, and returns its checksum.
func proxy(t *testing.T, path, version string, files map[string]string) (url, sum string) {
	t.Helper()
	src, out := t.TempDir(), t.TempDir()
	for name, data := range files {
		p := filepath.Join(src, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(data), 0o644))
	}
	dir := filepath.Join(out, path, "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var zip bytes.Buffer
	require.NoError(t, modzip.CreateFromDir(&zip, modversion.Version{Path: path, Version: version}, src))
	name := filepath.Join(dir, version)
	require.NoError(t, os.WriteFile(name+".zip", zip.Bytes(), 0o644))
	require.NoError(t, os.WriteFile(name+".mod", []byte(files["go.mod"]), 0o644))
	require.NoError(t, os.WriteFile(name+".info", fmt.Appendf(nil, `{"Version":%q}`, version), 0o644))
	sum, err := dirhash.HashZip(name+".zip", dirhash.Hash1)
	require.NoError(t, err)
	return "file://" + out, sum
}

// moduleEnv is an environment with a module cache of its own, whose files may be written, so that they can be removed.
func moduleEnv(t *testing.T, proxy string) []string {
	t.Helper()
	cache := t.TempDir()
	t.Cleanup(func() {
		_ = filepath.WalkDir(cache, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(p, 0o755)
			}
			return err
		})
	})
	return append(os.Environ(), "GOMODCACHE="+cache, "GOPROXY="+proxy)
}

func TestAModuleIsHeldAgainstItsChecksum(t *testing.T) {
	url, sum := proxy(t, "example.test/tool", "v1.2.3", map[string]string{
		"go.mod": "module example.test/tool\n\ngo 1.26.0\n", "cmd/tool/main.go": "package main\n\nfunc main() { " +
			"println(\"tool\") }\n",
	})
	env := moduleEnv(t, url)
	text := "go: {module: example.test/tool, version: v1.2.3, package: ./cmd/tool, sum: \"%s\"}\npath: " +
		"/opt/tool/bin/tool\n"
	c := configured(t, map[string]string{"tool.yaml": fmt.Sprintf(text, sum)})
	st := newStore(t)
	_, err := c.build(t, st, Options{Env: env})
	require.ErrorContains(t, err, "fetch example.test/tool@v1.2.3: example.test/tool@v1.2.3: module lookup disabled by "+
		"GOPROXY=off")

	made, err := c.build(t, st, Options{Env: env, Transport: http.DefaultTransport})
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", made[0].Version)
	require.Equal(t, &Module{"example.test/tool", "v1.2.3", sum}, made[0].Module)
	require.Equal(t, "/opt/tool/bin/tool", made[0].Target)
	offline, err := c.build(t, st, Options{Env: moduleEnv(t, "off")})
	require.NoError(t, err)
	require.True(t, offline[0].Cached)

	other := "h1:" + strings.Repeat("A", 43) + "="
	c = configured(t, map[string]string{"tool.yaml": fmt.Sprintf(text, other)})
	_, err = c.build(t, st, Options{Env: env, Transport: http.DefaultTransport})
	require.EqualError(t, err, "programs/tool.yaml: program programs/tool: the module example.test/tool@v1.2.3 has the "+
		"checksum "+sum+
		", and sum says "+other+": the module is another one than was meant, or is forged")
}

func TestAModuleThatReplacesAnotherByAFolderOutsideIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.test/other\n\ngo 1.26.0\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "o.go"), []byte("package other\n\nfunc Say() {}\n"), 0o644))
	for _, folder := range []string{dir, "../other"} {
		url, sum := proxy(t, "example.test/tool", "v1.2.3", map[string]string{
			"go.mod": "module example.test/tool\n\ngo 1.26.0\n\nrequire example.test/other v1.0.0\n\n" +
				"replace example.test/other => " + folder + "\n",
			"main.go": "package main\n\nimport \"example.test/other\"\n\nfunc main() { other.Say() }\n",
		})
		c := configured(t, map[string]string{"tool.yaml": fmt.Sprintf("go: {module: example.test/tool, version: v1.2.3, "+
			"sum: \"%s\"}\n", sum)})
		_, err := c.build(t, newStore(t), Options{Env: moduleEnv(t, url), Transport: http.DefaultTransport})
		require.ErrorContains(t, err, fmt.Sprintf("programs/tool.yaml: program programs/tool: go.mod of "+
			"example.test/tool@v1.2.3 replaces a module by %q, which is outside of the module", folder))
		require.ErrorContains(t, err, "put a go.mod that requires example.test/tool@v1.2.3, and its go.sum, into programs/tool/")
	}
}

func TestGoModAndGoSumBesidePinAModule(t *testing.T) {
	url, sum := proxy(t, "example.test/tool", "v1.2.3", map[string]string{
		"go.mod": "module example.test/tool\n\ngo 1.26.0\n", "cmd/tool/main.go": "package main\n\nfunc main() { " +
			"println(\"tool\") }\n",
	})
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("module example.test/tool\n\ngo 1.26.0\n")), nil
	})
	require.NoError(t, err)
	files := map[string]string{
		"tool.yaml":   "go: {module: example.test/tool, version: v1.2.3, package: ./cmd/tool}\n",
		"tool/go.mod": "module programs/tool\n\ngo 1.26.0\n\nrequire example.test/tool v1.2.3\n",
		"tool/go.sum": "example.test/tool v1.2.3 " + sum + "\nexample.test/tool v1.2.3/go.mod " + modSum + "\n",
	}
	o := Options{Env: moduleEnv(t, url), Transport: http.DefaultTransport}
	made, err := configured(t, files).build(t, newStore(t), o)
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", made[0].Version)
	require.Equal(t, "programs/tool", made[0].Inputs[0].Name)

	files["tool/go.sum"] = strings.Replace(files["tool/go.sum"], sum, "h1:"+strings.Repeat("A", 43)+"=", 1)
	o.Env = moduleEnv(t, url)
	_, err = configured(t, files).build(t, newStore(t), o)
	require.ErrorContains(t, err, "SECURITY ERROR")
}

func TestWhatAFolderMustNotHave(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"a link out of it", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("../../secrets",
				dir+"/secrets"))
		},
			`programs/gateway.yaml: programs/gateway/secrets: it is a link to "../../secrets", which is outside of the ` +
				`folder; put a copy there`},
		{"an absolute link", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc/passwd",
				dir+"/text/passwd"))
		},
			`programs/gateway.yaml: programs/gateway/text/passwd: it is a link to "/etc/passwd", which is outside of the ` +
				`folder; put a copy there`},
		{"a link into .git", func(t *testing.T, dir string) { require.NoError(t, os.Symlink(".git/HEAD", dir+"/head")) },
			`programs/gateway.yaml: programs/gateway/head: it is a link to ".git/HEAD", and .git is left out; put a copy there`},
		{"a link through a folder", func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("cmd/../text",
				dir+"/words"))
		},
			`programs/gateway.yaml: programs/gateway/words: it is a link to "cmd/../text", which goes through a folder and ` +
				`back; write the shortest way`},
		{"a FIFO", func(t *testing.T, dir string) { require.NoError(t, exec.Command("mkfifo", dir+"/fifo").Run()) },
			"programs/gateway.yaml: programs/gateway/fifo: it is a FIFO; a folder that is compiled has files and links only"},
		{"no package", func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir+"/cmd")) },
			"programs/gateway.yaml: program programs/gateway: go build ./cmd/gateway in programs/gateway: exit status 1: "},
		{"a mistake", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/text/text.go", []byte("package text\n\nconst End = x\n"), 0o644))
		}, "text/text.go:3:13: undefined: x"},
		{"a package that is no program", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/cmd/gateway/main.go", []byte("package gateway\n"), 0o644))
		}, "the output of go build is not a program (is it a package main?)"},
		{"code in C", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/text/text.go", []byte("package text\n\nimport \"C\"\n\nconst End = \"!\"\n"),
				0o644))
		}, "the program needs cgo, and programs are compiled without a C compiler so that their bytes do not depend on " +
			"the machine: the code of example.test/gateway/text is in C; take a package that is written in Go, or build the " +
			"program elsewhere and take it with the key file: go build ./cmd/gateway in programs/gateway: exit status 1: "},
		{"a newer Go", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir+"/go.mod", []byte("module example.test/gateway\n\ngo 1.99\n"), 0o644))
		}, "go1.99.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := configured(t, gateway())
			tc.change(t, filepath.Join(c.dir, "programs", "gateway"))
			_, err := c.build(t, newStore(t), Options{Toolchain: "go1.26.8"})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestALinkInsideAFolderIsFollowed(t *testing.T) {
	files := gateway()
	delete(files, "gateway/text/text.go")
	files["gateway/shared/text.go"] = "package text\n\nconst End = \"!\"\n"
	c := configured(t, files)
	at := filepath.Join(c.dir, "programs", "gateway", "text")
	require.NoError(t, os.Mkdir(at, 0o755))
	require.NoError(t, os.Symlink("../shared/text.go", at+"/text.go"))
	_, err := c.build(t, newStore(t), Options{})
	require.NoError(t, err)
}

func TestTheToolchainIsTheSameOnEveryMachine(t *testing.T) {
	for _, tc := range []struct{ mod, want string }{
		{"module m\n\ngo 1.24.0\n", "go1.26.8"},
		{"module m\n", "go1.26.8"},
		{"module m\n\ngo 1.24.0\n\ntoolchain go1.25.3\n", "go1.25.3"},
		{"module m\n\ngo 1.27.1\n", "go1.27.1"},
		{"module m\n\ngo 1.27\n", "go1.27.0"},
		{"", "go1.26.8"},
	} {
		got, err := Options{Toolchain: "go1.26.8"}.toolchainFor(t.Context(), []byte(tc.mod))
		require.NoError(t, err)
		require.Equal(t, tc.want, got, tc.mod)
	}
}

// elfFile is an ELF file of the given kind (System V ABI, chapter 4): headers alone, and the name of an interpreter.
func elfFile(machine elf.Machine, kind elf.Type, interpreter string) string {
	const headers = 64 + 56
	var out bytes.Buffer
	h := elf.Header64{
		Type: uint16(kind), Machine: uint16(machine), Version: 1, Entry: headers, Phoff: 64, Ehsize: 64, Phentsize: 56,
		Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: headers, Filesz: uint64(len(interpreter))}
	if interpreter != "" {
		p.Type = uint32(elf.PT_INTERP)
	}
	_ = binary.Write(&out, binary.LittleEndian, h)
	_ = binary.Write(&out, binary.LittleEndian, p)
	out.WriteString(interpreter)
	return out.String()
}

func TestAFileIsTakenAsItIs(t *testing.T) {
	static := elfFile(elf.EM_X86_64, elf.ET_EXEC, "")
	for _, tc := range []struct{ name, data, interpreter string }{
		{"a static program", static, ""},
		{"a dynamic program", elfFile(elf.EM_X86_64, elf.ET_DYN, "/lib64/ld-linux-x86-64.so.2\x00"),
			"/lib64/ld-linux-x86-64.so.2"},
		{"a script", "#!/bin/sh\nexit 0\n", "/bin/sh"},
		{"a script by env", "#!/usr/bin/env -S python3 -u\n", "python3"},
		{"a script by env with a variable", "#!/usr/bin/env -S A=b awk -f\n", "awk"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := configured(t, map[string]string{"x.yaml": "file: {path: ./x.bin, sha256: " + sumOfText(tc.data) + "}\nmode: \"0750\"\n", "x.bin": tc.data})
			st := newStore(t)
			planned, err := c.build(t, st, Options{Plan: true})
			require.NoError(t, err)
			made, err := c.build(t, st, Options{})
			require.NoError(t, err)
			require.Equal(t, planned[0].Key, made[0].Key)
			require.Equal(t, uint32(0o750), made[0].Mode)
			require.Equal(t, tc.interpreter, made[0].Interpreter)
			require.Equal(t, tc.data, contentOf(t, made[0]))
			require.Equal(t, []Input{{Name: "programs/x.bin", SHA256: sumOfText(tc.data)}}, made[0].Inputs)
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"a program for ARM", elfFile(elf.EM_AARCH64, elf.ET_EXEC, ""),
			"programs/x.bin is for arm64 (aarch64), and the image is for x86-64 (amd64); take the file for linux/amd64"},
		{"a library", elfFile(elf.EM_X86_64, elf.ET_REL, ""), "it is a library or an object file of ELF"},
		{"half a program", elfFile(elf.EM_X86_64, elf.ET_EXEC, "")[:40], "programs/x.bin is damaged: "},
		{"an endless interpreter", elfFile(elf.EM_X86_64, elf.ET_EXEC, strings.Repeat("x", 5000)),
			"programs/x.bin is damaged: the name of its interpreter has no end"},
		{"an archive", "PK\x03\x04", "it is a zip archive: name its files with the key archive"},
		{"a page", "<!DOCTYPE html>", "it is a page or a text of HTML or XML: the address may be that of a page that " +
			"leads to the file"},
		{"a program for Windows", "MZ", "it is a program for Windows"},
		{"a text", "hello\n", "programs/x.bin is neither a program for Linux (ELF) nor a script, which begins with #! and " +
			"its interpreter"},
		{"nothing", "", "programs/x.bin is neither a program for Linux (ELF) nor a script, which begins with #! and its " +
			"interpreter"},
		{"an empty first line", "#!\n", "programs/x.bin is neither a program for Linux (ELF) nor a script, which begins " +
			"with #! and its interpreter"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := configured(t, map[string]string{"x.yaml": "file: {path: ./x.bin, sha256: " + sumOfText(tc.data) + "}\n",
				"x.bin": tc.data})
			_, err := c.build(t, newStore(t), Options{})
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAnotherFileThanItsChecksumIsRefused(t *testing.T) {
	c := configured(t, map[string]string{"x.yaml": "file: {path: ./x.bin, sha256: " + sumOfText("#!/bin/sh\n") + "}\n",
		"x.bin": "#!/bin/sh\n"})
	st := newStore(t)
	_, err := c.build(t, st, Options{})
	require.NoError(t, err)
	c.write(t, "x.bin", "#!/bin/bash\n") // while the store has the old one
	_, err = c.build(t, st, Options{})
	require.EqualError(t, err, "programs/x.yaml: programs/x.bin has the SHA-256 "+sumOfText("#!/bin/bash\n")+", and sha256 says "+
		sumOfText("#!/bin/sh\n")+": it is another file than was meant, or is damaged; where it is the right one, write "+
		"its SHA-256")
}

func TestAFileIsFetchedOnce(t *testing.T) {
	const script = "#!/bin/sh\n"
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/x":
			fmt.Fprint(w, script)
			return
		case "/large":
			w.Header().Set("Content-Length", "2147483648")
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	yaml := func(url, sum string) configuration {
		return configured(t, map[string]string{"x.yaml": "file: {url: \"" + url + "\", sha256: " + sum + "}\n"})
	}
	online := Options{Transport: http.DefaultTransport}
	st := newStore(t)
	c := yaml(server.URL+"/x", sumOfText(script))
	_, err := c.build(t, st, Options{})
	require.EqualError(t, err, "programs/x.yaml: "+server.URL+"/x is not in the cache, and this build is offline; "+
		"build once without --offline")
	for _, o := range []Options{online, online, {}} {
		made, err := c.build(t, st, o)
		require.NoError(t, err)
		require.Equal(t, script, contentOf(t, made[0]))
	}
	require.Equal(t, 1, asked)

	_, err = yaml(server.URL+"/x", sumOfText("other")).build(t, st, online)
	require.ErrorContains(t, err, server.URL+"/x has the SHA-256 "+sumOfText(script)+", and sha256 says "+sumOfText("other"))
	_, err = yaml(server.URL+"/y", sumOfText("other")).build(t, st, online)
	require.EqualError(t, err, "programs/x.yaml: fetch "+server.URL+"/y: the server answers 404 Not Found")
	_, err = yaml(server.URL+"/large", sumOfText("other")).build(t, st, online)
	require.EqualError(t, err, "programs/x.yaml: fetch "+server.URL+
		"/large: it has 2147483648 bytes, and at most 1073741824 are taken")
	server.Close()
	_, err = yaml(server.URL+"/z", sumOfText("other")).build(t, st, online)
	require.ErrorContains(t, err, "programs/x.yaml: fetch "+server.URL+"/z: dial tcp ")
}

func TestFilesOfAnArchiveAreKeptByTheirContent(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name, data string
		mode       int64
	}{{"tool/bin/tool", "#!/bin/sh\n", 0o755}, {"tool/data", "data", 0o644}} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode,
			Size: int64(len(f.data))}))
		_, err := w.Write([]byte(f.data))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	files := map[string]string{
		"tool.yaml": "archive:\n  path: ./tool.tar\n  sha256: " + sumOfText(out.String()) + "\n  files: {tool/bin/tool: " +
			"/opt/tool/bin/tool, tool/data: /opt/tool/data}\n",
		"tool.tar": out.String(),
	}
	c, st := configured(t, files), newStore(t)
	planned, err := c.build(t, st, Options{Plan: true})
	require.NoError(t, err)
	for i := range 2 {
		made, err := c.build(t, st, Options{})
		require.NoError(t, err)
		require.Len(t, made, 2)
		require.Equal(t, "programs/tool/opt/tool/bin/tool", made[0].Name)
		require.Equal(t, "/opt/tool/bin/tool", made[0].Target)
		require.Equal(t, uint32(0o755), made[0].Mode)
		require.Equal(t, "/bin/sh", made[0].Interpreter)
		require.Equal(t, uint32(0o644), made[1].Mode)
		require.Equal(t, sumOfText("data"), made[1].Key.String())
		require.Equal(t, "data", contentOf(t, made[1]))
		require.Equal(t, i > 0, made[0].Cached)
		require.Equal(t, planned[0].Unpacked, made[0].Unpacked)
	}
	files["tool.yaml"] = strings.Replace(files["tool.yaml"], "tool/data:", "data:", 1)
	_, err = configured(t, files).build(t, st, Options{})
	require.EqualError(t, err, `programs/tool.yaml: unpack programs/tool.tar: it has no member "data"; did you mean `+
		`"tool/data"?`)
}

// FuzzInspect reads anything as a program: no panic, and what is a program has no interpreter without an end.
func FuzzInspect(f *testing.F) {
	for _, data := range []string{
		elfFile(elf.EM_X86_64, elf.ET_EXEC, ""), elfFile(elf.EM_X86_64, elf.ET_DYN, "/lib/ld.so\x00"), elfFile(elf.EM_ARM,
			elf.ET_EXEC, ""), "#!/bin/sh\n",
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := inspect(bytes.NewReader(data))
		if err == nil {
			require.LessOrEqual(t, len(n.interpreter), maxInterp)
			require.LessOrEqual(t, len(n.libraries), maxLibraries)
		}
	})
}
