package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnImageWhoseUnitsReloadWithKillHasIt(t *testing.T) {
	shell := pkg("dash", "", fileEntry("/usr/bin/sh", "elf", 0o755))
	daemon := pkg("daemon", "", fileEntry("/usr/sbin/daemon", "elf", 0o755),
		unit("daemon.service", "[Service]\nExecStart=/usr/sbin/daemon\nExecReload=/bin/kill -HUP $MAINPID\n"))
	r := compose(t, Options{}, pkg("base-files", ""), shell, daemon)
	require.Equal(t, string(killScript), text(t, r.Tree, "/usr/bin/kill"))

	r = compose(t, Options{}, pkg("base-files", ""), shell, daemon, pkg("procps", "", fileEntry("/usr/bin/kill", "elf", 0o755)))
	require.Equal(t, "elf", text(t, r.Tree, "/usr/bin/kill"), "that of a package stays")

	r = compose(t, Options{}, pkg("base-files", ""), shell)
	require.False(t, r.Tree.Exists("/usr/bin/kill"), "nobody calls it")

	_, err := Compose([]Package{pkg("base-files", ""), daemon}, Options{})
	require.ErrorContains(t, err, "ExecReload=/bin/kill, which is not in the image", "no shell")
}

func TestWhatAUnitOfAPackageDoesAtItsEndMayBeMissing(t *testing.T) {
	named := func(line string) Package {
		return pkg("bind9", "", fileEntry("/usr/sbin/named", "elf", 0o755),
			unit("named.service", "[Service]\nExecStart=/usr/sbin/named\n"+line+"\n"))
	}
	r := compose(t, Options{}, pkg("base-files", ""), named("ExecStop=/sbin/resolvconf -d lo"))
	require.Equal(t, []Entry{{Step: "unit-programs", Action: "note", Path: packageUnits + "/named.service",
		Why: "ExecStop=/sbin/resolvconf does nothing: the program is not in the image"}}, r.Report.Notes())
	for _, line := range []string{"ExecStartPre=/sbin/resolvconf", "ExecReload=/sbin/resolvconf"} {
		_, err := Compose([]Package{pkg("base-files", ""), named(line)}, Options{})
		require.ErrorContains(t, err, "/sbin/resolvconf, which is not in the image")
	}
}

func TestAScriptOfInitOrCronThatAUnitStartsStays(t *testing.T) {
	exim := pkg("exim4-base", "", unit("exim4-base.service", "[Service]\nExecStart=/etc/cron.daily/exim4-base\n"),
		fileEntry("/etc/cron.daily/exim4-base", "#!/bin/sh\n", 0o755), fileEntry("/etc/cron.daily/other", "#!/bin/sh\n", 0o755))
	r := compose(t, Options{}, pkg("base-files", ""), exim)
	require.Equal(t, []string{"exim4-base"}, r.Tree.Children("/etc/cron.daily"))
	require.False(t, r.Tree.Exists("/usr/lib/lsb"))

	nslcd := pkg("nslcd", "", unit("nslcd.service", "[Service]\nExecStart=/etc/init.d/nslcd start\n"),
		fileEntry("/etc/init.d/nslcd", "#!/bin/sh\n", 0o755), fileEntry("/etc/init.d/other", "#!/bin/sh\n", 0o755),
		fileEntry("/usr/lib/lsb/init-functions", "x", 0o644))
	r = compose(t, Options{}, pkg("base-files", ""), nslcd)
	require.Equal(t, []string{"nslcd"}, r.Tree.Children("/etc/init.d"))
	require.True(t, r.Tree.Exists("/usr/lib/lsb/init-functions"))

	r = compose(t, Options{}, pkg("base-files", ""), pkg("x", "", fileEntry("/etc/init.d/other", "#!/bin/sh\n", 0o755),
		fileEntry("/usr/lib/lsb/init-functions", "x", 0o644)))
	require.False(t, r.Tree.Exists("/etc/init.d"))
	require.False(t, r.Tree.Exists("/usr/lib/lsb"))
}

func TestAnswersOfOursGiveWayToThoseOfImageYAML(t *testing.T) {
	slapd := func() Package {
		p := withScript(pkg("slapd", "", dirEntry("/etc", 0o755)), "postinst",
			". /usr/share/debconf/confmodule\ndb_get slapd/no_configuration\necho $RET > /etc/out\n")
		p.Scripts["templates"] = []byte("Template: slapd/no_configuration\nType: boolean\nDefault: false\nDescription: x\n")
		return p
	}
	r := compose(t, Options{}, pkg("base-files", ""), slapd())
	require.Equal(t, "true\n", text(t, r.Tree, "/etc/out"))
	require.Len(t, r.Report.Notes(), 1)

	o := Options{Debconf: map[string]map[string]string{"slapd": {"slapd/no_configuration": "false"}}}
	r = compose(t, o, pkg("base-files", ""), slapd())
	require.Equal(t, "false\n", text(t, r.Tree, "/etc/out"))
	require.Empty(t, r.Report.Notes())
}

func TestUnitsThatMakeSecretsOnceRemoveWhatTheScriptWasGiven(t *testing.T) {
	iscsi := withScript(pkg("open-iscsi", "", unit("iscsid.service", "")), "postinst",
		"set -e; n=$(iscsi-iname); [ -n \"$n\" ]; echo $n > /etc/iscsi/initiatorname.iscsi\n")
	r := compose(t, Options{}, pkg("base-files", ""), pkg("dash", "", fileEntry("/usr/bin/sh", "elf", 0o755)), iscsi)
	require.False(t, r.Tree.Exists("/etc/iscsi/initiatorname.iscsi"))
	require.True(t, r.Tree.Exists(localUnits+"/iscsid.service.requires/spore-iscsi.service"))
}
