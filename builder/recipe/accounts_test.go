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
	before := idsOf(t, compose(t, Options{}, pkg("base-files", ""), sysusers("systemd", `u! systemd-network - "Network"`)).Tree)
	r := compose(t, Options{Programs: []string{"coredns"}}, pkg("base-files", ""), pkg("mosquitto", ""),
		sysusers("systemd", `u! systemd-network - "Network"`), sysusers("a-first", "g render -\nu messagebus - -"), pkg("ceph-common", ""))
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
	r := compose(t, Options{}, pkg("mosquitto", ""), sysusers("x", "g render -\nm mosquitto render"))
	require.Contains(t, text(t, r.Tree, "/etc/group"), "render:x:992:mosquitto\n")
}

func TestAccountsThatAreNotInTheTableFailTheBuild(t *testing.T) {
	for name, c := range map[string]struct{ line, message string }{
		"an unknown user":               {"u nosuch -", "user nosuch is not in accounts/table; add rows for it, the next free number is "},
		"an unknown user, locked":       {"u! nosuch -", "user nosuch is not in accounts/table"},
		"an unknown group":              {"g nosuch -", "group nosuch is not in accounts/table"},
		"another number for a user":     {"u mail 9 -", "user mail is 8 in accounts/table, and the package wants 9"},
		"another number for a group":    {"g mail 9", "group mail is 8 in accounts/table, and the package wants 9"},
		"an unknown member":             {"m nosuch mail", "user nosuch is not in accounts/table"},
		"an unknown group for a member": {"m mail nosuch", "group nosuch is not in accounts/table"},
		"an unknown line type":          {"q mail -", `line type "q"`},
		"a line without a name":         {"u", "has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{sysusers("x", c.line)}, Options{})
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "/usr/lib/sysusers.d/x.conf:2")
		})
	}
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

func TestTheTableItself(t *testing.T) {
	a, err := loadAccounts()
	require.NoError(t, err)
	for _, u := range a.users {
		if u.uid >= 700 && u.uid < 900 && u.group == u.name {
			require.Equal(t, u.uid, a.gid[u.name], "user and group %s of ours have the same number", u.name)
		}
	}
	require.Equal(t, uint32(64045), a.uid["ceph"])
}

func TestRefusedTables(t *testing.T) {
	for name, c := range map[string]struct{ table, message string }{
		"a user id twice":         {"group:a:1::base\nuser:a:1:a::/:/x:base\nuser:b:1:a::/:/x:base", "user id 1 is that of a already"},
		"a group id twice":        {"group:a:1::base\ngroup:b:1::base", "group id 1 is that of a already"},
		"a user twice":            {"group:a:1::base\nuser:a:1:a::/:/x:base\nuser:a:2:a::/:/x:base", "user a appears twice"},
		"a group twice":           {"group:a:1::base\ngroup:a:2::base", "group a appears twice"},
		"a group that is missing": {"user:a:1:a::/:/x:base", "group a of user a has no row above"},
		"a number out of range":   {"group:a:70000::base", "not a number up to 65534"},
		"a short row":             {"group:a:1", "a row is"},
		"an unknown row":          {"other:a:1::base", "a row is"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseAccounts(c.table)
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "accounts/table:")
		})
	}
}

func FuzzSysusers(f *testing.F) {
	for _, s := range []string{"u a -", "g kvm -", "m root kvm", `u! systemd-network - "x y" /`, "r - 500-900", "u", "#"} {
		f.Add(s)
	}
	a, err := loadAccounts()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		declared := map[string]bool{}
		if a.declare("x", text, declared) != nil {
			return
		}
		for d := range declared {
			name := strings.Fields(d)[1]
			_, user := a.uid[name]
			_, group := a.gid[name]
			require.True(t, user || group, "%s was let through", d)
		}
	})
}
