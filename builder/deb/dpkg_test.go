package deb

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/deb/debtest"
	"spore/builder/tree"
)

// dpkg-deb is the second opinion in both directions: it reads what debtest writes, and we read what it writes.
func TestDpkgSeesTheSameEntries(t *testing.T) {
	tool, err := exec.LookPath("dpkg-deb")
	require.NoError(t, err, "run make deps")
	for _, compress := range []string{"none", "gzip", "xz", "zstd"} {
		t.Run(compress, func(t *testing.T) {
			root, file := t.TempDir(), filepath.Join(t.TempDir(), "made.deb")
			require.NoError(t, os.MkdirAll(filepath.Join(root, "DEBIAN"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "DEBIAN/control"), []byte(debtest.Control("made", "1.0-1")), 0o644))
			require.NoError(t, os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "usr/bin/a"), bytes.Repeat([]byte("data "), 1000), 0o755))
			require.NoError(t, os.Link(filepath.Join(root, "usr/bin/a"), filepath.Join(root, "usr/bin/b")))
			require.NoError(t, os.Symlink("a", filepath.Join(root, "usr/bin/c")))
			require.NoError(t, os.Chmod(root, 0o755))
			out, err := exec.Command(tool, "--root-owner-group", "-Z"+compress, "--build", root, file).CombinedOutput()
			require.NoError(t, err, "%s", out)

			data, err := os.ReadFile(file)
			require.NoError(t, err)
			entries, bodies, err := read(data, Options{})
			require.NoError(t, err)
			require.Equal(t, strings.Repeat("data ", 1000), bodies["/usr/bin/a"])
			require.Equal(t, dpkgList(t, tool, file), ourList(entries))
		})
	}
	file := filepath.Join(t.TempDir(), "ours.deb")
	require.NoError(t, os.WriteFile(file, sample.Bytes(), 0o644))
	entries, _, err := read(sample.Bytes(), Options{})
	require.NoError(t, err)
	require.Equal(t, dpkgList(t, tool, file), ourList(entries))
}

// dpkgList is "path type-and-mode" of every entry, as dpkg-deb -c prints them.
func dpkgList(t *testing.T, tool, file string) []string {
	t.Helper()
	cmd := exec.Command(tool, "-c", file)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	require.NoError(t, err)
	var list []string
	s := bufio.NewScanner(bytes.NewReader(out))
	for s.Scan() {
		words := strings.Fields(s.Text())
		mode, rest := words[0], strings.Join(words[5:], " ")
		name, _, _ := strings.Cut(rest, " -> ")
		name, target, link := strings.Cut(name, " link to ")
		if link {
			mode = "h " + filepath.Clean("/"+target)
		}
		list = append(list, filepath.Clean("/"+strings.ReplaceAll(name, `\\`, `\`))+" "+mode)
	}
	slices.Sort(list)
	return list
}

func ourList(entries []Header) []string {
	letters := map[tree.Type]string{tree.Dir: "d", tree.Regular: "-", tree.Symlink: "l", tree.CharDevice: "c", tree.BlockDevice: "b", tree.Fifo: "p"}
	var list []string
	for _, e := range entries {
		mode := letters[e.Inode.Type]
		for i := 8; i >= 0; i-- {
			bit := string("xwr"[i%3])
			if e.Inode.Mode&(1<<i) == 0 {
				bit = "-"
			}
			if i == 6 && e.Inode.Mode&0o4000 != 0 {
				bit = "s"
			}
			mode += bit
		}
		if e.Link != "" {
			mode = "h " + e.Link
		}
		list = append(list, fmt.Sprintf("%s %s", e.Path, mode))
	}
	slices.Sort(list)
	return list
}
