//go:build integration

package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/builder/lock"
)

// comparedFormats are those of every build here. The folder for network boot has the same root, and is compared by
// TestTheSameInputsGiveTheSameBytes.
const comparedFormats = "disk,iso,uki"

// workshop is where builds are compared. A store of it has what an image is made of (downloads, compiled programs, compressed
// packages), and no root: each build composes and links its own.
type workshop struct {
	repo, spore, clock string
	// dir is on the filesystem of the cache, prepared the store that others are copies of.
	dir, prepared string
	cpu           time.Duration
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{}
	var built string
	w.repo, built = buildSpore(t)
	build(t, built, w.repo, filepath.Join(w.repo, "examples", "edge"), filepath.Join(t.TempDir(), "out"))
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	w.dir, err = os.MkdirTemp(cache, "spore-workshop-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(w.dir) })
	require.NoError(t, os.Chmod(w.dir, 0o755))

	// A root is kept for the program that made it. This one is another, and does the same: nothing reads behind the end.
	w.spore = filepath.Join(w.dir, "spore")
	program, err := os.ReadFile(built)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.spore, append(program, 0), 0o755))
	w.clock = filepath.Join(w.dir, "clock")
	cmd := exec.Command("go", "build", "-o", w.clock, "./test/clock")
	cmd.Dir = w.repo
	run(t, cmd)
	w.prepared = filepath.Join(w.dir, "prepared")
	linkStore(t, filepath.Join(cache, "spore"), w.prepared)
	return w
}

// linkStore copies a store, its objects by hard links: they never change. Notes are small, and only their owner may read them.
func linkStore(t *testing.T, from, to string) {
	t.Helper()
	for _, part := range []string{"objects", "notes"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(from, part), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			target := filepath.Join(to, strings.TrimPrefix(p, from))
			if d.IsDir() {
				return os.MkdirAll(target, 0o755)
			}
			if part == "objects" {
				return os.Link(p, target)
			}
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(target, data, 0o644)
		}))
	}
}

// trial is one build; its zero value is the one that all are compared with.
type trial struct {
	// before are a program and its arguments that run spore.
	before []string
	// source and config are folders; those of the repository when empty.
	source, config string
	// store is a copy of prepared of its own when empty.
	store string
	// dir is the working directory, out the output folder as the command line has it.
	dir, out string
	env      []string
	args     []string
	attr     *syscall.SysProcAttr
	// online lets it use the network.
	online bool
}

// outputs are the hashes of what a build writes, by path.
func (w *workshop) outputs(t *testing.T, c trial) map[string]string {
	t.Helper()
	text, err := w.try(t, &c)
	require.NoError(t, err, "%s", text)
	out := c.out
	if !filepath.IsAbs(out) {
		out = filepath.Join(c.dir, out)
	}
	hashes := map[string]string{}
	require.NoError(t, filepath.WalkDir(out, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			hashes[strings.TrimPrefix(p, out)] = sparseHash(t, p)
		}
		return err
	}))
	require.NoError(t, os.RemoveAll(out))
	return hashes
}

