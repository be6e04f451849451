package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func TestPermissionsThatPostinstSets(t *testing.T) {
	r, err := Debian([]Package{
		pkg("mosquitto", "", dirEntry("/var/lib/mosquitto", 0o755)),
		pkg("dbus-daemon", "", fileEntry("/usr/lib/dbus-1.0/dbus-daemon-launch-helper", "x", 0o755)),
	}, Options{})
	require.NoError(t, err)
	n, err := r.Stat("/var/lib/mosquitto")
	require.NoError(t, err)
	require.Equal(t, [2]uint32{700, 0}, [2]uint32{n.UID, n.GID})
	n, err = r.Stat("/usr/lib/dbus-1.0/dbus-daemon-launch-helper")
	require.NoError(t, err)
	require.Equal(t, uint32(0o4754), n.Mode)
	require.Equal(t, uint32(990), n.GID)
}

func TestPermissionsAreOnlyForPackagesThatAreThere(t *testing.T) {
	r, err := Debian([]Package{pkg("other", "", dirEntry("/var/lib/mosquitto", 0o755))}, Options{})
	require.NoError(t, err)
	n, err := r.Stat("/var/lib/mosquitto")
	require.NoError(t, err)
	require.Zero(t, n.UID)
}

func TestPermissionRowsNameAccountsOfTheTable(t *testing.T) {
	a, err := loadAccounts()
	require.NoError(t, err)
	for _, p := range permissions {
		if p.user != "" {
			require.Contains(t, a.uid, p.user, p.path)
		}
		if p.group != "" {
			require.Contains(t, a.gid, p.group, p.path)
		}
	}
	for _, m := range madeFiles {
		if m.gid != "" {
			require.Contains(t, a.gid, m.gid, m.path)
		}
	}
}

func TestAlternativesTakeTheHighestPriority(t *testing.T) {
	r, err := Debian([]Package{pkg("iptables", "",
		fileEntry("/usr/sbin/iptables-legacy", "l", 0o755), fileEntry("/usr/sbin/iptables-nft", "n", 0o755)),
		pkg("mawk", "", fileEntry("/usr/bin/mawk", "m", 0o755))}, Options{})
	require.NoError(t, err)
	require.Equal(t, "n", text(t, r, "/usr/sbin/iptables"))
	require.Equal(t, "m", text(t, r, "/usr/bin/awk"))
	group, err := r.Lstat("/usr/sbin/iptables")
	require.NoError(t, err)
	require.Equal(t, "/etc/alternatives/iptables", group.Target)
	require.False(t, r.Exists("/usr/bin/pager"))
}

func TestScriptsThatTheRecipeDoesNotReplay(t *testing.T) {
	for name, c := range map[string]struct{ script, message string }{
		"accounts":     {"set -e\nadduser --system foo\n", "postinst of package x calls adduser"},
		"diversions":   {"dpkg-divert --add --rename /bin/foo\n", "calls dpkg-divert"},
		"overrides":    {"dpkg-statoverride --update --add root foo 4755 /bin/foo\n", "calls dpkg-statoverride"},
		"capabilities": {"  setcap cap_net_raw+ep /bin/ping\n", "calls setcap"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{withScript(pkg("x", ""), "postinst", c.script)}, Options{})
			require.ErrorContains(t, err, c.message)
		})
	}
	for name, p := range map[string]Package{
		"a comment":                     withScript(pkg("x", ""), "postinst", "# adduser is not called\n"),
		"a removal":                     withScript(pkg("x", ""), "prerm", "adduser foo\n"),
		"the end of a diversion":        withScript(pkg("x", ""), "postinst", "dpkg-divert --package x \\\n --remove /bin/x\n"),
		"a file of adduser":             withScript(pkg("x", ""), "preinst", "mv /etc/adduser.conf /x # adduser x\n"),
		"a package with rows":           withScript(pkg("mosquitto", ""), "postinst", "adduser mosquitto\n"),
		"a diversion known as harmless": withScript(pkg("libc6", ""), "preinst", "dpkg-divert --add /lib64\n"),
	} {
		t.Run(name+" is no reason to stop", func(t *testing.T) {
			require.Empty(t, compose(t, Options{}, p).Report.Notes())
		})
	}
	r := compose(t, Options{}, withScript(pkg("x", ""), "postinst", "update-alternatives \\\n --install /bin/a a /bin/b 1\n"))
	require.Len(t, r.Report.Notes(), 1)
	require.Contains(t, r.Report.Notes()[0].Why, "calls update-alternatives")
}

