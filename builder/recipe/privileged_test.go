package recipe

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/cluster/filecap"
	"spore/cluster/spec"
)

// capableEntry is a program with capabilities.
func capableEntry(t *testing.T, path, capabilities string) entry {
	t.Helper()
	set, err := filecap.Parse(capabilities)
	require.NoError(t, err)
	e := fileEntry(path, "elf", 0o755)
	e.n.Xattrs = []tree.Xattr{{Name: filecap.Attribute, Value: set.Value()}}
	return e
}

// setuid allows a program of a package.
func setuid(pkg, path string) Options {
	return Options{Scripts: map[string]spec.ScriptDecision{pkg: {SetUID: []string{path}}}}
}

// mode gives a program of a package its mode.
func mode(pkg string, m spec.ScriptMode) Options {
	return Options{Scripts: map[string]spec.ScriptDecision{pkg: {Modes: []spec.ScriptMode{m}}}}
}

func TestFilesThatGiveRightsAreAllowedOneByOne(t *testing.T) {
	su := pkg("util-linux", "", fileEntry("/usr/bin/su", "elf", 0o4755))
	sudo := pkg("superuser", "", fileEntry("/usr/bin/superuser", "elf", 0o4755))
	ping := pkg("iputils-ping", "", capableEntry(t, "/usr/bin/ping", "cap_net_raw=ep"))
	crontab := pkg("clock", "", fileEntry("/usr/bin/clocktab", "elf", 0o2755))
	for name, tc := range map[string]struct {
		options  Options
		packages []Package
		want     string // empty where it is allowed
	}{
		"a row allows it": {packages: []Package{
			su, pkg("mount", "", fileEntry("/usr/bin/mount", "elf", 0o4755)),
		}},
		"a row through the merged /usr": {packages: []Package{pkg("util-linux", "", fileEntry("/bin/su", "elf", 0o4755))}},
		"set-group-ID of a directory":   {packages: []Package{pkg("a", "", dirEntry("/usr/share/a", 0o2755))}},
		"an ordinary program":           {packages: []Package{pkg("a", "", fileEntry("/usr/bin/a", "elf", 0o755))}},
		"image.yaml allows it": {
			options: setuid("superuser", "/usr/bin/superuser"), packages: []Package{sudo},
		},
		"image.yaml allows it by a link of the merged /usr": {
			options: setuid("superuser", "/bin/superuser"), packages: []Package{sudo},
		},
		"image.yaml allows capabilities": {
			options: setuid("iputils-ping", "/usr/bin/ping"), packages: []Package{ping},
		},
		"image.yaml gives the capabilities": {
			options:  mode("iputils-ping", spec.ScriptMode{Path: "/usr/bin/ping", Capabilities: "cap_net_raw=ep"}),
			packages: []Package{ping},
		},
		"image.yaml gives the mode": {
			options:  mode("clock", spec.ScriptMode{Path: "/usr/bin/clocktab", Mode: "2755"}),
			packages: []Package{crontab},
		},
		"image.yaml allows what a row allows": {
			options:  setuid("util-linux", "/usr/bin/su"),
			packages: []Package{su},
		},

		"a set-user-ID program": {packages: []Package{sudo}, want: "step privileged: " +
			"programs give rights of their owner or group to whoever starts them:\n" +
			"  /usr/bin/superuser of package superuser has 4755 root:root\n" +
			"where this image may have them, write into image.yaml:\n  scripts: {superuser: {setuid: [/usr/bin/superuser]}}"},
		"several": {packages: []Package{sudo, ping, crontab}, want: "" +
			"  /usr/bin/clocktab of package clock has 2755 root:root\n" +
			"  /usr/bin/ping of package iputils-ping has 0755 root:root cap_net_raw=ep\n" +
			"  /usr/bin/superuser of package superuser has 4755 root:root\n" +
			"where this image may have them, write into image.yaml:\n" +
			"  scripts: {clock: {setuid: [/usr/bin/clocktab]}, iputils-ping: {setuid: [/usr/bin/ping]}, " +
			"superuser: {setuid: [/usr/bin/superuser]}}"},
		"the path of a row from another package": {
			packages: []Package{pkg("evil", "", fileEntry("/usr/bin/su", "elf", 0o4755))},
			want:     "/usr/bin/su of package evil has 4755",
		},
		"a row of capabilities": {packages: []Package{pkg("mtr-tiny", "", capableEntry(t, "/usr/bin/mtr-packet", "cap_net_raw=ep"))}},
		"more capabilities than a row": {
			packages: []Package{pkg("mtr-tiny", "", capableEntry(t, "/usr/bin/mtr-packet", "cap_net_raw,cap_sys_admin=ep"))},
			want:     "cap_sys_admin",
		},
		"set-user-ID where a row allows capabilities": {
			packages: []Package{pkg("mtr-tiny", "", fileEntry("/usr/bin/mtr-packet", "elf", 0o4755))}, want: "has 4755 root:root",
		},
		"capabilities where a row allows a mode": {
			packages: []Package{pkg("util-linux", "", capableEntry(t, "/usr/bin/su", "cap_sys_admin=ep"))},
			want:     "cap_sys_admin=ep",
		},
		"another path of the package": {
			options:  setuid("superuser", "/usr/bin/superuser"),
			packages: []Package{sudo, pkg("more", "", fileEntry("/usr/bin/more", "elf", 0o4755))},
			want:     "scripts: {more: {setuid: [/usr/bin/more]}}",
		},
		"allowed for another package": {
			options: setuid("clock", "/usr/bin/superuser"), packages: []Package{sudo, crontab},
			want: "scripts: {clock: {setuid: [/usr/bin/clocktab]}, superuser: {setuid: [/usr/bin/superuser]}}",
		},
		"a mode of image.yaml that takes it away": {
			options:  mode("clock", spec.ScriptMode{Path: "/usr/bin/clocktab", Mode: "0755"}),
			packages: []Package{crontab},
		},
		"what the image does not have": {
			options: setuid("superuser", "/usr/bin/visuperuser"), packages: []Package{pkg("superuser", "")},
			want: "image.yaml allows what there is not; remove:\n" +
				"  scripts: {superuser: {setuid: [/usr/bin/visuperuser]}}: the image has no /usr/bin/visuperuser",
		},
		"what is an ordinary program": {
			options:  setuid("a", "/usr/bin/a"),
			packages: []Package{pkg("a", "", fileEntry("/usr/bin/a", "elf", 0o755))}, want: "/usr/bin/a has neither set-user-ID",
		},
		"what a row allows to another package": {
			options:  setuid("a", "/usr/bin/su"),
			packages: []Package{su, pkg("a", "")}, want: "/usr/bin/su is of package util-linux",
		},
		"capabilities of an unknown form": {packages: []Package{pkg("a", "", entry{"/usr/bin/a", &tree.Inode{
			Type: tree.Regular, Mode: 0o755, Content: tree.Bytes("elf"),
			Xattrs: []tree.Xattr{{Name: filecap.Attribute, Value: []byte("x")}},
		}})}, want: "/usr/bin/a: the attribute security.capability has 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose(append(tc.packages, pkg("base-files", "")), tc.options)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestRowsOfPrivilegesAreSortedAndHaveReasons(t *testing.T) {
	require.True(t, slices.IsSortedFunc(privileges, func(a, b privilege) int {
		return slices.Compare([]string{a.pkg, a.path}, []string{b.pkg, b.path})
	}))
	for _, p := range privileges {
		require.NotEmpty(t, p.why, p.path)
	}
}
