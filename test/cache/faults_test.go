//go:build integration

package cache

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
	"spore/builder/store/kind"
)

// older is an output folder with an image of an earlier build.
func older(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.Mkdir(out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "spore.img"), []byte("older"), 0o644))
	return out
}

func requireOlder(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "spore.img"))
	require.NoError(t, err)
	require.Equal(t, "older", string(text))
}

func TestAFullDisk(t *testing.T) {
	l := setup(t)
	t.Run("of the output folder", func(t *testing.T) {
		out := older(t)
		// The image is written beside the older one; both are looked at before the mount goes.
		a := l.build(l.clone(t), out)
		a.wrap = []string{"unshare", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs -o size=48m tmpfs "$OUT" && echo older > "$OUT/spore.img"; "$@"; code=$?; ls -A "$OUT"; cat "$OUT/spore.img"; exit $code`, "sh"}
		a.fails(t, "no space left on device", "write the disk image", "\nspore.efi\nspore.img\nolder\n")
		requireOlder(t, out)
		l.build(a.cache, out).good(t)
	})
	t.Run("of the cache", func(t *testing.T) {
		out := older(t)
		cache := t.TempDir()
		l.build(cache, out).in("--mount", `mount -t tmpfs -o size=4m tmpfs "$CACHE"`).fails(t, "no space left on device", "the disk of the cache folder "+cache+" is full; free some of it, for instance with spore cache prune")
		requireOlder(t, out)
	})
	t.Run("that has not even room for a session", func(t *testing.T) {
		cache := t.TempDir()
		l.build(cache, older(t)).in("--mount", `mount -t tmpfs -o nr_inodes=5 tmpfs "$CACHE"`).fails(t, "open store", "no space left on device", "is full; free some of it")
	})
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	l := setup(t)
	cache, out := l.clone(t), older(t)
	const readOnly = `mount --bind "$DIR" "$DIR"; mount -o remount,bind,ro "$DIR"`
	l.build(cache, out).in("--mount", strings.ReplaceAll(readOnly, "DIR", "CACHE")).
		fails(t, "read-only file system", "a build writes into its cache folder "+cache+"; make it writable, or name another folder with --cache")
	requireOlder(t, out)
	l.build(cache, out).in("--mount", strings.ReplaceAll(readOnly, "DIR", "OUT")).fails(t, "read-only file system", out)
	requireOlder(t, out)
	l.build(cache, out).good(t)
}

func TestNoNetwork(t *testing.T) {
	l := setup(t)
	out := older(t)
	t.Run("a warm cache is enough", func(t *testing.T) {
		l.build(l.clone(t), out).in("--net", "").good(t)
		l.build(l.clone(t), older(t), "--offline").in("--net", "").good(t)
	})
	t.Run("a mirror has to be asked", func(t *testing.T) {
		out := older(t)
		l.build(l.clone(t), out, "--update").in("--net", "").fails(t, "suite trixie: ", "mirror of image.yaml", "--offline builds with it")
		requireOlder(t, out)
	})
	t.Run("a cold cache", func(t *testing.T) {
		out := older(t)
		l.build(t.TempDir(), out, "--offline").in("--net", "").fails(t, "the cache has no index of it", "build once without --offline")
		requireOlder(t, out)
	})
	t.Run("a package is missing", func(t *testing.T) {
		out := older(t)
		l.build(l.clone(t, kind.Packages, kind.Packs, kind.Roots), out, "--offline").in("--net", "").fails(t, "is not in the store", "build once without --offline")
		requireOlder(t, out)
	})
}

func TestAMirrorThatChangesUnderTheBuild(t *testing.T) {
	l := setup(t)
	defer l.mirror.set(nil)
	is := func(r *http.Request, part string) bool { return strings.Contains(r.URL.Path, part) }
	for name, tt := range map[string]struct {
		without []kind.Kind
		spoil   func(w http.ResponseWriter, r *http.Request, data []byte) bool
		words   []string
	}{
		"the release file is another one": {
			[]kind.Kind{kind.Indexes},
			func(w http.ResponseWriter, r *http.Request, data []byte) bool {
				if !is(r, "InRelease") {
					return false
				}
				_, _ = w.Write([]byte(strings.Replace(string(data), "Origin: Debian", "Origin: Nobody", 1)))
				return true
			},
			[]string{"suite trixie: ", "signature"},
		},
		"an index has gone": {
			[]kind.Kind{kind.Indexes},
			func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if !is(r, "/by-hash/") {
					return false
				}
				http.NotFound(w, r)
				return true
			},
			[]string{"404 Not Found", "the index may be out of date, or the mirror incomplete"},
		},
		"a package has other bytes": {
			[]kind.Kind{kind.Packages, kind.Packs, kind.Roots},
			func(w http.ResponseWriter, r *http.Request, data []byte) bool {
				if !is(r, "/pool/") {
					return false
				}
				data[len(data)/2] ^= 1
				_, _ = w.Write(data)
				return true
			},
			[]string{"its SHA-256 is", "use another mirror"},
		},
		"a package ends early": {
			[]kind.Kind{kind.Packages, kind.Packs, kind.Roots},
			func(w http.ResponseWriter, r *http.Request, data []byte) bool {
				if !is(r, "/pool/") {
					return false
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(data)/2))
				_, _ = w.Write(data[:len(data)/2])
				return true
			},
			[]string{"bytes and not", "as the index says; use another mirror"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache, out := l.clone(t, tt.without...), older(t)
			l.mirror.set(tt.spoil)
			l.build(cache, out, "--update").fails(t, tt.words...)
			requireOlder(t, out)
			l.mirror.set(nil)
			l.build(cache, out, "--update").good(t)
		})
	}
}

// small is the size of what is soon made anew, in bytes.
const small = 400 << 10

// object finds the largest object of a kind, with a size and a beginning, in a cache and makes it a file of its own, which can be
// damaged.
func object(t *testing.T, cache string, k kind.Kind, magic string, most int64) string {
	t.Helper()
	objects, err := store.List(cache)
	require.NoError(t, err)
	var found store.Object
	for _, o := range objects {
		head := make([]byte, len(magic))
		f, err := os.Open(o.Path)
		require.NoError(t, err)
		_, _ = f.Read(head)
		f.Close()
		if got, err := kind.OfFile(o.Path); err == nil && got == k && string(head) == magic && o.Size > found.Size && o.Size <= most {
			found = o
		}
	}
	require.NotEmpty(t, found.Path, "%s %q", k, magic)
	require.NoError(t, copyFile(found.Path, found.Path+".copy"))
	require.NoError(t, os.Rename(found.Path+".copy", found.Path))
	return found.Path
}

// packOf builds with a cache that misses some small packs, and returns one that was made: by the program under test, which notes
// the checksum, and not by an older one. The build uses it.
func packOf(t *testing.T, l *lab, cache string) string {
	t.Helper()
	objects, err := store.List(cache)
	require.NoError(t, err)
	var gone []string
	for _, o := range objects {
		k, err := kind.OfFile(o.Path)
		require.NoError(t, err)
		if k == kind.Packs && o.Size > small/4 && o.Size <= small {
			require.NoError(t, os.Remove(o.Path))
			gone = append(gone, o.Path)
		}
	}
	l.build(cache, filepath.Join(t.TempDir(), "out")).good(t)
	for _, name := range gone {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	require.Fail(t, "no small pack is used")
	return ""
}

func TestADamagedCacheMendsItself(t *testing.T) {
	l := setup(t)
	flip := func(f *os.File, size int64) error {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, size/2); err != nil {
			return err
		}
		_, err := f.WriteAt([]byte{b[0] ^ 1}, size/2)
		return err
	}
	cut := func(f *os.File, size int64) error { return f.Truncate(size / 2) }
	empty := func(f *os.File, _ int64) error { return f.Truncate(0) }
	for _, tt := range []struct {
		name   string
		kind   kind.Kind
		magic  string
		change func(f *os.File, size int64) error
		// compose says that the root is composed anew.
		compose, said bool
	}{
		{"what a package says of itself is cut", kind.Packs, `{"name"`, cut, true, false},
		{"the hash tree of the root is empty", kind.Roots, "verity", empty, false, false},
		{"a bit of the kernel is flipped", kind.Roots, "MZ", flip, false, true},
		{"a bit of the initramfs is flipped", kind.Initrds, "\x28\xb5\x2f\xfd", flip, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			without := []kind.Kind{}
			if tt.compose {
				without = append(without, kind.Roots)
			}
			cache, out := l.clone(t, without...), older(t)
			name := object(t, cache, tt.kind, tt.magic, math.MaxInt64)
			change(t, name, tt.change)
			said := l.build(cache, out).good(t)
			if tt.said {
				require.Contains(t, said, "it was damaged and is removed from the cache; it is made again")
			}
		})
	}
	t.Run("a bit of a pack is flipped, and of a root", func(t *testing.T) {
		cache, out := l.clone(t, kind.Roots), older(t)
		pack := packOf(t, l, cache)
		change(t, pack, flip)
		change(t, object(t, cache, kind.Roots, "hsqs", math.MaxInt64), flip)
		require.Contains(t, check(t, l, cache), "damaged and removed: "+pack)
		l.build(cache, out).good(t)
		change(t, pack, flip)
		pruneRoots(t, cache)
		require.Contains(t, l.build(cache, older(t)).good(t), "it is made again")
	})
}
