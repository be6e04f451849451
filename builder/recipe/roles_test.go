package recipe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/role"
	ownunits "spore/cluster/units"
	"spore/services"
)

func TestARoleOfTheConfigurationStartsUnitsOfAPackage(t *testing.T) {
	texts := []RoleFile{
		{Path: "/etc/systemd/system/valkey.target", Source: "roles/valkey.yaml", Text: "[Unit]\nWants=valkey-server.service\n"},
		{Path: "/etc/systemd/system/valkey-server.service.d/90-role.conf", Source: "roles/valkey.yaml", Text: "[Service]\nUser=valkey\n"},
		{Path: "/usr/lib/systemd/system-preset/40-role-valkey.preset", Source: "roles/valkey.yaml", Text: "disable valkey-server.service\n"},
		{Path: "/usr/lib/sysusers.d/role-valkey.conf", Source: "roles/valkey.yaml", Text: "u valkey - \"Role valkey\"\n"},
	}
	server := pkg("valkey-server", "", fileEntry("/usr/bin/valkey-server", "x", 0o755), unit("valkey-server.service", "[Service]\nExecStart=/usr/bin/valkey-server\n[Install]\nWantedBy=multi-user.target\n"))
	preset := units(map[string]string{"50-spore.preset": "enable *\n"})
	r := compose(t, Options{Units: preset, Roles: texts}, server)
	require.False(t, r.Tree.Exists(localUnits+"/multi-user.target.wants/valkey-server.service"), "the target alone starts it")
	data, err := r.Tree.ReadFile(localUnits + "/valkey.target")
	require.NoError(t, err)
	require.Equal(t, texts[0].Text, string(data))
	n, err := r.Tree.Lstat(localUnits + "/valkey.target")
	require.NoError(t, err)
	require.Equal(t, "configuration:roles/valkey.yaml", n.Origin)
	passwd, err := r.Tree.ReadFile("/etc/passwd")
	require.NoError(t, err)
	require.Contains(t, string(passwd), "\nvalkey:x:")

	r = compose(t, Options{Units: preset, Roles: texts, Starts: []RoleUnit{{"valkey-server.service", "roles/valkey.yaml:3:9"}}}, server)
	require.NotNil(t, r, "the package has it")

	r = compose(t, Options{Units: preset}, server)
	require.True(t, r.Tree.Exists(localUnits+"/multi-user.target.wants/valkey-server.service"))
}

// A broker that a role configures listens by the role's unit, and not by that of its package besides.
func TestOfAPackageThatRolesNameNoOtherUnitStarts(t *testing.T) {
	packages := func() []Package {
		out := []Package{withScript(pkg("rabbit", "", unit("rabbit.service", "[Install]\nWantedBy=multi-user.target\n")), "postinst", "deb-systemd-helper enable rabbit.service\n")}
		return append(out, withScript(pkg("epmd", "", unit("epmd.service", "[Install]\nWantedBy=multi-user.target\n")), "postinst", "deb-systemd-helper enable epmd.service\n"))
	}
	list, err := services.With([]services.Definition{&role.Definition{Name: "queue", Packages: []string{"rabbit"}, Units: []string{"queue.service"}}})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		options Options
		want    []string
	}{
		"a role names it":                   {Options{Services: list, Programs: []string{"queue"}}, []string{"epmd.service"}},
		"image.yaml names it, too":          {Options{Services: list, Programs: []string{"queue"}, Named: []string{"rabbit"}}, []string{"epmd.service", "rabbit.service"}},
		"a role that the image has not":     {Options{Services: list}, []string{"epmd.service", "rabbit.service"}},
		"no role":                           {Options{}, []string{"epmd.service", "rabbit.service"}},
		"the role names what it depends on": {Options{Services: list, Programs: []string{"queue"}, RoleUnits: []string{"epmd.service"}}, nil},
	} {
		r := compose(t, tt.options, packages()...)
		require.ElementsMatch(t, tt.want, r.Tree.Children(localUnits+"/multi-user.target.wants"), name)
	}
}

func TestTheTemplateOfARolesInstanceStaysOffElsewhere(t *testing.T) {
	timer := units(map[string]string{"50-spore.preset": "enable *\n", "x.service": "[Service]\nType=oneshot\n"})
	own := []ownunits.File{ownUnit(t, "backup@.timer", "[Timer]\nOnCalendar=daily\nUnit=x.service\n[Install]\nWantedBy=timers.target\nDefaultInstance=daily\n")}
	link := localUnits + "/timers.target.wants/backup@daily.timer"
	systemd := pkg("systemd", "", unit("timers.target", ""))
	r := compose(t, Options{Units: timer, OwnUnits: own}, systemd)
	require.True(t, r.Tree.Exists(link))
	for _, instance := range []string{"backup@daily.timer", "backup@weekly.timer"} {
		r = compose(t, Options{Units: timer, OwnUnits: own, RoleUnits: []string{instance}}, systemd)
		require.False(t, r.Tree.Exists(link), instance)
	}
	r = compose(t, Options{Units: timer, OwnUnits: own, RoleUnits: []string{"restore@daily.timer"}}, systemd)
	require.True(t, r.Tree.Exists(link))
}

