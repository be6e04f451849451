//go:build integration

package recipe_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod"
	"spore/builder/recipe"
	"spore/builder/recipe/recipetest"
	"spore/builder/tree"
)

// differencesFile explains every difference between our tree and mmdebstrap's.
const differencesFile = "testdata/mmdebstrap-differences"

// bootstrap makes the reference with mmdebstrap, which runs the scripts. The packages stay in its var/cache/apt/archives.
func bootstrap(t *testing.T, archive string) {
	t.Helper()
	for _, tool := range []string{"mmdebstrap", "dpkg-deb"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "run make deps")
	}
	base, err := recipe.BasePackages("cloud")
	require.NoError(t, err)
	include := strings.Join(append(base, "mosquitto", "openjdk-21-jre-headless"), ",")
	mirror := debianMirror(t)
	sources := ""
	for _, suite := range []string{"trixie", "trixie-updates"} {
		sources += fmt.Sprintf("deb %s %s main\n", mirror, suite)
	}
	sources += fmt.Sprintf("deb %s-security trixie-security main\n", mirror)
	list := filepath.Join(t.TempDir(), "sources.list")
	require.NoError(t, os.WriteFile(list, []byte(sources), 0o644))
	cmd := exec.Command("mmdebstrap", "--mode=auto", "--format=tar", "--variant=essential", "--include="+include,
		"--skip=essential/unlink", "--skip=cleanup/apt", `--aptopt=APT::Keep-Downloaded-Packages "true"`,
		`--aptopt=APT::Install-Recommends "false"`, "trixie", archive, list)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// debianMirror is the machine's own, from apt's sources.
func debianMirror(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	require.NoError(t, err)
	more, err := filepath.Glob("/etc/apt/sources.list*")
	require.NoError(t, err)
	for _, f := range append(files, more...) {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(data)) {
			if strings.HasPrefix(word, "http") && strings.HasSuffix(strings.TrimSuffix(word, "/"), "/debian") {
				return strings.TrimSuffix(word, "/")
			}
		}
	}
	require.FailNow(t, "the machine's apt sources name no Debian mirror: no URI in /etc/apt ends in /debian")
	return ""
}

// reference returns the archive made by bootstrap, its files and its packages. SPORE_TEST_BOOTSTRAP names an archive that
// is kept from one run to the next.
func reference(t *testing.T) (theirs map[string]theirFile, packages []recipe.Package, kernel string) {
	t.Helper()
	archive := os.Getenv("SPORE_TEST_BOOTSTRAP")
	if archive == "" {
		archive = filepath.Join(t.TempDir(), "root.tar")
	}
	if _, err := os.Stat(archive); err != nil {
		bootstrap(t, archive)
	}
	debs := t.TempDir()
	theirs = readArchive(t, archive, debs)
	packages, err := recipetest.LoadDebs(debs, t.TempDir())
	require.NoError(t, err)
	for _, p := range packages {
		if v, ok := strings.CutPrefix(p.Name, "linux-image-6"); ok {
			kernel = "6" + v
		}
	}
	require.NotEmpty(t, kernel)
	return theirs, packages, kernel
}

// theirFile is one path of mmdebstrap's archive.
type theirFile struct {
	*tar.Header
	sum  [sha256.Size]byte
	data []byte // of passwd and group alone
}

// readArchive reads the archive, and copies the packages in it to a directory.
func readArchive(t *testing.T, archive, debs string) map[string]theirFile {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	out := map[string]theirFile{}
	r := tar.NewReader(bufio.NewReaderSize(f, 1<<20))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		require.NoError(t, err)
		file := theirFile{Header: h}
		p := path.Clean("/" + h.Name)
		if h.Typeflag == tar.TypeReg {
			hash := sha256.New()
			var w io.Writer = hash
			if path.Dir(p) == "/var/cache/apt/archives" && path.Ext(p) == ".deb" {
				deb, err := os.Create(filepath.Join(debs, path.Base(p)))
				require.NoError(t, err)
				defer deb.Close()
				w = io.MultiWriter(hash, deb)
			}
			var data bytes.Buffer
			if p == "/etc/passwd" || p == "/etc/group" {
				w = io.MultiWriter(hash, &data)
			}
			_, err := io.Copy(w, r)
			require.NoError(t, err)
			hash.Sum(file.sum[:0])
			file.data = data.Bytes()
		}
		if h.Typeflag == tar.TypeLink {
			first, ok := out[path.Clean("/"+h.Linkname)]
			require.True(t, ok, "%s is a link to %s", p, h.Linkname)
			file = first
		}
		out[p] = file
	}
}

