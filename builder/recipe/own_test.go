package recipe

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	"spore/cluster/overlay"
	ownunits "spore/cluster/units"
	"spore/cluster/units/unitfile"
)

// ownFiles makes entries of overlay/ with the directories that they are in.
func ownFiles(entries ...overlay.Entry) []overlay.Entry {
	var out []overlay.Entry
	seen := map[string]bool{}
	for _, e := range entries {
		var parents []overlay.Entry
		for dir := path.Dir(e.Path); dir != "/" && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			parents = append([]overlay.Entry{{Path: dir, Type: fs.ModeDir, At: overlay.Dir + dir}}, parents...)
		}
		if e.At == "" {
			e.At = e.Source()
		}
		out = append(append(out, parents...), e)
		seen[e.Path] = true
	}
	return out
}

func own(p, data string) overlay.Entry { return overlay.Entry{Path: p, Data: []byte(data)} }

// ownUnit parses a unit as the configuration has it.
func ownUnit(t *testing.T, name, text string) ownunits.File {
	t.Helper()
	f := ownunits.File{Path: name, Data: []byte(text)}
	settings, faults := unitfile.Parse(f.Data, path.Ext(f.Unit()))
	require.Empty(t, faults)
	f.Settings = settings
	return f
}

// ownBase is a root with what the tests lean on.
func ownBase() []Package {
	return []Package{
		pkg("base", "",
			dirEntry("/usr/bin", 0o755), fileEntry("/usr/bin/true", "\x7fELF", 0o755), fileEntry("/usr/bin/sh", "\x7fELF", 0o755),
			fileEntry("/etc/gateway.conf", "of Debian", 0o644), fileEntry("/usr/share/zoneinfo/UTC", "tz", 0o644),
			dirEntry("/usr/share/gateway", 0o755), linkEntry("/usr/share/units", "../lib/systemd/system"), dirEntry("/opt", 0o755)),
		pkg("systemd", "", unit("multi-user.target", ""), unit("timers.target", ""), unit("network-online.target", ""), unit("apt.timer", "[Timer]\nOnBootSec=1\n[Install]\nWantedBy=timers.target\n"),
			unit(waitOnlineUnit, "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=network-online.target\n"),
			fileEntry("/usr/lib/systemd/systemd-networkd-wait-online", "\x7fELF", 0o755)),
	}
}

func TestFilesOfTheUserAreLaidWithTheirOrigin(t *testing.T) {
	secret := own("/etc/mine/secret.conf", "b")
	secret.File = overlay.File{Owner: "coredns", Group: "coredns", Mode: "0640"}
	replaced := own("/etc/gateway.conf", "of mine")
	replaced.File.Replace = true
	tool := own("/opt/mine/tool", "#!/bin/sh\n")
	tool.Executable = true
	merged := own("/bin/tool", "\x7fELF")
	merged.Executable = true
	link := overlay.Entry{Path: "/etc/localtime", Type: fs.ModeSymlink, Target: "../usr/share/zoneinfo/UTC"}
	state := overlay.Entry{Path: "/opt/mine/data", Type: fs.ModeSymlink, Target: "../../var/lib/mine"}
	r := compose(t, Options{Files: ownFiles(own("/etc/mine/a.conf", "a"), secret, replaced, tool, merged, link, state), Programs: []string{"coredns"}}, ownBase()...)
	for p, want := range map[string]string{
		"/etc/mine":             "0755 0:0 configuration:overlay/etc/mine",
		"/etc/mine/a.conf":      "0644 0:0 configuration:overlay/etc/mine/a.conf",
		"/etc/mine/secret.conf": "0640 800:800 configuration:overlay/etc/mine/secret.conf",
		"/etc/gateway.conf":     "0644 0:0 configuration:overlay/etc/gateway.conf",
		"/opt/mine/tool":        "0755 0:0 configuration:overlay/opt/mine/tool",
		"/usr/bin/tool":         "0755 0:0 configuration:overlay/bin/tool",
		"/etc/localtime":        "0777 0:0 configuration:overlay/etc/localtime",
		"/opt/mine/data":        "0777 0:0 configuration:overlay/opt/mine/data",
		"/etc":                  "0755 0:0 step:accounts",
	} {
		n, err := r.Tree.Lstat(p)
		require.NoError(t, err, p)
		require.Equal(t, want, fmt.Sprintf("%04o %d:%d %s", n.Mode, n.UID, n.GID, n.Origin), p)
	}
	require.Equal(t, "of mine", text(t, r.Tree, "/etc/gateway.conf"))
}