func TestAnOwnRoleThatIsOffTakesNoUnitOutOfTheImage(t *testing.T) {
	u := units(map[string]string{"coredns.service": "", "dns.target": "", "spore-agent.service": "", "mosquitto.service": ""})
	list, err := services.With([]services.Definition{
		&role.Definition{Name: "backup", Units: []string{"coredns.timer", "spore-agent.service"}}, &role.Definition{Name: "dns-backup", Units: []string{"mosquitto.service"}},
	})
	require.NoError(t, err)
	r := compose(t, Options{Units: u, Programs: []string{"coredns"}, Services: list}, pkg("a", ""))
	require.Equal(t, []string{"coredns.service", "dns.target", "spore-agent.service"}, r.Tree.Children(localUnits))
}

func TestATextOfARoleTakesNoOthersPlace(t *testing.T) {
	target := []RoleFile{{Path: localUnits + "/dns.target", Source: "roles/dns.yaml", Text: "[Unit]\n"}}
	for want, packages := range map[string][]Package{
		"step roles: roles/dns.yaml: /etc/systemd/system/dns.target is there already, of package a; write another name":     {pkg("a", "", fileEntry(localUnits+"/dns.target", "", 0o644))},
		"step roles: roles/dns.yaml: /usr/lib/systemd/system/dns.target is there already, of package a; write another name": {pkg("a", "", unit("dns.target", ""))},
	} {
		_, err := Compose(packages, Options{Roles: target})
		require.EqualError(t, err, want)
	}
	o := Options{Roles: target, Units: units(map[string]string{"dns.target": "", "coredns.service": ""}), Programs: []string{"coredns"}}
	_, err := Compose([]Package{pkg("a", "")}, o)
	require.EqualError(t, err, "step units: /etc/systemd/system/dns.target is there already, of roles/dns.yaml; write another name there")
	o.Programs = nil
	compose(t, o, pkg("a", ""))
}

func TestARoleThatStartsAUnitThatTheImageDoesNotHave(t *testing.T) {
	starts := []RoleUnit{
		{"valkey-server.service", "roles/valkey.yaml:3:9"}, {"valky.service", "roles/valkey.yaml:3:32"},
		{"backup@daily.timer", "roles/backup.yaml:2:9"}, {"copy@daily.timer", "roles/backup.yaml:2:29"},
	}
	server := pkg("valkey-server", "", fileEntry("/usr/bin/x", "x", 0o755), unit("valkey-server.service", "[Service]\nExecStart=/usr/bin/x\n"),
		unit("backup@.timer", "[Timer]\nOnCalendar=daily\n"))
	_, err := Compose([]Package{server}, Options{Starts: starts})
	require.EqualError(t, err, "step own: roles/valkey.yaml:3:32: the image has no unit valky.service, which the role starts; write it into "+
		"units/, or name the package that has it under packages\nroles/backup.yaml:2:29: the image has no unit copy@daily.timer, which "+
		"the role starts; write it into units/, or name the package that has it under packages")
}

func TestADropInThatTakesAwayWhatARoleMakesIsRefused(t *testing.T) {
	r := RoleFile{Path: localUnits + "/x.service.d/90-role.conf", Source: "roles/x.yaml", Text: "[Service]\nExecStartPre=\n", Before: "x.service"}
	own := []ownunits.File{ownUnit(t, "x.service.d/override.conf", "[Service]\nExecStartPre=\nExecStartPre=/usr/bin/x\n")}
	_, err := Compose([]Package{pkg("x", "", fileEntry("/usr/bin/x", "\x7fELF", 0o755), unit("x.service", "[Service]\nExecStart=/usr/bin/x\n"))}, Options{Roles: []RoleFile{r}, OwnUnits: own})
	require.EqualError(t, err, "step role-starts: roles/x.yaml: /etc/systemd/system/x.service.d/override.conf begins ExecStartPre= of x.service anew, and takes "+
		"away what makes the files of the role; give it a name that comes before 90-role.conf, such as 50-override.conf")
}