func TestPackagesOfDebian(t *testing.T) {
	theirs, packages, kernel := reference(t)
	bare, err := recipe.Debian(packages, recipe.Options{Kernel: kernel})
	require.NoError(t, err)
	indexes, err := kmod.Index(context.Background(), bare, kernel)
	require.NoError(t, err)
	o := recipe.Options{
		Kernel: kernel, ModuleIndexes: indexes, Programs: []string{"mosquitto"},
		Units: os.DirFS("../../units"), Overlay: os.DirFS("../../overlay"), Agent: tree.Bytes("#!/bin/sh\n"),
		Release: recipe.Release{Version: "0.1", Suite: "trixie"},
	}
	t.Run("their tree is mmdebstrap's but for explained differences", func(t *testing.T) { testDifferences(t, theirs, packages, o) })
	composed, err := recipe.Compose(packages, o)
	require.NoError(t, err)
	t.Run("nothing is left for somebody to look at", func(t *testing.T) { testNotes(t, composed.Report) })
	t.Run("each of their units is kept or dropped on purpose", func(t *testing.T) { testKeptUnits(t, composed.Tree) })
	t.Run("nothing from outside configures a unit of theirs", func(t *testing.T) { testCredentials(t, composed.Tree) })
	t.Run("every program finds its libraries", func(t *testing.T) { testLibraries(t, composed.Tree) })
	t.Run("no link leads nowhere", func(t *testing.T) { testLinks(t, composed.Tree) })
	t.Run("the same root comes out again", func(t *testing.T) {
		again, err := recipe.Compose(append(packages[len(packages)/2:len(packages):len(packages)], packages[:len(packages)/2]...), o)
		require.NoError(t, err)
		require.Equal(t, fingerprint(t, composed.Tree), fingerprint(t, again.Tree))
	})
}

func testDifferences(t *testing.T, theirs map[string]theirFile, packages []recipe.Package, o recipe.Options) {
	ours, err := recipe.Debian(packages, o)
	require.NoError(t, err)
	rows := readExplanations(t)
	var unexplained []string
	for _, d := range compare(t, ours, theirs) {
		if !explain(rows, d) {
			unexplained = append(unexplained, d.kind+" "+d.path+"  ("+d.detail+")")
		}
	}
	if len(unexplained) > 0 {
		t.Fatalf("differences from mmdebstrap's tree that %s does not explain:\n%s", differencesFile, strings.Join(unexplained, "\n"))
	}
	for _, r := range rows {
		require.True(t, r.used, "%s: the row %q explains nothing any more", differencesFile, r.kind+" "+r.pattern)
	}
}

// testNotes shows what the recipe could not decide, such as a maintainer script that does something new.
func testNotes(t *testing.T, r *recipe.Report) {
	for _, n := range r.Notes() {
		t.Errorf("%s: %s %s", n.Step, n.Path, n.Why)
	}
}

// testKeptUnits compares with a committed list, so that a unit that Debian adds is seen.
func testKeptUnits(t *testing.T, tr *tree.Tree) {
	const file = "testdata/kept-units"
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	got := strings.Join(tr.Children("/usr/lib/systemd/system"), "\n") + "\n"
	require.Equal(t, string(want), got, "units of packages that stay in the image differ from %s: drop new ones in dropunits.go, or add them there", file)
}

