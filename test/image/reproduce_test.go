//go:build integration

// Package image builds the image of examples/edge and looks at what comes out: the same bytes under conditions that
// must not matter, a short way after an edit, what `spore inspect` says of it, and that nothing secret is in it.
package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/lock"
	"spore/pki/vault"
)

// otherUser is nobody of Debian.
const otherUser = 65534

// TestTheSameInputsGiveTheSameBytes builds it as another user, in another folder, from an empty store and a compiler
// cache of its own, with another umask, time zone, locale and a single processor, and compares every output file with
// those of a build here. The other tests have the other processor in the meantime.
//
// The compiler cache stays for the next run: it has only what that other user compiled, and Go compiles again whatever
// a pin, the toolchain or an edit changed. SPORE_COLD=1 empties it before.
func TestTheSameInputsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	repo, built := buildSpore(t)
	work, err := os.MkdirTemp("", "spore-reproduce-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(work) })
	require.NoError(t, os.Chmod(work, 0o755))

	// Where another user can run it.
	spore := filepath.Join(work, "spore")
	program, err := os.ReadFile(built)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(spore, program, 0o755))

	first := filepath.Join(work, "first")
	here := []string{spore, "build", filepath.Join(repo, "examples", "edge"), "-o", first, "--format", "disk,iso,netboot,uki,update", "--source", repo, "--update"}

	elsewhere := filepath.Join(work, "elsewhere", "a folder")
	require.NoError(t, copyTree(repo, elsewhere))
	home := filepath.Join(work, "home")
	require.NoError(t, os.MkdirAll(home, 0o777))
	second := filepath.Join(home, "second")
	// umask has no field in SysProcAttr, so the shell sets it.
	there := []string{"sh", "-c", `umask 077 && exec "$@"`, "sh",
		spore, "build", filepath.Join(elsewhere, "examples", "edge"), "-o", second, "--format", "disk,iso,netboot,uki,update", "--source", elsewhere, "--cache", filepath.Join(home, "store"), "--update"}
	gocache := otherCompilerCache(t)
	as := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		require.NoError(t, chownTree(home, otherUser))
		openPath(t, goEnv(t, "GOMODCACHE"))
		openPath(t, filepath.Dir(gocache))
		as.Credential = &syscall.Credential{Uid: otherUser, Gid: otherUser}
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=Pacific/Chatham", "LC_ALL=tr_TR.UTF-8", "GOMAXPROCS=1",
		"GOCACHE=" + gocache,
		// What compilers are told elsewhere; it must not reach the programs of an image.
		"GOFLAGS=-tags=other -gcflags=-N", "GOARCH=arm64", "GOAMD64=v3", "CGO_ENABLED=1",
		// Modules are inputs, verified by go.sum; downloading them twice would prove nothing.
		"GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOPROXY=" + goEnv(t, "GOPROXY"), "GOSUMDB=" + goEnv(t, "GOSUMDB"), "GOTOOLCHAIN=" + goEnv(t, "GOTOOLCHAIN"),
	}
	// The archive is an input, and it moves on: twice a day something is published. Both ask it, the long build first;
	// when it moved in between, both ask again, and what they compiled is there by then.
	for round := 1; ; round++ {
		cmd := exec.Command(there[0], there[1:]...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = home, env, as
		run(t, cmd)
		run(t, exec.Command(here[0], here[1:]...))
		if round == 3 || archived(t, first) == archived(t, second) {
			break
		}
		t.Log("the package archive moved on between the two builds")
	}

	names := []string{"spore.img", "spore.iso", "spore.efi", "spore.manifest.json", "spore.cdx.json", "spore.spdx.json", "spore.provenance.json", lock.Name}
	for _, pattern := range []string{"netboot/*.*", "netboot/ipxe/*", "netboot/vmlinuz", "netboot/initrd", "netboot/cmdline", "update/*.index", "update/pieces/*"} {
		found, err := filepath.Glob(filepath.Join(first, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f, first+"/"))
		}
	}
	for _, name := range names {
		require.Equal(t, hash(t, filepath.Join(first, name)), hash(t, filepath.Join(second, name)), "%s differs", name)
	}
}

// otherCompilerCache is the folder of the compiler cache of the other user, who owns it.
func otherCompilerCache(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(cache, "spore-tests", "elsewhere")
	if os.Getenv("SPORE_COLD") != "" {
		require.NoError(t, os.RemoveAll(dir))
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, otherUser, otherUser))
	}
	return dir
}

// archived are the hashes of the signed indexes that an image was built from.
func archived(t *testing.T, out string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "spore.provenance.json"))
	require.NoError(t, err)
	var s struct {
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					Name   string
					Digest struct{ SHA256 string }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &s))
	var hashes []string
	for _, d := range s.Predicate.BuildDefinition.ResolvedDependencies {
		if strings.HasSuffix(d.Name, "/InRelease") {
			hashes = append(hashes, d.Digest.SHA256)
		}
	}
	require.NotEmpty(t, hashes)
	return strings.Join(hashes, " ")
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", strings.Join(cmd.Args, " "), out)
	require.NoError(t, err)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// passages are the folders that tests opened for other users, until the last of these tests ends: they run side by
// side.
var passages struct {
	mu   sync.Mutex
	dirs map[string]passage
}

// passage is a folder's mode before, and how many tests need it open.
type passage struct {
	mode fs.FileMode
	uses int
}

// openPath lets other users pass through the parents of a folder for the length of the test.
func openPath(t *testing.T, dir string) {
	t.Helper()
	passages.mu.Lock()
	defer passages.mu.Unlock()
	if passages.dirs == nil {
		passages.dirs = map[string]passage{}
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		p, open := passages.dirs[d]
		if !open {
			info, err := os.Stat(d)
			require.NoError(t, err)
			p.mode = info.Mode().Perm()
			if p.mode&0o001 != 0 {
				continue
			}
			require.NoError(t, os.Chmod(d, p.mode|0o001))
		}
		p.uses++
		passages.dirs[d] = p
		t.Cleanup(func() { closePath(d) })
	}
}

func closePath(dir string) {
	passages.mu.Lock()
	defer passages.mu.Unlock()
	p := passages.dirs[dir]
	if p.uses--; p.uses > 0 {
		passages.dirs[dir] = p
		return
	}
	delete(passages.dirs, dir)
	os.Chmod(dir, p.mode)
}

// copyTree copies the working files of the repository, readable by everybody. Of the operator's folders it takes the
// public half.
func copyTree(from, to string) error {
	skip := map[string]bool{".git": true, "out": true, "bin": true}
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skip[rel] {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if filepath.Ext(filepath.Dir(rel)) == ".pki" && d.Name() != vault.PublicFile {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, filepath.Join(to, rel))
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, info.Mode().Perm()|0o444)
	})
}

func chownTree(dir string, id int) error {
	return filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, id, id)
	})
}

func hash(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return hex.EncodeToString(h.Sum(nil))
}
