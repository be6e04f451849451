package explainfile

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
	"spore/builder/origins"
	"spore/builder/recipe"
	"spore/builder/rootfs"
	"spore/builder/rootfs/rootfstest"
	"spore/builder/tree"
	"spore/builder/unsquash"
)

const status = `Package: mosquitto
Depends: libmosquitto1 (>= 2), libssl3t64 | libssl3

Package: libssl3t64
Provides: libcrypto (= 1)
Pre-Depends: libc6:any

Package: libmosquitto1
Depends: libcrypto

Package: libc6

Package: dash
Essential: yes

Package: stray
`

func sample(t testing.TB) *rootfs.Image {
	t.Helper()
	tr := tree.New()
	file := func(p, text, origin string, mode uint32) {
		require.NoError(t, tr.WriteFile(p, []byte(text), mode, origin))
	}
	require.NoError(t, tr.Mkdir("/usr/lib", 0o755))
	require.NoError(t, tr.Symlink("usr/lib", "/lib", "deb:base_1"))
	file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nmosquitto:x:301:301::/:/bin/false\n", "step:accounts", 0o644)
	file("/etc/group", "root:x:0:\n", "step:accounts", 0o644)
	file("/usr/lib/libc.so.6", "libc", "deb:libc6_2.41", 0o755)
	file("/usr/lib/libc-copy", "libc", "deb:stray_1", 0o755)
	file("/usr/sbin/mosquitto", "broker", "deb:mosquitto_2.0", 0o755)
	require.NoError(t, tr.Link("/usr/sbin/mosquitto", "/usr/sbin/broker"))
	require.NoError(t, tr.Add("/usr/lib/own", &tree.Inode{Type: tree.Regular, Mode: 0o4750, UID: 301, GID: 77, Content: tree.Bytes("x"), Origin: "deb:dash_1"}))
	file("/usr/bin/coredns", "dns", "payload:coredns", 0o755)
	require.NoError(t, tr.Symlink("coredns", "/usr/bin/dns", "payload:coredns"))
	file("/etc/systemd/system/a.service", "a", "unit:a.service", 0o644)
	file("/usr/bin/gateway", "own", "configuration:programs/gateway.yaml", 0o755)
	require.NoError(t, tr.Symlink("gateway", "/usr/bin/gw", "configuration:programs/gateway.yaml"))
	file("/usr/lib/a.conf", "b", "overlay:usr/lib/a.conf", 0o644)
	file("/etc/mine.conf", "m", "configuration:overlay/etc/mine.conf", 0o644)
	file("/usr/share/spore/images/pause.tar", "tar", "payload:container-images", 0o644)
	file(recipe.StatusPath, status, "step:dpkg-status", 0o644)
	m := manifest.Manifest{Requested: []string{"mosquitto"}, Programs: []string{"mosquitto"}, Payloads: []manifest.Payload{{Name: "coredns", Path: "/usr/bin/coredns", Version: "v1.15.0"},
		{Name: "programs/gateway", Path: "/usr/bin/gateway", Version: "1.4.0", License: "MIT"}},
		Images: []manifest.Image{{File: "/usr/share/spore/images/pause.tar", Names: []string{"spore.local/pause:1"}, From: "payload pause"}}}
	for _, name := range []string{"base", "libc6", "mosquitto", "dash", "stray"} {
		m.Packages = append(m.Packages, manifest.Package{Name: name, SHA256: "of " + name})
	}
	return rootfstest.Image(t, tr, tree.New(), m, []origins.LeftOut{{Path: "/usr/lib/gone", Step: "drop-files", Why: "nothing reads it"}, {Path: "dpkg", Step: "drop-packages", Why: "no", Files: []string{"/usr/bin/dpkg"}}})
}

func explain(t testing.TB, i *rootfs.Image, p string) *Answer {
	t.Helper()
	a, err := Explain(i, p, true)
	require.NoError(t, err)
	return a
}