// testCredentials looks at what units take from firmware. Those that Debian's systemd has as importing are shut one by
// one, and the list holds that none is overlooked.
func testCredentials(t *testing.T, tr *tree.Tree) {
	taken, err := recipe.ImportedCredentials(tr)
	require.NoError(t, err)
	require.NotEmpty(t, taken, "our own take the bundle")
	for _, i := range taken {
		require.True(t, strings.HasPrefix(i.Origin, "unit:"), "%+v", i)
	}
	var shut []string
	require.NoError(t, tr.Walk(func(p string, _ *tree.Inode) error {
		if path.Base(p) == "49-spore-credentials.conf" {
			shut = append(shut, strings.TrimSuffix(path.Base(path.Dir(p)), ".d"))
		}
		return nil
	}))
	require.Subset(t, shut, []string{"getty@.service", "serial-getty@.service", "systemd-journald.service",
		"systemd-networkd.service", "systemd-sysctl.service", "systemd-tmpfiles-clean.service", "systemd-tmpfiles-setup.service"})
}

// testLibraries looks for the interpreter and the libraries of each program as the dynamic linker does without a cache.
func testLibraries(t *testing.T, tr *tree.Tree) {
	var missing []string
	programs := 0
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if n.Type != tree.Regular || strings.HasPrefix(p, "/usr/lib/modules/") {
			return nil
		}
		data, err := tr.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return nil // not a program
		}
		defer f.Close()
		programs++
		dirs := []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"}
		for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
			if list, err := f.DynString(tag); err == nil && len(list) > 0 {
				dirs = append(strings.Split(strings.ReplaceAll(list[0], "$ORIGIN", path.Dir(p)), ":"), dirs...)
			}
		}
		if f.Type == elf.ET_DYN && strings.Contains(path.Base(p), ".so") {
			// A private library is loaded by a program that knows the directory; Java's has its core in one below.
			dirs = append(dirs, path.Dir(p), path.Join(path.Dir(p), "server"))
		}
		if s := f.Section(".interp"); s != nil {
			name, err := s.Data()
			if err != nil {
				return err
			}
			if _, err := tr.Stat(strings.TrimRight(string(name), "\x00")); err != nil {
				missing = append(missing, fmt.Sprintf("%s: interpreter %s", p, name))
			}
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return err
		}
		for _, lib := range needed {
			if !found(tr, dirs, lib) {
				missing = append(missing, p+": "+lib)
			}
		}
		return nil
	}))
	require.Greater(t, programs, 300)
	require.Empty(t, missing)
}

func testLinks(t *testing.T, tr *tree.Tree) {
	var dangling []string
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if n.Type != tree.Symlink || strings.HasPrefix(n.Target, "/dev/") || p == "/etc/mtab" {
			return nil
		}
		if _, err := tr.Stat(p); err != nil {
			dangling = append(dangling, p+" -> "+n.Target)
		}
		return nil
	}))
	require.Empty(t, dangling)
}

func found(tr *tree.Tree, dirs []string, lib string) bool {
	for _, d := range dirs {
		if _, err := tr.Stat(path.Join(d, lib)); err == nil {
			return true
		}
	}
	return false
}

