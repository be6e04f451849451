package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/cluster/spec"
)

func TestADivertedFileIsLaidElsewhere(t *testing.T) {
	divert := "dpkg-divert --package a --add --rename --divert /usr/bin/tool.real /usr/bin/tool\n"
	for name, packages := range map[string][]Package{
		"before the other package is unpacked": {withScript(pkg("a", "", fileEntry("/usr/bin/tool", "of a", 0o755)), "preinst", divert), pkg("b", "", fileEntry("/usr/bin/tool", "of b", 0o755))},
		"behind it":                            {pkg("0b", "", fileEntry("/usr/bin/tool", "of b", 0o755)), withScript(pkg("a", "", fileEntry("/usr/bin/tool", "of a", 0o755)), "preinst", divert)},
	} {
		t.Run(name, func(t *testing.T) {
			r := compose(t, Options{}, packages...)
			require.Equal(t, "of a", text(t, r.Tree, "/usr/bin/tool"))
			require.Equal(t, "of b", text(t, r.Tree, "/usr/bin/tool.real"))
		})
	}
}

func TestAFileOfTwoPackagesIsAnError(t *testing.T) {
	_, err := Compose([]Package{pkg("a", "", fileEntry("/usr/bin/x", "a", 0o755)), pkg("b", "", fileEntry("/usr/bin/x", "b", 0o755))}, Options{})
	require.ErrorContains(t, err, "/usr/bin/x is also in package a, and neither Replaces the other")
}

func TestAPackageReplacesWhatItsPreinstMade(t *testing.T) {
	p := withScript(pkg("a", "", fileEntry("/etc/a.conf", "shipped", 0o644), dirEntry("/var/lib/a", 0o755)), "preinst", "echo made > /etc/a.conf; mkdir -m 700 -p /var/lib/a\n")
	r, err := Debian([]Package{p}, Options{})
	require.NoError(t, err)
	require.Equal(t, "shipped", text(t, r, "/etc/a.conf"))
	n, err := r.Stat("/var/lib/a")
	require.NoError(t, err)
	require.Equal(t, uint32(0o700), n.Mode, "dpkg leaves a directory that is there as it is")
}

func TestUnitsThatScriptsEnableStartUnlessAPresetSaysNo(t *testing.T) {
	service := "[Install]\nWantedBy=multi-user.target\n"
	enable := func(name string) Package {
		return withScript(pkg(name, "", unit(name+".service", service)), "postinst", "deb-systemd-helper enable "+name+".service\n")
	}
	masked := withScript(pkg("masked", "", unit("masked.service", service)), "postinst", "systemctl enable masked.service; systemctl mask masked.service\n")
	r := compose(t, Options{Units: units(map[string]string{"50-spore.preset": "disable no.service\n"})},
		enable("yes"), enable("no"), masked, pkg("silent", "", unit("silent.service", service)))
	require.Equal(t, []string{"yes.service"}, r.Tree.Children(localUnits+"/multi-user.target.wants"))
}

func TestWhatIsLeftOutOfOthersStaysOfNamedPackages(t *testing.T) {
	haproxy := func() []Package {
		return []Package{pkg("haproxy", "", fileEntry("/etc/haproxy/haproxy.cfg", "", 0o644), unit("haproxy.service", ""), fileEntry("/usr/share/man/man1/haproxy.1.gz", "", 0o644)),
			pkg("cron", "", fileEntry("/etc/cron.d/e2scrub_all", "", 0o644)), pkg("adduser", "", fileEntry("/usr/sbin/adduser", "#!/usr/bin/perl\n", 0o755))}
	}
	r := compose(t, Options{Named: []string{"haproxy", "adduser"}}, haproxy()...)
	require.True(t, r.Tree.Exists("/etc/haproxy/haproxy.cfg"))
	require.True(t, r.Tree.Exists(packageUnits+"/haproxy.service"))
	require.True(t, r.Tree.Exists("/etc/cron.d/e2scrub_all"), "cron is there")
	require.False(t, r.Tree.Exists("/usr/share/man/man1/haproxy.1.gz"), "documentation is left out of all")
	r = compose(t, Options{}, haproxy()[0], haproxy()[2])
	require.False(t, r.Tree.Exists("/etc/haproxy"))
	require.False(t, r.Tree.Exists(packageUnits+"/haproxy.service"))
	require.False(t, r.Tree.Exists("/usr/sbin/adduser"))
}

