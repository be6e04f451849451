package recipe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
)

func sysusers(name, line string) Package {
	return pkg(name, "", fileEntry("/usr/lib/sysusers.d/"+name+".conf", "# a comment\n"+line+"\n", 0o644))
}

func idsOf(t *testing.T, tr *tree.Tree) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		for _, line := range strings.Split(strings.TrimSpace(text(t, tr, file)), "\n") {
			f := strings.Split(line, ":")
			out[file+" "+f[0]] = f[2]
		}
	}
	return out
}

func TestAddingAPackageMovesNoID(t *testing.T) {
	network := `u! systemd-network - "Network"`
	before := idsOf(t, compose(t, Options{}, pkg("base-files", ""), sysusers("systemd", network)).Tree)
	mosquitto := withScript(pkg("mosquitto", ""), "postinst", "adduser --system --group --home /var/lib/mosquitto mosquitto\n")
	r := compose(t, Options{Programs: []string{"coredns"}}, pkg("base-files", ""), mosquitto,
		sysusers("systemd", network), sysusers("a-first", "g render -\nu messagebus - -"), sysusers("ceph", "u ceph 64045 -"))
	after := idsOf(t, r.Tree)
	for name, id := range before {
		require.Equal(t, id, after[name], name)
	}
	for name, id := range map[string]string{"mosquitto": "700", "ceph": "64045", "messagebus": "990", "coredns": "800"} {
		require.Equal(t, id, after["/etc/passwd "+name], name)
		require.Equal(t, id, after["/etc/group "+name], name)
		require.NotContains(t, before, "/etc/passwd "+name)
	}
}

func TestNoAccountHasAPassword(t *testing.T) {
	r := compose(t, Options{}, pkg("mosquitto", ""))
	for _, file := range []string{"/etc/shadow", "/etc/gshadow"} {
		n, err := r.Tree.Stat(file)
		require.NoError(t, err)
		require.Equal(t, uint32(0o640), n.Mode)
		require.Equal(t, uint32(42), n.GID)
		for _, line := range strings.Split(strings.TrimSpace(text(t, r.Tree, file)), "\n") {
			require.Equal(t, "!*", strings.Split(line, ":")[1], line)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(text(t, r.Tree, "/etc/passwd")), "\n") {
		require.Equal(t, "x", strings.Split(line, ":")[1], line)
	}
	require.Equal(t, strings.Count(text(t, r.Tree, "/etc/passwd"), "\n"), strings.Count(text(t, r.Tree, "/etc/shadow"), "\n"))
}

func TestSysusersMembersJoinTheirGroup(t *testing.T) {
	r := compose(t, Options{}, sysusers("mosquitto", "u mosquitto -"), sysusers("x", "g render -\nm mosquitto render"))
	require.Contains(t, text(t, r.Tree, "/etc/group"), "render:x:992:mosquitto\n")
}

func TestSysusersThatCannotBeReadFailTheBuild(t *testing.T) {
	for name, c := range map[string]struct{ line, message string }{
		"an unknown line type":  {"q mail -", `"q"`},
		"a line without a name": {"u", "name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{sysusers("x", c.line)}, Options{})
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "/usr/lib/sysusers.d/x.conf:2")
		})
	}
}

func TestAFileOfNobodyFailsTheBuild(t *testing.T) {
	e := fileEntry("/usr/bin/x", "x", 0o755)
	e.n.UID = 4711
	_, err := Compose([]Package{pkg("x", "", e)}, Options{})
	require.ErrorContains(t, err, "/usr/bin/x of deb:x_1 belongs to 4711:0, and no account has these numbers")
}

func TestADifferentBasePasswdFailsTheBuild(t *testing.T) {
	for name, c := range map[string]struct{ passwd, group, message string }{
		"a new account":    {"new:*:99:99:::\n", "root:*:0:\n", "passwd.master:1: new has the id 99"},
		"another number":   {"root:*:0:0:::\n", "mail:*:9:\n", "group.master:1: mail has the id 9"},
		"a damaged record": {"root\n", "", "is not an account"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{pkg("base-passwd", "",
				fileEntry("/usr/share/base-passwd/passwd.master", c.passwd, 0o644),
				fileEntry("/usr/share/base-passwd/group.master", c.group, 0o644))}, Options{})
			require.ErrorContains(t, err, c.message)
		})
	}
}
