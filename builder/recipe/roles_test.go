package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/role"
	ownunits "spore/cluster/units"
	"spore/services"
)

func TestARoleOfTheConfigurationStartsUnitsOfAPackage(t *testing.T) {
	texts := []RoleFile{
		{"/etc/systemd/system/valkey.target", "roles/valkey.yaml", "[Unit]\nWants=valkey-server.service\n"},
		{"/etc/systemd/system/valkey-server.service.d/90-role.conf", "roles/valkey.yaml", "[Service]\nUser=valkey\n"},
		{"/usr/lib/systemd/system-preset/40-role-valkey.preset", "roles/valkey.yaml", "disable valkey-server.service\n"},
		{"/usr/lib/sysusers.d/role-valkey.conf", "roles/valkey.yaml", "u valkey - \"Role valkey\"\n"},
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
	target := []RoleFile{{localUnits + "/dns.target", "roles/dns.yaml", "[Unit]\n"}}
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
		unit("backup@.timer", "[Timer]\nOnCalendar=daily\nUnit=valkey-server.service\n"))
	_, err := Compose([]Package{server}, Options{Starts: starts})
	require.EqualError(t, err, "step own: roles/valkey.yaml:3:32: the image has no unit valky.service, which the role starts; write it into "+
		"units/, or name the package that has it under packages\nroles/backup.yaml:2:29: the image has no unit copy@daily.timer, which "+
		"the role starts; write it into units/, or name the package that has it under packages")
}