func TestFilesThatCannotBeLaidAreNamedWithThePackage(t *testing.T) {
	at := func(e overlay.Entry, change func(*overlay.Entry)) overlay.Entry { change(&e); return e }
	for name, tc := range map[string]struct {
		entry overlay.Entry
		want  string
	}{
		"over a package's file":                            {own("/etc/gateway.conf", "x"), "overlay/etc/gateway.conf: /etc/gateway.conf is of package base; to replace it, write into overlay.yaml:\n  files: {/etc/gateway.conf: {replace: true}}"},
		"over a package's program, by a link of the image": {own("/bin/true", "x"), "overlay/bin/true: /bin/true is of package base; to replace it, write into overlay.yaml:\n  files: {/bin/true: {replace: true}}"},
		"over a package's directory":                       {own("/usr/share/gateway", "x"), "overlay/usr/share/gateway: /usr/share/gateway is a directory in the image, of package base; a file cannot take its place"},
		"the mode of a package's directory": {at(overlay.Entry{Path: "/usr/share/gateway", Type: fs.ModeDir}, func(e *overlay.Entry) { e.File.Mode, e.At = "0700", "overlay.yaml:2:3" }),
			"overlay.yaml:2:3: /usr/share/gateway is of package base; to replace it, write into overlay.yaml:\n  files: {/usr/share/gateway: {replace: true}}"},
		"over a file of ours": {at(own("/usr/lib/modprobe.d/50-spore.conf", "x"), func(e *overlay.Entry) { e.File.Replace = true }),
			"overlay/usr/lib/modprobe.d/50-spore.conf: /usr/lib/modprobe.d/50-spore.conf is there already, of Spore, and cannot be replaced; choose another path"},
		"over what the build makes": {at(own("/etc/fstab", "x"), func(e *overlay.Entry) { e.File.Replace = true }), "overlay/etc/fstab: /etc/fstab is there already, of Spore, and cannot be replaced; choose another path"},
		"over a program of ours":    {own("/usr/bin/coredns", "x"), "overlay/usr/bin/coredns: /usr/bin/coredns is there already, of the program coredns, and cannot be replaced; choose another path"},
		"through a link of the image to where nothing may be": {own("/usr/share/units/x.service", "x"),
			"overlay/usr/share/units/x.service: /usr/share/units/x.service leads to /usr/lib/systemd/system/x.service in the image, where no file of overlay/ can be: it is systemd's own; put units into units/, and settings into overlay/etc/systemd"},
		"below a file": {own("/etc/gateway.conf/x", "x"), "overlay/etc/gateway.conf: /etc/gateway.conf is a file of package base, and a directory in overlay/; choose another path\n" +
			"overlay/etc/gateway.conf/x: /etc/gateway.conf/x: /etc/gateway.conf is not a directory"},
		"an unknown owner":            {at(own("/etc/x", "x"), func(e *overlay.Entry) { e.File.Owner, e.At = "nobody-knows", "overlay.yaml:2:12" }), "overlay.yaml:2:12: the image has no user nobody-knows; add the package that makes it, or name it in scripts of image.yaml (users, groups)"},
		"an unknown group":            {at(own("/etc/x", "x"), func(e *overlay.Entry) { e.File.Group, e.At = "nobody-knows", "overlay.yaml:2:12" }), "overlay.yaml:2:12: the image has no group nobody-knows; add the package that makes it, or name it in scripts of image.yaml (users, groups)"},
		"a link to what is not there": {overlay.Entry{Path: "/etc/x", Type: fs.ModeSymlink, Target: "../usr/share/none"}, "overlay/etc/x: is a link to ../usr/share/none, and the image has no /usr/share/none"},
		"a link to itself":            {overlay.Entry{Path: "/etc/x", Type: fs.ModeSymlink, Target: "x"}, "overlay/etc/x: /etc/x: too many levels of symbolic links"},
		"a script without its interpreter": {at(own("/usr/bin/report", "#!/usr/bin/env python3\n"), func(e *overlay.Entry) { e.Executable = true }),
			"overlay/usr/bin/report: it is a script for /usr/bin/python3, which is not in the image; add its package to packages of image.yaml"},
		"what the build makes after it": {own("/usr/lib/tmpfiles.d/spore-var.conf", "x"), "overlay/usr/lib/tmpfiles.d/spore-var.conf: /usr/lib/tmpfiles.d/spore-var.conf leads to /usr/lib/tmpfiles.d/spore-var.conf in the image, where no file of overlay/ can be: the build writes it"},
		"a file where state is mounted": {own("/home/x", "x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Files: ownFiles(tc.entry), Overlay: units(map[string]string{"usr/lib/modprobe.d/50-spore.conf": "x"}),
				Payloads: []Payload{{Name: "coredns", Files: []PayloadFile{{Path: "/usr/bin/coredns", Mode: 0o755, Content: tree.Bytes("x")}}}}}
			_, err := Compose(ownBase(), o)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			_, said, _ := strings.Cut(err.Error(), ": ")
			require.Equal(t, tc.want, said)
		})
	}
}

