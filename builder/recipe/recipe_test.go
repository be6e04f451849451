package recipe

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestARootIsAFunctionOfItsInputsAndNotOfTheirOrder(t *testing.T) {
	a := pkg("a", "", fileEntry("/usr/bin/a", "a", 0o755), dirEntry("/var/lib/a", 0o700))
	z := pkg("z", "", fileEntry("/usr/share/doc/z/copyright", "z", 0o644), fileEntry("/etc/z.conf", "z", 0o644))
	base := pkg("base-files", "", dirEntry("/etc", 0o755), dirEntry("/root", 0o700))
	o := Options{Release: Release{Version: "1", Suite: "trixie"}, Agent: tree.Bytes("agent")}
	require.Equal(t, dump(t, compose(t, o, a, base, z).Tree), dump(t, compose(t, o, z, a, base).Tree))
}

func TestComposingDoesNotChangeTheInodesOfItsPackages(t *testing.T) {
	e := fileEntry("/usr/bin/a", "a", 0o755)
	compose(t, Options{}, pkg("a", "", e))
	require.Equal(t, fileEntry("/usr/bin/a", "a", 0o755), e)
}

func TestEveryInodeHasAnOriginAndATime(t *testing.T) {
	r := compose(t, Options{Agent: tree.Bytes("agent")}, pkg("a", "", fileEntry("/usr/bin/a", "a", 0o755)))
	require.NoError(t, r.Tree.Walk(func(p string, n *tree.Inode) error {
		require.NotEmpty(t, n.Origin, p)
		require.NotZero(t, n.MTime, p)
		return nil
	}))
	n, err := r.Tree.Lstat("/usr/bin/a")
	require.NoError(t, err)
	require.Equal(t, "deb:a_1", n.Origin)
}

func TestARootHasWhatAReadOnlySystemNeeds(t *testing.T) {
	r := compose(t, Options{Agent: tree.Bytes("agent"), Release: Release{Version: "0.1"}}, pkg("base-files", ""))
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/boot", "/efi", "/etc", "/root", "/home"} {
		n, err := r.Tree.Stat(dir)
		require.NoError(t, err, dir)
		require.Equal(t, tree.Dir, n.Type, dir)
	}
	require.Empty(t, r.Tree.Children("/var"))
	require.Empty(t, text(t, r.Tree, "/etc/machine-id"))
	require.Contains(t, text(t, r.Tree, "/etc/os-release"), "ID=\"spore\"\nID_LIKE=\"debian\"\n")
	for _, helper := range []string{MountHelper, FormatHelper} {
		link, err := r.Tree.Lstat(helper)
		require.NoError(t, err)
		require.Equal(t, "../bin/spore-agent", link.Target)
	}
}

func TestBootFilesAreTakenOutOfTheRoot(t *testing.T) {
	r := compose(t, Options{}, pkg("linux-image-6", "",
		fileEntry("/boot/vmlinuz-6", "kernel", 0o644), fileEntry("/boot/System.map-6", "map", 0o644)),
		pkg("systemd-boot-efi", "", fileEntry("/usr/lib/systemd/boot/efi/linuxx64.efi.stub", "stub", 0o644)))
	require.Contains(t, r.Boot, "/boot/vmlinuz-6")
	require.Contains(t, r.Boot, "/usr/lib/systemd/boot/efi/linuxx64.efi.stub")
	require.Empty(t, r.Tree.Children("/boot"))
	require.False(t, r.Tree.Exists("/usr/lib/systemd/boot"))
}

func TestModuleIndexesGoBesideTheModules(t *testing.T) {
	modules := pkg("linux-image-6", "", fileEntry("/usr/lib/modules/6/kernel/a.ko", "a", 0o644))
	r := compose(t, Options{Kernel: "6", ModuleIndexes: map[string][]byte{"modules.dep": []byte("kernel/a.ko:\n")}}, modules)
	require.Equal(t, "kernel/a.ko:\n", text(t, r.Tree, "/lib/modules/6/modules.dep"))

	_, err := Compose([]Package{modules}, Options{Kernel: "7"})
	require.ErrorContains(t, err, "no package contains /usr/lib/modules/7")
}

