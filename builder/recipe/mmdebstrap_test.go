//go:build integration

package recipe_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod"
	"spore/builder/recipe"
	"spore/builder/recipe/recipetest"
	"spore/builder/tree"
)

// differencesFile explains every difference between our tree and mmdebstrap's.
const differencesFile = "testdata/mmdebstrap-differences"

// bootstrap makes the reference with mmdebstrap, as root, with scripts, and leaves the packages in var/cache/apt/archives.
func bootstrap(t *testing.T, dir string) {
	t.Helper()
	if dir == os.Getenv("SPORE_TEST_BOOTSTRAP") {
		return
	}
	for _, tool := range []string{"mmdebstrap", "dpkg-deb"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "run make deps")
	}
	require.Zero(t, os.Geteuid(), "this test makes a reference system with mmdebstrap and must be run by root")
	base, err := recipe.BasePackages("cloud")
	require.NoError(t, err)
	include := strings.Join(append(base, "mosquitto"), ",")
	mirror := debianMirror(t)
	sources := ""
	for _, suite := range []string{"trixie", "trixie-updates"} {
		sources += fmt.Sprintf("deb %s %s main\n", mirror, suite)
	}
	sources += fmt.Sprintf("deb %s-security trixie-security main\n", mirror)
	list := filepath.Join(t.TempDir(), "sources.list")
	require.NoError(t, os.WriteFile(list, []byte(sources), 0o644))
	cmd := exec.Command("mmdebstrap", "--mode=root", "--variant=essential", "--include="+include,
		"--skip=essential/unlink", "--skip=cleanup/apt", `--aptopt=APT::Keep-Downloaded-Packages "true"`,
		`--aptopt=APT::Install-Recommends "false"`, "trixie", dir, list)
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
	return ""
}

// reference returns a directory made by bootstrap and its packages. SPORE_TEST_BOOTSTRAP names one that is kept.
func reference(t *testing.T) (dir string, packages []recipe.Package, kernel string) {
	t.Helper()
	dir = os.Getenv("SPORE_TEST_BOOTSTRAP")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "root")
	}
	bootstrap(t, dir)
	packages, err := recipetest.LoadDebs(filepath.Join(dir, "var/cache/apt/archives"), t.TempDir())
	require.NoError(t, err)
	for _, p := range packages {
		if v, ok := strings.CutPrefix(p.Name, "linux-image-6"); ok {
			kernel = "6" + v
		}
	}
	require.NotEmpty(t, kernel)
	return dir, packages, kernel
}

func TestTreeIsThatOfMmdebstrapButForExplainedDifferences(t *testing.T) {
	dir, packages, kernel := reference(t)
	bare, err := recipe.Debian(packages, recipe.Options{Kernel: kernel})
	require.NoError(t, err)
	indexes, err := kmod.Index(context.Background(), bare, kernel)
	require.NoError(t, err)
	ours, err := recipe.Debian(packages, recipe.Options{Kernel: kernel, ModuleIndexes: indexes})
	require.NoError(t, err)

	rows := readExplanations(t)
	var unexplained []string
	for _, d := range compare(t, ours, dir) {
		if !explain(rows, d) {
			unexplained = append(unexplained, d.kind+" "+d.path+"  ("+d.detail+")")
		}
	}
	require.Empty(t, unexplained, "differences from mmdebstrap's tree that %s does not explain:\n%s",
		differencesFile, strings.Join(unexplained, "\n"))
	for _, r := range rows {
		require.True(t, r.used, "%s: the row %q explains nothing any more", differencesFile, r.kind+" "+r.pattern)
	}
}

// difference is one way in which the trees differ.
type difference struct {
	kind   string // missing, extra, type, mode, owner, content, target
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
func compare(t *testing.T, ours *tree.Tree, dir string) []difference {
	t.Helper()
	theirUsers, theirGroups := ids(t, readFile(t, filepath.Join(dir, "etc/passwd"))), ids(t, readFile(t, filepath.Join(dir, "etc/group")))
	passwd, err := ours.ReadFile("/etc/passwd")
	require.NoError(t, err)
	group, err := ours.ReadFile("/etc/group")
	require.NoError(t, err)
	ourUsers, ourGroups := ids(t, passwd), ids(t, group)

	var out []difference
	add := func(kind, p, format string, args ...any) {
		out = append(out, difference{kind, p, fmt.Sprintf(format, args...)})
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p := "/" + strings.TrimPrefix(strings.TrimPrefix(file, dir), "/")
		seen[p] = true
		info, err := d.Info()
		if err != nil {
			return err
		}
		n, err := ours.Lstat(p)
		if err != nil {
			add("missing", p, "%s", info.Mode())
			if d.IsDir() {
				return nil
			}
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		if !sameType(n.Type, info.Mode()) {
			add("type", p, "%v, theirs %s", n.Type, info.Mode())
			return nil
		}
		if n.Type == tree.Symlink {
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			if target != n.Target {
				add("target", p, "%s, theirs %s", n.Target, target)
			}
			return nil
		}
		if theirs := st.Mode & 0o7777; theirs != n.Mode {
			add("mode", p, "%04o, theirs %04o", n.Mode, theirs)
		}
		if a, z := ourUsers[n.UID]+":"+ourGroups[n.GID], theirUsers[st.Uid]+":"+theirGroups[st.Gid]; a != z {
			add("owner", p, "%s, theirs %s", a, z)
		}
		if n.Type == tree.Regular && !sameContent(t, n, file, info.Size()) {
			add("content", p, "%d bytes, theirs %d", n.Content.Size(), info.Size())
		}
		return nil
	})
	require.NoError(t, err)
	for _, p := range ours.Paths() {
		if !seen[p] {
			n, err := ours.Lstat(p)
			require.NoError(t, err)
			add("extra", p, "from %s", n.Origin)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

func ids(t *testing.T, text []byte) map[uint32]string {
	t.Helper()
	out := map[uint32]string{}
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		f := strings.Split(s.Text(), ":")
		var id uint32
		_, err := fmt.Sscan(f[2], &id)
		require.NoError(t, err)
		out[id] = f[0]
	}
	return out
}

func sameType(a tree.Type, m fs.FileMode) bool {
	switch a {
	case tree.Dir:
		return m.IsDir()
	case tree.Regular:
		return m.IsRegular()
	case tree.Symlink:
		return m&fs.ModeSymlink != 0
	}
	return false
}

func sameContent(t *testing.T, n *tree.Inode, file string, size int64) bool {
	t.Helper()
	if n.Content.Size() != size {
		return false
	}
	r, err := n.Content.Open()
	require.NoError(t, err)
	defer r.Close()
	var ours bytes.Buffer
	_, err = ours.ReadFrom(r)
	require.NoError(t, err)
	return bytes.Equal(ours.Bytes(), readFile(t, file))
}