// try builds, and returns what was printed.
func (w *workshop) try(t *testing.T, c *trial) (string, error) {
	t.Helper()
	place, err := os.MkdirTemp(w.dir, "trial-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(place) })
	if c.source == "" {
		c.source = w.repo
	}
	if c.config == "" {
		c.config = filepath.Join(w.repo, "examples", "edge")
	}
	if c.store == "" {
		c.store = filepath.Join(place, "store")
		linkStore(t, w.prepared, c.store)
	}
	if c.dir == "" {
		c.dir = place
	}
	if c.out == "" {
		c.out = filepath.Join(place, "out")
	}
	args := append(slices.Clone(c.before), w.spore, "build", c.config, "-o", c.out, "--format", comparedFormats, "--source", c.source, "--cache", c.store)
	if !c.online {
		args = append(args, "--offline")
	}
	if c.attr != nil && c.attr.Credential != nil {
		require.NoError(t, os.Chmod(place, 0o755))
		require.NoError(t, filepath.WalkDir(place, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() { // the objects are shared with the cache
				return err
			}
			return os.Lchown(p, otherUser, otherUser)
		}))
	}
	cmd := exec.Command(args[0], append(args[1:], c.args...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.dir, c.env, c.attr
	if c.env == nil {
		cmd.Env = os.Environ()
	}
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		w.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return string(text), err
}

// sparseHash hashes the size of a file and those of its blocks that are not zero, with their places: a disk image is
// mostly holes.
func sparseHash(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	h := sha256.New()
	require.NoError(t, binary.Write(h, binary.LittleEndian, info.Size()))
	block, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < info.Size(); at += int64(len(block)) {
		data, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil {
			at = data - data%int64(len(block))
		}
		n, err := f.ReadAt(block, at)
		if !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		if !bytes.Equal(block[:n], zero[:n]) {
			require.NoError(t, binary.Write(h, binary.LittleEndian, at))
			h.Write(block[:n])
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestWhatDecidesAboutTheBytes compares builds of one workshop: what must not matter does not, and a lock does.
func TestWhatDecidesAboutTheBytes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	t.Run("each condition alone changes nothing", func(t *testing.T) { testEachCondition(t, w) })
	t.Run("a locked build is that of the lock and no other", func(t *testing.T) { testLocked(t, w) })
	t.Run("ids of accounts stay", func(t *testing.T) { testAccounts(t, w) })
	t.Logf("%.1f s of a processor", w.cpu.Seconds())
}

// testEachCondition varies one thing at a time that must not matter, and compares every file that is written. What is varied
// for compilers as well, and all at once, is TestTheSameInputsGiveTheSameBytes.
func testEachCondition(t *testing.T, w *workshop) {
	first := trial{store: filepath.Join(w.dir, "first")}
	linkStore(t, w.prepared, first.store)
	want := w.outputs(t, first)
	for _, name := range []string{"/spore.img", "/spore.iso", "/spore.efi", "/spore.manifest.json", "/spore.cdx.json", "/" + lock.Name} {
		require.Contains(t, want, name)
	}

	copied := func(t *testing.T, parent string) trial {
		to := filepath.Join(parent, "another place", "with a longer name")
		require.NoError(t, copyTree(w.repo, to))
		return trial{source: to, config: filepath.Join(to, "examples", "edge")}
	}
	// each calls fn for every file and folder of a copy.
	each := func(t *testing.T, c trial, fn func(p string, d fs.DirEntry) error) trial {
		require.NoError(t, filepath.WalkDir(c.source, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return err
			}
			return fn(p, d)
		}))
		return c
	}
	dated := func(year int) func(*testing.T) trial {
		return func(t *testing.T) trial {
			date := time.Date(year, 2, 29, 1, 2, 3, 4, time.UTC)
			return each(t, copied(t, t.TempDir()), func(p string, _ fs.DirEntry) error { return os.Chtimes(p, date, date) })
		}
	}
	with := func(env ...string) func(*testing.T) trial {
		return func(*testing.T) trial { return trial{env: append(os.Environ(), env...)} }
	}
	asRoot := func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can")
		}
	}

	for _, c := range []struct {
		name  string
		trial func(t *testing.T) trial
	}{
		{"again, with the root from the store", func(*testing.T) trial { return first }},
		{"folder of source and configuration", func(t *testing.T) trial { return copied(t, t.TempDir()) }},
		{"output folder, working directory and names relative to it", func(t *testing.T) trial {
			return trial{dir: filepath.Join(w.repo, "examples"), config: "edge", source: "..", out: relative(t, filepath.Join(w.repo, "examples"), filepath.Join(t.TempDir(), "an output"))}
		}},
		{"user", func(t *testing.T) trial {
			asRoot(t)
			openPath(t, w.dir)
			c := copied(t, w.dir)
			c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GOTOOLCHAIN=local"}
			c.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
			return c
		}},
		{"umask 077", func(*testing.T) trial { return trial{before: []string{"sh", "-c", `umask 077 && exec "$@"`, "sh"}} }},
		{"umask 000", func(*testing.T) trial { return trial{before: []string{"sh", "-c", `umask 000 && exec "$@"`, "sh"}} }},
		{"source that was checked out under another umask", func(t *testing.T) trial {
			return each(t, copied(t, t.TempDir()), func(p string, d fs.DirEntry) error {
				info, err := d.Info()
				if err != nil {
					return err
				}
				return os.Chmod(p, info.Mode().Perm()&0o700)
			})
		}},
		{"order of files in a folder", func(t *testing.T) trial {
			// Filesystem in memory list what was made last first; others go by a hash.
			dir, err := os.MkdirTemp("/dev/shm", "spore-order-")
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			return copied(t, dir)
		}},
		{"files from 1980", dated(1980)},
		{"files from the future", dated(2096)},
		{"time zone", with("TZ=Pacific/Chatham")},
		{"locale", with("LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8", "LANGUAGE=tr")},
		{"clock, three days ahead", func(*testing.T) trial { return trial{before: []string{w.clock, "72h"}} }},
		{"one processor", with("GOMAXPROCS=1")},
		{"sixteen processors", with("GOMAXPROCS=16", "GOGC=20")},
		{"host name", func(t *testing.T) trial {
			asRoot(t)
			return trial{
				before: []string{"sh", "-c", `hostname another.example && test "$(hostname)" = another.example && exec "$@"`, "sh"},
				attr:   &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS},
			}
		}},
		{"home, and hardly any environment", func(t *testing.T) trial {
			return trial{env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOTOOLCHAIN=local"}}
		}},
		{"settings of compilers, packagers and shells", with(
			"GOFLAGS=-tags=other", "GOARCH=arm64", "GOAMD64=v3", "CGO_ENABLED=1", "CFLAGS=-O0", "DEB_BUILD_OPTIONS=nocheck", "DEBIAN_FRONTEND=dialog",
			"USER=somebody", "LOGNAME=somebody", "TERM=dumb", "COLUMNS=20", "TMPDIR=/var/tmp", "POSIXLY_CORRECT=1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, want, w.outputs(t, c.trial(t)))
		})
	}
}

// relative is a path as seen from a folder.
func relative(t *testing.T, from, to string) string {
	t.Helper()
	out, err := filepath.Rel(from, to)
	require.NoError(t, err)
	return out
}