func TestOverlayAndPayloads(t *testing.T) {
	overlay := fstest.MapFS{
		"etc/motd":       {Data: []byte("hello"), Mode: 0o600},
		"usr/bin/script": {Data: []byte("#!/bin/sh\n"), Mode: 0o700},
		"README.md":      {Data: []byte("for people")},
		"etc/link":       {Data: []byte("motd"), Mode: fs.ModeSymlink},
	}
	o := Options{Overlay: overlay, Payloads: []Payload{{Name: "coredns", Files: []PayloadFile{{Path: "/usr/bin/coredns", Mode: 0o755, Content: tree.Bytes("x")}}}}}
	r := compose(t, o, pkg("dash", "", linkEntry("/bin/sh", "dash"), fileEntry("/bin/dash", "elf", 0o755)))
	for path, want := range map[string]struct {
		mode   uint32
		origin string
	}{
		"/etc/motd":        {0o644, "overlay:etc/motd"},
		"/usr/bin/script":  {0o755, "overlay:usr/bin/script"},
		"/usr/bin/coredns": {0o755, "payload:coredns"},
	} {
		n, err := r.Tree.Stat(path)
		require.NoError(t, err, path)
		require.Equal(t, want.mode, n.Mode, "the mode of %s must not depend on a umask", path)
		require.Equal(t, want.origin, n.Origin, path)
	}
	require.False(t, r.Tree.Exists("/README.md"))
}

func TestRefusedInputs(t *testing.T) {
	a := pkg("a", "", fileEntry("/usr/bin/a", "a", 0o755))
	for name, c := range map[string]struct {
		packages []Package
		options  Options
		message  string
	}{
		"no packages":         {nil, Options{}, "no packages"},
		"the same name twice": {[]Package{a, a}, Options{}, "package a is given twice"},
		"a payload over a package's file": {[]Package{a},
			Options{Payloads: []Payload{{Name: "p", Files: []PayloadFile{{Path: "/usr/bin/a", Content: tree.Bytes("")}}}}},
			"payload p: /usr/bin/a is there already, from deb:a_1"},
		"a payload outside of the root": {[]Package{a},
			Options{Payloads: []Payload{{Name: "p", Files: []PayloadFile{{Path: "../x", Content: tree.Bytes("")}}}}},
			"not a clean absolute path"},
		"a version that os-release cannot hold": {[]Package{a}, Options{Release: Release{Version: "1\"\nX=1"}}, "os-release cannot hold"},
		"a control paragraph without a name":    {[]Package{{Name: "a", Status: []byte("Version: 1\n"), Entries: a.Entries}}, Options{}, "does not begin with its name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose(c.packages, c.options)
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestLibrariesOfOtherDirectoriesAreFound(t *testing.T) {
	r := compose(t, Options{}, pkg("a", "", fileEntry("/etc/ld.so.conf.d/a.conf", "# own\n/opt/a\n/usr/lib/x86_64-linux-gnu\n", 0o644),
		fileEntry("/opt/a/liba.so.1", "own", 0o644), fileEntry("/opt/a/data", "", 0o644), fileEntry("/opt/a/libb.so.1", "other", 0o644),
		fileEntry("/usr/lib/x86_64-linux-gnu/libb.so.1", "of the system", 0o644)))
	require.Equal(t, "own", text(t, r.Tree, "/usr/lib/x86_64-linux-gnu/liba.so.1"))
	require.Equal(t, "of the system", text(t, r.Tree, "/usr/lib/x86_64-linux-gnu/libb.so.1"))
	require.False(t, r.Tree.Exists("/usr/lib/x86_64-linux-gnu/data"))
}

func TestKernelFlavours(t *testing.T) {
	for flavour, kernel := range map[string]string{"generic": "linux-image-amd64", "cloud": "linux-image-cloud-amd64"} {
		list, err := BasePackages(flavour)
		require.NoError(t, err)
		require.Contains(t, list, kernel)
		require.NotContains(t, list, "dbus")
	}
	_, err := BasePackages("rt")
	require.ErrorContains(t, err, "use generic or cloud")
}