func TestDecisionsStandForScripts(t *testing.T) {
	perl := "#!/usr/bin/perl\n"
	decided := Options{Scripts: map[string]spec.ScriptDecision{"a": {
		Skip: []string{"postinst"}, Groups: []string{"readers"}, Users: []spec.ScriptUser{{Name: "_a", Group: "readers"}},
		Modes: []spec.ScriptMode{{Path: "/usr/bin/a", Group: "readers", Mode: "0750", Capabilities: "cap_net_raw=ep"}},
		Links: []spec.ScriptLink{{Path: "/usr/bin/b", Target: "/usr/bin/a"}},
	}}}
	a := func() Package { return withScript(pkg("a", "", fileEntry("/usr/bin/a", "a", 0o755)), "postinst", perl) }
	r := compose(t, decided, a())
	n, err := r.Tree.Stat("/usr/bin/b")
	require.NoError(t, err)
	gid, ok := r.Accounts.GroupID("readers")
	require.True(t, ok)
	require.Equal(t, []uint32{0o750, gid}, []uint32{n.Mode, n.GID})
	require.Len(t, n.Xattrs, 1)
	require.Contains(t, text(t, r.Tree, "/etc/passwd"), "_a:x:")
	require.NotEmpty(t, r.Accounts.Fresh().Users, "the build says which ids are new")

	_, err = Compose([]Package{a()}, Options{})
	require.ErrorContains(t, err, "image.yaml: scripts: {a: {skip: [postinst]}}")
	for name, c := range map[string]struct {
		decision spec.ScriptDecision
		message  string
	}{
		"a file that is not there":      {spec.ScriptDecision{Modes: []spec.ScriptMode{{Path: "/usr/bin/no", Mode: "0755"}}}, "/usr/bin/no"},
		"an owner who is not there":     {spec.ScriptDecision{Modes: []spec.ScriptMode{{Path: "/usr/bin/a", Owner: "nosuch"}}}, "the image lacks the user nosuch"},
		"a link in the place of a file": {spec.ScriptDecision{Links: []spec.ScriptLink{{Path: "/usr/bin/a", Target: "/x"}}}, "the link /usr/bin/a is a file of deb:a_1 already"},
	} {
		t.Run(name, func(t *testing.T) {
			c.decision.Skip = []string{"postinst"}
			_, err := Compose([]Package{a()}, Options{Scripts: map[string]spec.ScriptDecision{"a": c.decision}})
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "scripts: {a: …}")
		})
	}
	_, err = Compose([]Package{a()}, Options{Scripts: map[string]spec.ScriptDecision{"a": {Skip: []string{"postinst"}}, "z": {}}})
	require.ErrorContains(t, err, "decides about scripts of z, and the image does not have that package")
}

func TestHostKeysAreMadeOnTheNode(t *testing.T) {
	ssh := withScript(pkg("openssh-server", "", unit("ssh.service", "[Install]\nWantedBy=multi-user.target\n"), fileEntry("/usr/bin/ssh-keygen", "", 0o755),
		fileEntry("/usr/bin/install", "", 0o755), fileEntry("/usr/bin/sync", "", 0o755), fileEntry("/usr/bin/cp", "", 0o755),
		fileEntry("/usr/bin/mkdir", "", 0o755)), "postinst", "ssh-keygen -q -f /etc/ssh/ssh_host_rsa_key -N '' -t rsa\n")
	r := compose(t, Options{}, ssh)
	require.False(t, r.Tree.Exists("/etc/ssh/ssh_host_rsa_key"))
	require.Equal(t, packageUnits+"/spore-ssh-host-keys.service", target(t, r.Tree, localUnits+"/ssh.service.requires/spore-ssh-host-keys.service"))
	require.NoError(t, r.Tree.Walk(func(p string, n *tree.Inode) error {
		require.NotContains(t, p, "ssh_host_")
		return nil
	}))
}

func TestANamedDaemonTakesThePlaceOfTheClocks(t *testing.T) {
	require.NotContains(t, WithoutReplaced([]string{"a", "systemd-timesyncd"}, []string{"chrony"}), "systemd-timesyncd")
	require.Contains(t, WithoutReplaced([]string{"a", "systemd-timesyncd"}, []string{"nginx"}), "systemd-timesyncd")
}