// What a package, units/ and a role do before a service starts: the role's comes first, and then what systemd would
// have done without it.
func TestWhatARoleMakesIsThereBeforeItsServicePrepares(t *testing.T) {
	const dropIn = "[Service]\nExecStartPre=\nExecStartPre=+/usr/bin/ours\nUMask=0077\n"
	role := func(service string) RoleFile {
		return RoleFile{Path: localUnits + "/" + service + ".d/90-role.conf", Source: "roles/x.yaml", Text: dropIn, Before: service}
	}
	for name, tc := range map[string]struct {
		service string
		files   []entry
		own     []ownunits.File
		want    []string
	}{
		"nothing":   {"x.service", []entry{unit("x.service", "[Service]\nExecStart=/usr/bin/x\n")}, nil, nil},
		"a package": {"x.service", []entry{unit("x.service", "[Service]\nExecStartPre=-/usr/bin/a \\\n# why\n  \"two words\"\nExecStartPre=+/usr/bin/b\n[Unit]\nExecStartPre=/no\n")}, nil, []string{`-/usr/bin/a    "two words"`, "+/usr/bin/b"}},
		"no unit":   {"x.service", nil, nil, nil},
		"an instance": {"x@a.service", []entry{
			unit("x@.service", "[Service]\nExecStartPre=/usr/bin/a %i\n"), fileEntry(packageUnits+"/x@.service.d/10-b.conf", "[Service]\nExecStartPre=/usr/bin/b\n", 0o644),
			fileEntry(packageUnits+"/x@.service.d/20-c.conf", "[Service]\nExecStartPre=/usr/bin/d\n", 0o644), fileEntry(localUnits+"/x@a.service.d/20-c.conf", "[Service]\nExecStartPre=/usr/bin/c\n", 0o644),
		}, nil, []string{"/usr/bin/a %i", "/usr/bin/b", "/usr/bin/c"}},
		"drop-ins before and behind": {"x.service", []entry{
			unit("x.service", "[Service]\nExecStartPre=/usr/bin/a\n"), fileEntry(packageUnits+"/x.service.d/10-b.conf", "[Service]\nExecStartPre=\nExecStartPre=/usr/bin/b\n", 0o644),
			fileEntry(packageUnits+"/x.service.d/95-c.conf", "[Service]\nExecStartPre=/usr/bin/c\n", 0o644),
		}, nil, []string{"/usr/bin/b"}},
		"units/ in the place of a package": {"x.service", []entry{unit("x.service", "[Service]\nExecStartPre=/usr/bin/a\n")},
			[]ownunits.File{ownUnit(t, "x.service", "[Service]\nExecStartPre=/usr/bin/d\n")}, []string{"/usr/bin/d"}},
	} {
		t.Run(name, func(t *testing.T) {
			var programs []entry
			for _, p := range []string{"a", "b", "c", "d", "x", "ours"} {
				programs = append(programs, fileEntry("/usr/bin/"+p, "\x7fELF", 0o755))
			}
			r := compose(t, Options{Roles: []RoleFile{role(tc.service)}, OwnUnits: tc.own}, pkg("x", "", append(programs, tc.files...)...))
			want := dropIn
			if tc.want != nil {
				want += "# What the unit itself has.\nExecStartPre=" + strings.Join(tc.want, "\nExecStartPre=") + "\n"
			}
			require.Equal(t, want, text(t, r.Tree, localUnits+"/"+tc.service+".d/90-role.conf"))
		})
	}
}

func TestATimerOfAPackageThatStartsAnotherServiceThanTheRoles(t *testing.T) {
	server := pkg("a", "", fileEntry("/usr/bin/x", "x", 0o755), unit("x.service", "[Service]\nExecStart=/usr/bin/x\n"),
		unit("backup@.timer", "[Timer]\nOnCalendar=daily\nUnit=x.service\n"), unit("x.timer", "[Timer]\nOnCalendar=daily\nUnit=x.service\n"),
		unit("ask.socket", "[Socket]\nListenStream=/run/ask\n"), unit("ask.service", "[Service]\nExecStart=/usr/bin/x\n"),
		unit("ask.socket.d/each.conf", "[Socket]\nAccept=yes\n"))
	starts := []RoleUnit{{"x.timer", "roles/a.yaml:2:9"}, {"backup@daily.timer", "roles/a.yaml:2:18"}, {"ask.socket", "roles/b.yaml:2:9"}}
	_, err := Compose([]Package{server}, Options{Starts: starts})
	require.EqualError(t, err, "step own: roles/a.yaml:2:18: backup@daily.timer of the package has Unit=x.service, and the user and hardening "+
		"of the role are those of the service of its own name; write a timer of units/ that starts that\n"+
		"roles/b.yaml:2:9: ask.socket of the package has Accept=yes, and the user and hardening of the role are those of the service of its "+
		"own name; write a socket of units/ that starts that")
	own := []ownunits.File{ownUnit(t, "backup@.timer", "[Timer]\nOnCalendar=daily\n"), ownUnit(t, "backup@.service", "[Service]\nExecStart=/usr/bin/x\n")}
	compose(t, Options{Starts: starts[:2], OwnUnits: own}, server)
}