func TestUnitsOfTheUserAreEnabledByTheirInstallSection(t *testing.T) {
	r := compose(t, Options{
		Units: units(map[string]string{"50-spore.preset": "enable ours.service\ndisable *\n", "ours.service": "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n"}),
		OwnUnits: []ownunits.File{
			ownUnit(t, "gateway.service", "[Unit]\nWants=network-online.target\n[Service]\nExecStart=-/usr/bin/true\nUser=coredns\n[Install]\nWantedBy=multi-user.target ours.service\n"),
			ownUnit(t, "report.service", "[Service]\nExecStart=@true report\n"),
			ownUnit(t, "report.timer", "[Timer]\nOnBootSec=1\n[Install]\nWantedBy=timers.target\n"),
			ownUnit(t, "role.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),
			ownUnit(t, "apt.timer.d/on.conf", "[Install]\nWantedBy=timers.target\n"),
		},
		RoleUnits: []string{"role.service"}, Programs: []string{"coredns"},
	}, ownBase()...)
	var links []string
	require.NoError(t, r.Tree.Walk(func(p string, n *tree.Inode) error {
		if n.Type == tree.Symlink && strings.HasPrefix(p, localUnits+"/") {
			links = append(links, strings.TrimPrefix(p, localUnits+"/"))
		}
		return nil
	}))
	require.Equal(t, []string{
		"multi-user.target.wants/gateway.service", "multi-user.target.wants/ours.service",
		"network-online.target.wants/systemd-networkd-wait-online.service", "ours.service.wants/gateway.service",
		"timers.target.wants/apt.timer", "timers.target.wants/report.timer",
	}, links)
	n, err := r.Tree.Stat(localUnits + "/gateway.service")
	require.NoError(t, err)
	require.Equal(t, "configuration:units/gateway.service", n.Origin)
	require.Contains(t, text(t, r.Tree, localUnits+"/systemd-networkd-wait-online.service.d/49-spore.conf"), "--any --operational-state=routable")
}

func TestWithoutAUnitThatWaitsNothingReachesForTheNetwork(t *testing.T) {
	r := compose(t, Options{}, ownBase()...)
	require.False(t, r.Tree.Exists(localUnits+"/network-online.target.wants"))
}

func TestAnEmptyUnitMasksThatOfAPackage(t *testing.T) {
	r := compose(t, Options{OwnUnits: []ownunits.File{ownUnit(t, "apt.timer", "")}}, append(ownBase(), withScript(pkg("apt", ""), "postinst", "#!/bin/sh\ndeb-systemd-helper enable apt.timer\n"))...)
	require.False(t, r.Tree.Exists(localUnits+"/timers.target.wants/apt.timer"))
	require.Empty(t, text(t, r.Tree, localUnits+"/apt.timer"))
	require.Empty(t, r.Report.Notes())
}

func TestAUnitInThePlaceOfAPackagesIsNoted(t *testing.T) {
	r := compose(t, Options{OwnUnits: []ownunits.File{ownUnit(t, "apt.timer", "[Timer]\nOnBootSec=2\nUnit=multi-user.target\n")}}, ownBase()...)
	require.Len(t, r.Report.Notes(), 1)
	require.Equal(t, "takes the place of the unit of package systemd; a drop-in changes single settings", r.Report.Notes()[0].Why)
}

func TestUnitsThatCannotRunAreNamedWithTheirLine(t *testing.T) {
	const addUser = "add the package that makes it, or name it in scripts of image.yaml (users, groups)"
	for name, tc := range map[string]struct{ file, text, want string }{
		"a program that is not there":       {"a.service", "[Service]\nExecStart=/usr/bin/none\n", "units/a.service:2: ExecStart=/usr/bin/none is not in the image; add its package to packages of image.yaml, or the program to overlay/"},
		"behind prefixes":                   {"a.service", "[Service]\nExecStart=/usr/bin/true\nExecStartPost=@-:+!|/usr/bin/none none\n", "units/a.service:3: ExecStartPost=/usr/bin/none is not in the image; add its package to packages of image.yaml, or the program to overlay/"},
		"by its name alone":                 {"a.service", "[Service]\nExecStart=none --now\n", "units/a.service:2: ExecStart=none is not in the image; add its package to packages of image.yaml, or the program to overlay/"},
		"what is no program":                {"a.service", "[Service]\nExecStart=/etc/gateway.conf\n", "units/a.service:2: ExecStart=/etc/gateway.conf is not a program; add its package to packages of image.yaml, or the program to overlay/"},
		"of a drop-in":                      {"apt.timer.d/a.conf", "[Timer]\nOnBootSec=1\n", ""},
		"of a drop-in for nothing":          {"none.service.d/a.conf", "[Service]\nRestart=always\n", "units/none.service.d/a.conf:1: the image has no unit none.service, which the drop-in is for; add its package, or remove the file"},
		"a user that is not there":          {"a.service", "[Service]\nUser=gateway\nExecStart=true\n", "units/a.service:2: User=gateway: the image has no such user; " + addUser + ", or write DynamicUser=yes"},
		"a group that is not there":         {"a.service", "[Service]\nGroup=gateway\nExecStart=true\n", "units/a.service:2: Group=gateway: the image has no such group; " + addUser},
		"a timer for nothing":               {"a.timer", "[Timer]\nOnBootSec=1\n", "units/a.timer:1: the image has no unit a.service, which it starts; write that into units/, or name another one"},
		"a timer for a unit of a package":   {"a.timer", "[Timer]\nOnBootSec=1\nUnit=systemd-networkd-wait-online.service\n", ""},
		"a user of its own":                 {"a.service", "[Service]\nDynamicUser=yes\nUser=gateway\nExecStart=true\n", ""},
		"a target that is not there":        {"a.service", "[Service]\nExecStart=true\n[Install]\nWantedBy=graphical.target\n", "units/a.service:4: WantedBy=graphical.target: the image has no graphical.target, so that nothing starts the unit; write multi-user.target, or timers.target for a timer"},
		"a target of a role that is absent": {"a.service", "[Service]\nExecStart=true\n[Install]\nWantedBy=kafka.target\n", ""},
		"masking what is not there":         {"none.timer", "", "units/none.timer:1: the file is empty, which masks a unit of a package, and no package has none.timer; write the unit, or remove the file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose(ownBase(), Options{OwnUnits: []ownunits.File{ownUnit(t, tc.file, tc.text)}})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			_, said, _ := strings.Cut(err.Error(), ": ")
			require.Equal(t, tc.want, said)
		})
	}
}

func TestAProgramOfOverlayIsFoundByAUnit(t *testing.T) {
	tool := own("/opt/mine/tool", "\x7fELF")
	tool.Executable = true
	compose(t, Options{Files: ownFiles(tool), OwnUnits: []ownunits.File{ownUnit(t, "a.service", "[Service]\nExecStart=/opt/mine/tool\n")}}, ownBase()...)
}