func fingerprint(t *testing.T, tr *tree.Tree) []string {
	t.Helper()
	first := map[*tree.Inode]string{}
	var out []string
	require.NoError(t, tr.Walk(func(p string, n *tree.Inode) error {
		if first[n] == "" {
			first[n] = p
		}
		line := fmt.Sprintf("%s %d %o %d %d %d %s %s %s", p, n.Type, n.Mode, n.UID, n.GID, n.MTime, n.Target, n.Origin, first[n])
		if n.Type == tree.Regular {
			line += fmt.Sprintf(" %x", sum(t, n))
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// difference is one way in which the trees differ.
type difference struct {
	kind   string // missing, extra, type, mode, owner, content, target, time
	path   string
	detail string
}

type explanation struct {
	kind, pattern, why string
	used               bool
}

func readExplanations(t *testing.T) []*explanation {
	t.Helper()
	data, err := os.ReadFile(differencesFile)
	require.NoError(t, err)
	var rows []*explanation
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		pattern, why, _ := strings.Cut(strings.TrimSpace(rest), "  ")
		require.NotEmpty(t, strings.TrimSpace(why), "%s:%d has no explanation", differencesFile, i+1)
		rows = append(rows, &explanation{kind: kind, pattern: pattern, why: why})
	}
	return rows
}

// explain looks for rows of the kind whose pattern matches; a pattern that ends in /** takes everything below.
func explain(rows []*explanation, d difference) bool {
	found := false
	for _, r := range rows {
		if r.kind != d.kind {
			continue
		}
		ok, _ := path.Match(r.pattern, d.path)
		if dir, deep := strings.CutSuffix(r.pattern, "/**"); deep {
			for p := d.path; p != "/" && !ok; p = path.Dir(p) {
				ok, _ = path.Match(dir, p)
			}
		}
		if ok {
			r.used, found = true, true
		}
	}
	return found
}

// compare walks both trees. Owners are compared by name, since the numbers that adduser takes are its own.
func compare(t *testing.T, ours *tree.Tree, theirs map[string]theirFile) []difference {
	t.Helper()
	passwd, err := ours.ReadFile("/etc/passwd")
	require.NoError(t, err)
	group, err := ours.ReadFile("/etc/group")
	require.NoError(t, err)
	ourUsers, ourGroups := ids(t, passwd), ids(t, group)
	theirUsers, theirGroups := ids(t, theirs["/etc/passwd"].data), ids(t, theirs["/etc/group"].data)
	var out []difference
	add := func(kind, p, format string, args ...any) {
		out = append(out, difference{kind, p, fmt.Sprintf(format, args...)})
	}
	for p, h := range theirs {
		n, err := ours.Lstat(p)
		if err != nil {
			add("missing", p, "%s", h.FileInfo().Mode())
			continue
		}
		if types[n.Type] != h.Typeflag {
			add("type", p, "%c, theirs %c", types[n.Type], h.Typeflag)
			continue
		}
		if n.Type == tree.Symlink {
			if h.Linkname != n.Target {
				add("target", p, "%s, theirs %s", n.Target, h.Linkname)
			}
			continue
		}
		if mode := uint32(h.Mode & 0o7777); mode != n.Mode {
			add("mode", p, "%04o, theirs %04o", n.Mode, mode)
		}
		if a, z := ourUsers[n.UID]+":"+ourGroups[n.GID], theirUsers[uint32(h.Uid)]+":"+theirGroups[uint32(h.Gid)]; a != z {
			add("owner", p, "%s, theirs %s", a, z)
		}
		if n.Type == tree.Regular && sum(t, n) != h.sum {
			add("content", p, "%d bytes, theirs %d", n.Content.Size(), h.Size)
		}
		if n.Type == tree.Regular && n.MTime != h.ModTime.Unix() && strings.HasPrefix(n.Origin, "deb:") {
			add("time", p, "%d, theirs %d", n.MTime, h.ModTime.Unix())
		}
	}
	for _, p := range ours.Paths() {
		if _, ok := theirs[p]; !ok {
			n, err := ours.Lstat(p)
			require.NoError(t, err)
			add("extra", p, "from %s", n.Origin)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path+out[i].kind < out[j].path+out[j].kind })
	return out
}

var types = map[tree.Type]byte{tree.Dir: tar.TypeDir, tree.Regular: tar.TypeReg, tree.Symlink: tar.TypeSymlink}

// ids reads the names of passwd(5) or group(5) by their number.
func ids(t *testing.T, text []byte) map[uint32]string {
	t.Helper()
	out := map[uint32]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Split(line, ":")
		var id uint32
		_, err := fmt.Sscan(f[2], &id)
		require.NoError(t, err)
		out[id] = f[0]
	}
	return out
}

func sum(t *testing.T, n *tree.Inode) (out [sha256.Size]byte) {
	t.Helper()
	r, err := n.Content.Open()
	require.NoError(t, err)
	defer r.Close()
	h := sha256.New()
	_, err = io.Copy(h, r)
	require.NoError(t, err)
	h.Sum(out[:0])
	return out
}
