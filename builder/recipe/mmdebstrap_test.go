//go:build integration

package recipe_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod"
	"spore/builder/recipe"
	"spore/builder/recipe/recipetest"
	"spore/builder/tree"
	"spore/test/packages/compare"
	"spore/test/packages/reference"
)

// differencesFile explains every difference between our tree and mmdebstrap's.
const differencesFile = "testdata/mmdebstrap-differences"

// bootstrap makes the reference with mmdebstrap, which runs the scripts. The packages stay in its
// var/cache/apt/archives.
func bootstrap(t *testing.T, archive string) {
	t.Helper()
	base, err := recipe.BasePackages("cloud")
	require.NoError(t, err)
	mirror, err := reference.Mirror(os.DirFS("/"))
	require.NoError(t, err)
	f, err := os.Create(archive + ".new")
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, reference.Make(t.Context(), f, reference.Options{
		Suite: "trixie", Mirror: mirror, Packages: append(base, "mosquitto", "openjdk-21-jre-headless"), KeepDebs: true,
	}))
	require.NoError(t, os.Rename(f.Name(), archive))
}

// theirTree returns the archive made by bootstrap, its files and its packages. SPORE_TEST_BOOTSTRAP names an archive
// that is kept from one run to the next.
func theirTree(t *testing.T) (theirs *reference.Root, packages []recipe.Package, kernel string) {
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

// readArchive reads the archive, and copies the packages in it to a directory.
func readArchive(t *testing.T, archive, debs string) *reference.Root {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	a, err := reference.ReadArchive(f, func(name string) (io.WriteCloser, error) {
		if path.Dir(name) != "/var/cache/apt/archives" || path.Ext(name) != ".deb" {
			return nil, nil
		}
		return os.Create(filepath.Join(debs, path.Base(name)))
	})
	require.NoError(t, err)
	root, err := a.Root("")
	require.NoError(t, err)
	return root
}

func TestPackagesOfDebian(t *testing.T) {
	theirs, packages, kernel := theirTree(t)
	bare, err := recipe.Debian(packages, recipe.Options{Kernel: kernel})
	require.NoError(t, err)
	indexes, err := kmod.Index(context.Background(), bare, kernel)
	require.NoError(t, err)
	o := recipe.Options{
		Kernel: kernel, ModuleIndexes: indexes, Programs: []string{"mosquitto"},
		Units: os.DirFS("../../units"), Overlay: os.DirFS("../../overlay"), Agent: tree.Bytes("#!/bin/sh\n"),
		Release: recipe.Release{Version: "0.1", Suite: "trixie"},
		// What every node runs besides the agent.
		Payloads: []recipe.Payload{{Name: "spore-metrics", Files: []recipe.PayloadFile{
			{Path: "/usr/bin/spore-metrics", Mode: 0o755, Content: tree.Bytes("#!/bin/sh\n")},
		}}, {Name: "spore-screen", Files: []recipe.PayloadFile{
			{Path: "/usr/bin/spore-screen", Mode: 0o755, Content: tree.Bytes("#!/bin/sh\n")},
		}}},
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

func testDifferences(t *testing.T, theirs *reference.Root, packages []recipe.Package, o recipe.Options) {
	ours, err := recipe.Debian(packages, o)
	require.NoError(t, err)
	text, err := os.ReadFile(differencesFile)
	require.NoError(t, err)
	rows, err := compare.ReadTable(differencesFile, string(text))
	require.NoError(t, err)
	differences, err := compare.Trees(ours, theirs)
	require.NoError(t, err)
	var unexplained []string
	for _, d := range differences {
		if rows.Explain(d) == nil {
			unexplained = append(unexplained, d.Kind+" "+d.Path+"  ("+d.Detail+")")
		}
	}
	if len(unexplained) > 0 {
		t.Fatalf("differences from mmdebstrap's tree that %s does not explain:\n%s", differencesFile, strings.Join(unexplained, "\n"))
	}
	require.Empty(t, rows.Unused(), "these rows explain nothing any more")
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
