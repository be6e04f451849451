//go:build integration

// Package cache builds the image of examples/edge with the program spore while something goes wrong: full disks, folders that
// cannot be written, no network, mirrors that lie, signals, damaged caches, other builds. The program must say what is wrong,
// and lose nothing.
package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
	"spore/builder/store/kind"
)

// lab is what all tests share: the program, a configuration, and a cache with all that it needs.
type lab struct {
	repo, spore, config, cache string
	mirror                     *mirror
	// want are the hashes of the outputs of an undisturbed build, by name; took is how long it worked.
	want map[string]string
	took time.Duration
}

// shared makes the lab once; it lies in a folder that TestMain removes.
var shared struct {
	sync.Once
	dir string
	lab *lab
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

func setup(t *testing.T) *lab {
	t.Helper()
	shared.Do(func() {
		dir, err := os.MkdirTemp("", "spore-faults-")
		require.NoError(t, err)
		shared.dir = dir
		l := &lab{spore: filepath.Join(dir, "spore"), config: filepath.Join(dir, "configs"), cache: filepath.Join(dir, "cache")}
		l.repo, err = filepath.Abs("../..")
		require.NoError(t, err)
		compile := exec.Command("go", "build", "-trimpath", "-o", l.spore, "./builder")
		compile.Dir = l.repo
		text, err := compile.CombinedOutput()
		require.NoError(t, err, "%s", text)

		// The user's cache brings packages and programs, or gets them; what is damaged here is a copy. What is made of downloads is
		// made anew, by the program under test, which so asks for every index and package: the mirror needs them, and the user's
		// cache may have pruned some, as nobody reads them twice.
		example := filepath.Join(l.repo, "examples", "edge")
		out := filepath.Join(dir, "warm")
		user, err := os.UserCacheDir()
		require.NoError(t, err)
		for _, cache := range []string{filepath.Join(user, "spore"), l.cache} {
			text, err = exec.Command(l.spore, "build", example, "-o", out, "--cache", cache, "--source", l.repo).CombinedOutput()
			require.NoError(t, err, "%s", text)
			require.NoError(t, os.RemoveAll(out))
			if cache != l.cache {
				cloneStore(t, cache, l.cache, kind.Roots, kind.Initrds, kind.Packs, kind.Indexes)
			}
		}
		pruneRoots(t, l.cache)

		l.mirror = newMirror(t, l.cache)
		require.NoError(t, os.CopyFS(l.config, os.DirFS(example)))
		file := filepath.Join(l.config, "image.yaml")
		image, err := os.ReadFile(file)
		require.NoError(t, err)
		image = fmt.Appendf(image, "mirror: %s/debian\nsecurityMirror: %s/debian-security\n", l.mirror.url, l.mirror.url)
		require.NoError(t, os.WriteFile(file, image, 0o644))

		start := time.Now()
		reference := filepath.Join(dir, "reference")
		done := l.build(l.cache, reference).run(t)
		require.NoError(t, done.err, done.said)
		l.took = time.Since(start)
		l.want = hashes(t, reference)
		require.Contains(t, l.want, "spore.img")
		require.NoError(t, os.RemoveAll(reference))
		shared.lab = l
	})
	require.NotNil(t, shared.lab, "the lab could not be made: see the first test")
	return shared.lab
}

// cloneStore links the objects of a store into another one, but for some kinds. Objects are never changed in place.
func cloneStore(t *testing.T, from, to string, without ...kind.Kind) {
	t.Helper()
	objects, err := store.List(from)
	require.NoError(t, err)
	for _, o := range objects {
		k, err := kind.OfFile(o.Path)
		require.NoError(t, err)
		if slices.Contains(without, k) {
			continue
		}
		target := filepath.Join(to, strings.TrimPrefix(o.Path, from))
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		if os.Link(o.Path, target) != nil {
			require.NoError(t, copyFile(o.Path, target))
		}
	}
	notes := filepath.Join(from, "notes")
	list, err := os.ReadDir(notes)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(to, "notes"), 0o755))
	for _, e := range list {
		if e.Name() != "usage" { // that of another store
			require.NoError(t, copyFile(filepath.Join(notes, e.Name()), filepath.Join(to, "notes", e.Name())))
		}
	}
}

