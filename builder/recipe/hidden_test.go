package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/overlay"
	ownunits "spore/cluster/units"
)

func TestTheUsersOwnHidesNothingOfOursByItsName(t *testing.T) {
	const later = ", which has the same name in a directory that comes later; choose another name"
	program := func(p string) Options { return ownProgram(PayloadFile{Path: p}) }
	files := func(e ...overlay.Entry) Options { return Options{Files: ownFiles(e...)} }
	unitOf := func(name string) Options {
		return Options{OwnUnits: []ownunits.File{ownUnit(t, name, "[Unit]\nJobTimeoutSec=9\n")}}
	}
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"settings of the kernel":    {files(own("/etc/sysctl.d/50-spore.conf", "")), "step own: overlay/etc/sysctl.d/50-spore.conf: /etc/sysctl.d/50-spore.conf hides /usr/lib/sysctl.d/50-spore.conf, of Spore" + later},
		"what is made at the end":   {files(own("/etc/tmpfiles.d/spore-var.conf", "")), "step own: overlay/etc/tmpfiles.d/spore-var.conf: /etc/tmpfiles.d/spore-var.conf hides /usr/lib/tmpfiles.d/spore-var.conf, of Spore" + later},
		"rules of udev":             {files(own("/etc/udev/rules.d/61-spore.rules", "")), "step own: overlay/etc/udev/rules.d/61-spore.rules: /etc/udev/rules.d/61-spore.rules hides /usr/lib/udev/rules.d/61-spore.rules, of Spore" + later},
		"below /usr/local":          {files(own("/usr/local/lib/sysctl.d/50-spore.conf", "")), "step own: overlay/usr/local/lib/sysctl.d/50-spore.conf: /usr/local/lib/sysctl.d/50-spore.conf hides /usr/lib/sysctl.d/50-spore.conf, of Spore" + later},
		"a drop-in of systemd":      {unitOf("reboot.target.d/50-spore.conf"), "step own: units/reboot.target.d/50-spore.conf: /etc/systemd/system/reboot.target.d/50-spore.conf hides /usr/lib/systemd/system/reboot.target.d/50-spore.conf, of Spore" + later},
		"another drop-in":           {unitOf("reboot.target.d/60-mine.conf"), ""},
		"settings of a package":     {files(own("/etc/sysctl.d/10-base.conf", "")), ""},
		"other settings":            {files(own("/etc/sysctl.d/60-mine.conf", "")), ""},
		"a program of a package":    {program("/usr/local/sbin/true"), "step own: programs/x.yaml: /usr/local/sbin/true hides /usr/bin/true, of package base" + later},
		"by a file of overlay":      {files(own("/usr/sbin/true", "")), "step own: overlay/usr/sbin/true: /usr/sbin/true hides /usr/bin/true, of package base" + later},
		"a program of another name": {program("/usr/local/sbin/x"), ""},
		"a program and its link":    {ownProgram(PayloadFile{Path: "/usr/bin/x", Links: []string{"/usr/local/bin/x"}}), ""},
		"by a link of the image": {program("/usr/share/units/x.service"), "step own-programs: programs/x.yaml: /usr/share/units/x.service leads to where no program can be: " +
			"/usr/lib/systemd/system/x.service cannot be a program's: files there decide how a machine starts; write a path such as /usr/bin/x.service"},
		"a link by a link of the image": {ownProgram(PayloadFile{Path: "/usr/bin/x", Links: []string{"/usr/share/units/x"}}), "step own-programs: programs/x.yaml: /usr/share/units/x leads to where no program can be: " +
			"/usr/lib/systemd/system/x cannot be a program's: files there decide how a machine starts; write a path such as /usr/bin/x"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Overlay = units(map[string]string{
				"usr/lib/sysctl.d/50-spore.conf": "x", "usr/lib/udev/rules.d/61-spore.rules": "x",
				"usr/lib/systemd/system/reboot.target.d/50-spore.conf": "[Unit]\nJobTimeoutSec=8min\n",
			})
			base := append(ownBase(), pkg("more", "", unit("reboot.target", ""), fileEntry("/usr/lib/sysctl.d/10-base.conf", "", 0o644)))
			_, err := Compose(base, tc.o)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestASecondNameOfAUnitIsNotThatOfAPackage(t *testing.T) {
	const timer = "[Timer]\nOnBootSec=1\nUnit=multi-user.target\n[Install]\nWantedBy=timers.target\n"
	for name, tc := range map[string]struct{ file, alias, want string }{
		"a unit of a package":              {"my.timer", "apt.timer", "step own: units/my.timer:6: Alias=apt.timer takes the place of the unit of package systemd; choose another name, or put the whole unit into units/apt.timer"},
		"by a specifier":                   {"apt@a.timer", "%p.timer", "step own: units/apt@a.timer:6: Alias=%p.timer takes the place of the unit of package systemd; choose another name, or put the whole unit into units/apt.timer"},
		"a link of a package":              {"my.timer", "daily.timer", "step own: units/my.timer:6: Alias=daily.timer takes the place of the unit of package systemd; choose another name, or put the whole unit into units/daily.timer"},
		"of the unit in whose place it is": {"apt.timer", "daily.timer", ""},
		"another name":                     {"my.timer", "mine.timer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := append(ownBase(), pkg("more", "", linkEntry("/usr/lib/systemd/system/daily.timer", "apt.timer")))
			_, err := Compose(base, Options{OwnUnits: []ownunits.File{ownUnit(t, tc.file, timer+"Alias="+tc.alias+"\n")}})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}
