package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/lock"
	"spore/builder/payload"
	"spore/builder/store"
	"spore/cluster"
)

// lockedBuild is a build that has chosen its packages, with a source tree of its own.
func lockedBuild(t *testing.T) *build {
	t.Helper()
	source := t.TempDir()
	for name, text := range map[string]string{"units/a.service": "[Unit]\n", "overlay/etc/x": "x\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(source, name), []byte(text), 0o644))
	}
	b := &build{Options: Options{
		Config: &cluster.Config{}, Source: source, Archive: &debArchive{}, BuildTime: 1830340800, Version: "0.1.0", Tool: strings.Repeat("1", 64),
	}}
	b.Config.Image.Suite = "trixie"
	b.packages = packageSet{
		list:      []apt.Package{lockablePackage("curl"), lockablePackage("linux-image-6.12.1-amd64")},
		requested: []string{"curl"}, release: "6.12.1-amd64",
	}
	b.packages.takeMedia([]apt.Package{lockablePackage("syslinux-common"), lockablePackage("isolinux")})
	return b
}

func lockablePackage(name string) apt.Package {
	return apt.Package{
		Name: name, Version: "1.0", Arch: "amd64", Source: name + "-source", Suite: "trixie", Component: "main",
		Filename: "pool/main/" + name + ".deb", Size: 10, SHA256: strings.Repeat("2", 64),
	}
}

// lockablePrograms are programs of every kind.
func lockablePrograms() binaries {
	compiled := func(name string) payload.Program {
		return payload.Program{Name: name, Compiled: true, Toolchain: "go1.26.8", Mode: 0o755, Target: "/usr/bin/" + name, Key: store.KeyOf(name)}
	}
	return binaries{
		agent: compiled("spore-agent"), stage1: compiled("init"), contained: []payload.Program{compiled("pause")},
		payloads: []payload.Program{compiled("coredns"), {Name: "kafka/a.jar", Version: "1", Mode: 0o644, Target: "/usr/share/a.jar", Key: store.KeyOf("jar")}},
	}
}

func TestALockOfABuildCanBeReadAndGivesItsPackages(t *testing.T) {
	b := lockedBuild(t)
	l, err := b.lockOf(lockablePrograms(), []lock.Image{{Name: "images/app.tar", SHA256: strings.Repeat("3", 64)}})
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), lock.Name)
	require.NoError(t, l.Write(name))
	read, err := lock.Read(name)
	require.NoError(t, err)
	require.Empty(t, lock.Diff(l, read))
	require.Equal(t, []string{"main"}, l.Components, "which image.yaml may leave out")

	var names []string
	for _, p := range l.Programs {
		names = append(names, p.Name+" "+p.Path)
	}
	require.Equal(t, []string{"coredns /usr/bin/coredns", "init ", "kafka/a.jar /usr/share/a.jar", "pause ", "spore-agent /usr/bin/spore-agent"}, names)

	pins := Pins(read)
	require.Equal(t, b.packages.list, pins.Closure)
	require.Equal(t, []apt.Package{lockablePackage("isolinux"), lockablePackage("syslinux-common")}, pins.Alone)
}

func TestALockSaysWhichOfOurOwnFilesChangedAndKnowsNoUmask(t *testing.T) {
	b := lockedBuild(t)
	diff := func() []string {
		l, err := b.lockOf(lockablePrograms(), nil)
		require.NoError(t, err)
		if b.Locked == nil {
			b.Locked = l
		}
		var out []string
		for _, c := range lock.Diff(b.Locked, l) {
			out = append(out, c.Change+" "+c.Kind+" "+c.Name)
		}
		return out
	}
	require.Empty(t, diff())
	unit := filepath.Join(b.Source, "units/a.service")
	require.NoError(t, os.Chmod(unit, 0o600))
	require.Empty(t, diff(), "what the umask decides about is not in the image")
	require.NoError(t, os.Chmod(unit, 0o755))
	require.Equal(t, []string{"changed source units"}, diff(), "a program is another file")
	require.NoError(t, os.Chmod(unit, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(b.Source, "overlay/etc/x"), []byte("y\n"), 0o644))
	require.Equal(t, []string{"changed source overlay"}, diff())
}

func TestABuildIsHeldToItsLock(t *testing.T) {
	b := lockedBuild(t)
	b.Source = "../.." // that of the agent
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	b.Store, b.Env, b.Folder = st, os.Environ(), fstest.MapFS{}
	require.NoError(t, b.checkLock(t.Context()), "a build without a lock is held to none")
	locked, err := b.plan(t.Context())
	require.NoError(t, err)
	b.Locked = locked
	require.NoError(t, b.checkLock(t.Context()))
	require.Len(t, locked.Programs, 2, "the agent and stage1, of which nothing was compiled")
	objects, err := filepath.Glob(filepath.Join(st.Dir(), "objects/*/*"))
	require.NoError(t, err)
	require.Empty(t, objects)

	b.packages.requested = []string{"wget"}
	b.BuildTime++
	b.Tool = strings.Repeat("4", 64)
	err = b.checkLock(t.Context())
	var mismatch *LockMismatch
	require.ErrorAs(t, err, &mismatch)
	require.EqualError(t, err, "image.lock does not match; this build would have (+), not have (-) or change (~):\n"+
		"  ~ spore 0.1.0 sha256:111111111111 -> 0.1.0 sha256:444444444444\n"+
		"  ~ build time 2028-01-01T12:00:00Z -> 2028-01-01T12:00:01Z\n"+
		"  - requested package curl\n"+
		"  + requested package wget\n"+
		"run spore lock --update to lock the present state, or restore the locked one")

	delete(b.packages.media, "isolinux")
	_, err = b.mediaPackage("isolinux")
	require.EqualError(t, err, "image.lock has no package isolinux; add it with spore lock --update")
	b.Locked = nil
	_, err = b.mediaPackage("isolinux")
	require.EqualError(t, err, "the archive has no package isolinux")
}