// copyFile copies a file with its checksum, so that the copy can be damaged alone.
func copyFile(from, to string) error {
	return exec.Command("cp", "--preserve=mode,timestamps,xattr", from, to).Run()
}

// clone is a cache of a test's own.
func (l *lab) clone(t *testing.T, without ...kind.Kind) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	cloneStore(t, l.cache, dir, without...)
	return dir
}

// attempt is a build that is about to run.
type attempt struct {
	lab        *lab
	cache, out string
	flags      []string
	// wrap are the words before the program: a shell that changes mounts, for instance.
	wrap []string
}

type ended struct {
	err  error
	said string
}

func (l *lab) build(cache, out string, flags ...string) attempt {
	return attempt{lab: l, cache: cache, out: out, flags: flags}
}

// in runs the build in namespaces of its own (unshare(1)) after some commands of a shell, which may be root there.
func (a attempt) in(flags, script string) attempt {
	a.wrap = []string{"unshare", "--map-root-user", flags, "sh", "-ec", script + "\n" + `exec "$@"`, "sh"}
	return a
}

func (a attempt) command(ctx context.Context) *exec.Cmd {
	args := append(append([]string{}, a.wrap...), a.lab.spore, "build", a.lab.config, "-o", a.out, "--cache", a.cache, "--source", a.lab.repo)
	cmd := exec.CommandContext(ctx, args[0], append(args[1:], a.flags...)...)
	cmd.Env = append(os.Environ(), "CACHE="+a.cache, "OUT="+a.out)
	return cmd
}

func (a attempt) run(t *testing.T) ended {
	t.Helper()
	cmd := a.command(t.Context())
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return ended{err, string(text)}
}

// fails runs a build that must end with exit code 1 and words that say why.
func (a attempt) fails(t *testing.T, words ...string) {
	t.Helper()
	done := a.run(t)
	require.Error(t, done.err, done.said)
	var exit *exec.ExitError
	require.ErrorAs(t, done.err, &exit)
	require.Equal(t, 1, exit.ExitCode(), done.said)
	for _, w := range words {
		require.Contains(t, done.said, w)
	}
	require.NotContains(t, done.said, "goroutine ")
}

// good runs a build that must give the bytes of the undisturbed one and leave nothing else behind. It returns what was said.
func (a attempt) good(t *testing.T) string {
	t.Helper()
	done := a.run(t)
	require.NoError(t, done.err, done.said)
	require.Equal(t, a.lab.want, hashes(t, a.out))
	requireTidy(t, a)
	return done.said
}

// requireTidy finds no temporary file in cache and output folder.
func requireTidy(t *testing.T, a attempt) {
	t.Helper()
	for _, dir := range []string{"tmp", "sessions", "partial"} {
		require.Empty(t, names(t, filepath.Join(a.cache, dir)), dir)
	}
	for _, name := range names(t, a.out) {
		require.Contains(t, a.lab.want, name, "in the output folder")
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// hashes are those of the outputs in a folder by name; names of unfinished files begin with a dot.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names(t, dir) {
		if !strings.HasPrefix(name, ".") {
			out[name] = hashOf(t, filepath.Join(dir, name))
		}
	}
	return out
}

// hashOf hashes the data of a file, whose holes are skipped: an image is 3 GiB, most of it holes.
func hashOf(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	h := sha256.New()
	fmt.Fprintln(h, info.Size())
	buf, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); at < info.Size(); {
		data, err := f.Seek(at, 3) // SEEK_DATA (lseek(2))
		if err != nil {
			break
		}
		at = data / int64(len(buf)) * int64(len(buf))
		n, err := f.ReadAt(buf, at)
		if !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		if !bytes.Equal(buf[:n], zeros[:n]) {
			fmt.Fprintln(h, at)
			h.Write(buf[:n])
		}
		at += int64(len(buf))
	}
	return hex.EncodeToString(h.Sum(nil))
}
