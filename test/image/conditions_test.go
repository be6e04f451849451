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
	"maps"
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

// workshop is where builds are compared. A store of it has what an image is made of (downloads, compiled programs,
// compressed packages), and no root: each build composes and links its own.
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

// linkStore copies a store, its objects by hard links: they never change. Notes are small, and only their owner may
// read them.
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
	return w.hashes(t, c)
}

// hashes are those of what a build wrote, by path. They are all that is kept of it.
func (w *workshop) hashes(t *testing.T, c trial) map[string]string {
	t.Helper()
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

// condition is one thing that must not matter. apply adds it to a trial, which has others of its group already, or
// none; it returns why this machine cannot have it, if so.
type condition struct {
	name  string
	apply func(t *testing.T, c *trial) (unable string)
}

// testEachCondition varies things that must not matter, and compares every file that is written. The conditions of a
// group are varied together: when the bytes are the same, none of them matters; when they are not, each is tried alone.
// What is varied for compilers as well, and all at once, is TestTheSameInputsGiveTheSameBytes.
func testEachCondition(t *testing.T, w *workshop) {
	first := trial{store: filepath.Join(w.dir, "first")}
	linkStore(t, w.prepared, first.store)
	want := w.outputs(t, first)
	for _, name := range []string{"/spore.img", "/spore.iso", "/spore.efi", "/spore.manifest.json", "/spore.cdx.json", "/" + lock.Name} {
		require.Contains(t, want, name)
	}
	t.Run("again, with the root from the store", func(t *testing.T) { require.Equal(t, want, w.outputs(t, first)) })
	for _, group := range w.conditions() {
		w.testGroup(t, group, want)
	}
}

// testGroup varies the conditions of a group.
func (w *workshop) testGroup(t *testing.T, group []condition, want map[string]string) {
	var all trial
	unable := map[string]string{}
	for _, c := range group {
		unable[c.name] = c.apply(t, &all)
	}
	text, err := w.try(t, &all)
	same := err == nil
	if same {
		same = maps.Equal(want, w.hashes(t, all))
	} else {
		t.Log(text, err)
	}
	for _, c := range group {
		t.Run(c.name, func(t *testing.T) {
			if unable[c.name] != "" {
				t.Skip(unable[c.name])
			}
			if !same {
				var alone trial
				c.apply(t, &alone)
				require.Equal(t, want, w.outputs(t, alone))
			}
		})
	}
	require.True(t, same, "together they matter")
}

// conditions are all, in groups. What comes first in a group stands on an untouched trial.
func (w *workshop) conditions() [][]condition {
	// copied has the trial use a copy of the source, below a folder.
	copied := func(t *testing.T, c *trial, parent string) {
		c.source = filepath.Join(parent, "another place", "with a longer name")
		require.NoError(t, copyTree(w.repo, c.source))
		c.config = filepath.Join(c.source, "examples", "edge")
	}
	// each calls fn for every file and folder of a copy.
	each := func(t *testing.T, c *trial, fn func(p string, d fs.DirEntry) error) {
		if c.source == "" {
			copied(t, c, t.TempDir())
		}
		require.NoError(t, filepath.WalkDir(c.source, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return err
			}
			return fn(p, d)
		}))
	}
	dated := func(year int) func(*testing.T, *trial) string {
		return func(t *testing.T, c *trial) string {
			date := time.Date(year, 2, 29, 1, 2, 3, 4, time.UTC)
			each(t, c, func(p string, _ fs.DirEntry) error { return os.Chtimes(p, date, date) })
			return ""
		}
	}
	with := func(env ...string) func(*testing.T, *trial) string {
		return func(_ *testing.T, c *trial) string {
			if c.env == nil {
				c.env = os.Environ()
			}
			c.env = append(c.env, env...)
			return ""
		}
	}
	before := func(program ...string) func(*testing.T, *trial) string {
		return func(_ *testing.T, c *trial) string {
			c.before = append(c.before, program...)
			return ""
		}
	}
	return [][]condition{{
		{"folder of source and configuration", func(t *testing.T, c *trial) string {
			copied(t, c, t.TempDir())
			return ""
		}},
		{"source that was checked out under another umask", func(t *testing.T, c *trial) string {
			each(t, c, func(p string, d fs.DirEntry) error {
				info, err := d.Info()
				if err != nil {
					return err
				}
				return os.Chmod(p, info.Mode().Perm()&0o700)
			})
			return ""
		}},
		{"files from 1980", dated(1980)},
		{"umask 077", before("sh", "-c", `umask 077 && exec "$@"`, "sh")},
		{"time zone", with("TZ=Pacific/Chatham")},
		{"sixteen processors", with("GOMAXPROCS=16", "GOGC=20")},
	}, {
		{"order of files in a folder", func(t *testing.T, c *trial) string {
			// Filesystem in memory list what was made last first; others go by a hash.
			dir, err := os.MkdirTemp("/dev/shm", "spore-order-")
			if err != nil {
				return err.Error()
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			copied(t, c, dir)
			return ""
		}},
		{"files from the future", dated(2096)},
		{"umask 000", before("sh", "-c", `umask 000 && exec "$@"`, "sh")},
		{"locale", with("LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8", "LANGUAGE=tr")},
		{"one processor", with("GOMAXPROCS=1")},
		{"settings of compilers, packagers and shells", with(
			"GOFLAGS=-tags=other", "GOARCH=arm64", "GOAMD64=v3", "CGO_ENABLED=1", "CFLAGS=-O0", "DEB_BUILD_OPTIONS=nocheck", "DEBIAN_FRONTEND=dialog",
			"USER=somebody", "LOGNAME=somebody", "TERM=dumb", "COLUMNS=20", "TMPDIR=/var/tmp", "POSIXLY_CORRECT=1")},
	}, {
		{"home, and hardly any environment", func(t *testing.T, c *trial) string {
			c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOTOOLCHAIN=local"}
			return ""
		}},
		{"output folder, working directory and names relative to it", func(t *testing.T, c *trial) string {
			c.dir, c.config, c.source = filepath.Join(w.repo, "examples"), "edge", ".."
			c.out = relative(t, c.dir, filepath.Join(t.TempDir(), "an output"))
			return ""
		}},
		{"clock, three days ahead", before(w.clock, "72h")},
		{"host name", func(_ *testing.T, c *trial) string {
			if os.Geteuid() != 0 {
				return "only root can"
			}
			c.before = append(c.before, "sh", "-c", `hostname another.example && test "$(hostname)" = another.example && exec "$@"`, "sh")
			c.attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
			return ""
		}},
	}, {
		{"user", func(t *testing.T, c *trial) string {
			if os.Geteuid() != 0 {
				return "only root can"
			}
			openPath(t, w.dir)
			copied(t, c, w.dir)
			c.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GOTOOLCHAIN=local"}
			c.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
			return ""
		}},
	}}
}

// relative is a path as seen from a folder.
func relative(t *testing.T, from, to string) string {
	t.Helper()
	out, err := filepath.Rel(from, to)
	require.NoError(t, err)
	return out
}