func TestSubjectHashesAreThoseOfOpenSSL(t *testing.T) {
	// openssl x509 -noout -subject_hash -in testdata/certs/NAME
	for name, want := range map[string]string{
		"ISRG_Root_X1.crt":  "4042bcee",
		"NetLock_Arany.crt": "988a38cb",
	} {
		data, err := os.ReadFile(filepath.Join("testdata/certs", name))
		require.NoError(t, err)
		got, err := subjectHash(data)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}

func TestCABundle(t *testing.T) {
	cert, err := os.ReadFile("testdata/certs/ISRG_Root_X1.crt")
	require.NoError(t, err)
	bare := strings.TrimRight(string(cert), "\n")
	r, err := Debian([]Package{pkg("ca-certificates", "",
		fileEntry("/usr/share/ca-certificates/mozilla/B (two),x.crt", bare, 0o644),
		fileEntry("/usr/share/ca-certificates/mozilla/A.crt", bare, 0o644),
		fileEntry("/usr/share/ca-certificates/mozilla/README", "", 0o644))}, Options{})
	require.NoError(t, err)
	require.Equal(t, bare+"\n"+bare+"\n", text(t, r, "/etc/ssl/certs/ca-certificates.crt"))
	require.Equal(t, bare, text(t, r, "/etc/ssl/certs/B_=two=_x.pem"))
	require.Equal(t, "mozilla/A.crt\nmozilla/B (two),x.crt\n", text(t, r, "/etc/ca-certificates.conf"))
	for link, target := range map[string]string{"4042bcee.0": "A.pem", "4042bcee.1": "B_=two=_x.pem"} {
		n, err := r.Lstat("/etc/ssl/certs/" + link)
		require.NoError(t, err)
		require.Equal(t, target, n.Target)
	}
	for name, data := range map[string]string{"no certificate": "x", "a damaged one": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		t.Run(name, func(t *testing.T) {
			_, err := Debian([]Package{pkg("ca-certificates", "", fileEntry("/usr/share/ca-certificates/x.crt", data, 0o644))}, Options{})
			require.ErrorContains(t, err, "/usr/share/ca-certificates/x.crt")
		})
	}
}

func TestCanonicalText(t *testing.T) {
	for in, want := range map[string]string{
		"  A  b\t\nC ": "a b c", "Ő É": "Ő É", "": "", "   ": "", "x": "x",
	} {
		require.Equal(t, want, canonicalText(in), "%q", in)
	}
}

func FuzzSubjectHash(f *testing.F) {
	for _, name := range []string{"ISRG_Root_X1.crt", "NetLock_Arany.crt"} {
		data, err := os.ReadFile(filepath.Join("testdata/certs", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := subjectHash(data); err == nil {
			require.Len(t, h, 8)
		}
	})
}

func TestPAMStacks(t *testing.T) {
	const template = "# head\n$auth_primary\nauth\trequisite\tpam_deny.so\nauth\trequired\tpam_permit.so\n$auth_additional\n# end\n"
	unix, err := parsePAMProfile("unix", "Name: Unix\nDefault: yes\nPriority: 256\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_unix.so try_first_pass\nAuth-Initial:\n\t[success=end default=ignore]\tpam_unix.so nullok\n")
	require.NoError(t, err)
	krb, err := parsePAMProfile("krb5", "Name: Kerberos\nDefault: yes\nPriority: 704\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_krb5.so\n")
	require.NoError(t, err)
	extra, err := parsePAMProfile("cap", "Name: Cap\nDefault: yes\nPriority: 0\nAuth-Type: Additional\nAuth:\n\toptional\tpam_cap.so\n")
	require.NoError(t, err)

	tail := "auth\trequisite\tpam_deny.so\nauth\trequired\tpam_permit.so\n"
	for name, c := range map[string]struct {
		profiles []pamProfile
		want     string
	}{
		"one module jumps over the denial": {[]pamProfile{unix}, "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n" + tail},
		"two modules jump to the same place": {[]pamProfile{krb, unix},
			"auth\t[success=2 default=ignore]\tpam_krb5.so \nauth\t[success=1 default=ignore]\tpam_unix.so try_first_pass\n" + tail},
		"additional modules come last": {[]pamProfile{unix, extra}, "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n" + tail + "auth\toptional\tpam_cap.so \n"},
		"no module permits":            {nil, "auth\t[default=1]\t\t\tpam_permit.so\n" + tail},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "# head\n"+c.want+"# end\n", fillPAM(template, c.profiles, "Auth", true))
		})
	}
}

func TestRefusedPAMProfiles(t *testing.T) {
	for name, text := range map[string]string{
		"no priority":          "Name: x\nDefault: yes\n",
		"a continued nothing":  "\tpam_x.so\n",
		"a line without colon": "Name: x\nPriority: 1\nrubbish\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parsePAMProfile("x", text)
			require.ErrorContains(t, err, "pam profile x")
		})
	}
}

func FuzzPAM(f *testing.F) {
	f.Add("Name: x\nDefault: yes\nPriority: 1\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_x.so a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePAMProfile("x", text)
		if err != nil {
			return
		}
		fillPAM("$auth_primary\n$auth_additional\n", []pamProfile{p}, "Auth", true)
	})
}

func TestFilesThatPostinstMakes(t *testing.T) {
	r, err := Debian([]Package{
		pkg("base-files", "", dirEntry("/var/lock", 0o1777), fileEntry("/usr/share/base-files/profile", "profile", 0o644),
			fileEntry("/usr/share/base-files/dot.profile", "", 0o644), fileEntry("/usr/share/base-files/dot.bashrc", "", 0o644),
			fileEntry("/usr/share/base-files/motd", "", 0o644), fileEntry("/usr/share/base-files/info.dir", "", 0o644)),
		pkg("debianutils", "", fileEntry("/usr/share/debianutils/shells", "# shells\n/bin/sh\n", 0o644)),
		pkg("bash", "", fileEntry("/usr/share/debianutils/shells.d/bash", "/bin/bash\n/bin/rbash\n", 0o644)),
		pkg("netbase", "", fileEntry("/etc/networks", "mine", 0o644)),
	}, Options{})
	require.NoError(t, err)
	require.Equal(t, "profile", text(t, r, "/etc/profile"))
	require.Equal(t, "# shells\n/bin/sh\n/usr/bin/sh\n/bin/bash\n/usr/bin/bash\n/bin/rbash\n/usr/bin/rbash\n", text(t, r, "/etc/shells"))
	require.Equal(t, "mine", text(t, r, "/etc/networks"), "a file of the package stays")
	n, err := r.Lstat("/var/lock")
	require.NoError(t, err)
	require.Equal(t, tree.Symlink, n.Type)
	require.False(t, r.Exists("/etc/nsswitch.conf"), "its package is not there")
}