func TestAFileOfAPackage(t *testing.T) {
	a := explain(t, sample(t), "/lib/libc.so.6")
	require.Equal(t, []unsquash.Link{{Path: "/lib", Target: "usr/lib"}}, a.Follows)
	sum := sha256.Sum256([]byte("libc"))
	require.Equal(t, hex.EncodeToString(sum[:]), a.File.SHA256)
	require.EqualValues(t, 4, a.File.Size)
	require.Equal(t, []string{"/usr/lib/libc-copy"}, a.File.Same)
	require.Equal(t, "package libc6 2.41", a.File.Source)
	require.Equal(t, "of libc6", a.File.Package.SHA256)
	require.Equal(t, []string{"mosquitto", "libssl3t64", "libc6"}, a.File.Package.Because, "by what is provided, and the shortest way")
	require.Equal(t, []string{"mosquitto (mqtt-broker)"}, a.File.Package.AskedBy)
}

func TestWhereFilesComeFrom(t *testing.T) {
	i := sample(t)
	for p, want := range map[string]string{
		"/usr/bin/dns": "payload coredns v1.15.0", "/etc/systemd/system/a.service": "spore: units/a.service", "/usr/lib/a.conf": "spore: overlay/usr/lib/a.conf",
		"/etc/mine.conf":   "the configuration: overlay/etc/mine.conf",
		"/usr/bin/gateway": "the configuration: programs/gateway.yaml", "/usr/bin/gw": "the configuration: programs/gateway.yaml",
		"/etc/passwd": "made by the build, step accounts", "/usr/share/spore/images/pause.tar": "container image, from payload pause",
	} {
		require.Equal(t, want, explain(t, i, p).File.Source, p)
	}
	require.Equal(t, "1.4.0", explain(t, i, "/usr/bin/gw").File.Payload.Version)
	own := explain(t, i, "usr/lib/own").File
	require.Equal(t, []any{"file", "4750", "mosquitto", "", uint32(77)}, []any{own.Type, own.Mode, own.User, own.Group, own.GID})
	require.Equal(t, []string{"Debian, which marks dash essential"}, own.Package.AskedBy)
	stray := explain(t, i, "/usr/lib/libc-copy").File.Package
	require.Empty(t, stray.Because, "nothing of the image needs it")
	require.Equal(t, []string{"a package that is left out as a whole, one of base"}, stray.AskedBy)
	require.Equal(t, []string{"/usr/sbin/mosquitto"}, explain(t, i, "/usr/sbin/broker").File.Names)
	require.Equal(t, "directory", explain(t, i, "/usr/sbin/").File.Type)
	require.Equal(t, 2, explain(t, i, "/usr/sbin").File.Contains)
	require.Equal(t, len(i.Root.Entries)-1, explain(t, i, "/").File.Contains)
	a, err := Explain(i, "/usr/bin/dns", false)
	require.NoError(t, err)
	require.Equal(t, "symbolic link", a.File.Type)
}

func TestWhatIsNotThere(t *testing.T) {
	i := sample(t)
	a := explain(t, i, "/lib/gone/deep/file")
	require.Nil(t, a.File)
	require.Equal(t, "nothing reads it", a.LeftOut.Why)
	require.Equal(t, "dpkg", explain(t, i, "/usr/bin/dpkg").LeftOut.Path)
	a = explain(t, i, "/usr/bin/corends")
	require.Nil(t, a.LeftOut)
	require.Equal(t, "/usr/bin/coredns", a.Near[0])
	require.Equal(t, "/usr/sbin/mosquitto", explain(t, i, "/opt/mosquitto").Near[0], "the same name elsewhere")
	require.Empty(t, explain(t, i, "/nothing-like-anything-that-is-there").Near)
}

func TestAnImageWithoutATableIsExplainedAsFarAsItGoes(t *testing.T) {
	i := sample(t)
	i.Table, i.Origins = nil, nil
	require.Empty(t, explain(t, i, "/lib/libc.so.6").File.Source)
	require.Nil(t, explain(t, i, "/lib/gone").LeftOut)
}
