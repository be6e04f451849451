package units

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	ours "spore/units"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

const good = "[Service]\nExecStart=/usr/bin/gateway\n"

// read returns the files and all problems of Read and Check, one in a line.
func read(fsys fs.FS) ([]File, []string) {
	var problems []string
	files := Reader{FS: fsys, Report: func(name string, line, column int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d:%d: error: %s", name, line, column, fmt.Sprintf(format, args...)))
	}}.Read()
	k := &check.Checker{}
	Check(k, files)
	for _, p := range k.Report {
		problems = append(problems, p.String())
	}
	return files, problems
}

func TestUnitsAndDropInsAreRead(t *testing.T) {
	files, problems := read(fstest.MapFS{
		"units/gateway.service":              file("[Unit]\nWants=network-online.target\nAfter=network-online.target\n" + good + "[Install]\nWantedBy=multi-user.target\n"),
		"units/report.timer":                 file("[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"),
		"units/report.service":               file("[Service]\nType=oneshot\nExecStart=/usr/bin/report\n"),
		"units/nginx.service.d/50-more.conf": file("[Service]\nLimitNOFILE=10000\n"),
		"units/nginx@a.service":              file(good),
		"units/nginx@.service":               file(good),
		"units/apt-daily.timer":              file(""),
		"units/srv-data\\x2d1.mount":         file("[Mount]\nWhat=/dev/sdb1\nWhere=/srv/data-1\n"),
		"units/plant.target":                 file("[Unit]\nDescription=The plant\n"),
		"units/.gitkeep":                     file(""),
		"units/nginx.service.d/.swp":         file(""),
	})
	require.Empty(t, problems)
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s of %s: drop-in %t, masks %t, installs %t, online %t", f.Source(), f.Unit(), f.DropIn(), f.Masks(), f.Installs(), f.WantsOnline()))
	}
	require.Equal(t, []string{
		"units/apt-daily.timer of apt-daily.timer: drop-in false, masks true, installs false, online false",
		"units/gateway.service of gateway.service: drop-in false, masks false, installs true, online true",
		"units/nginx.service.d/50-more.conf of nginx.service: drop-in true, masks false, installs false, online false",
		"units/nginx@.service of nginx@.service: drop-in false, masks false, installs false, online false",
		"units/nginx@a.service of nginx@a.service: drop-in false, masks false, installs false, online false",
		"units/plant.target of plant.target: drop-in false, masks false, installs false, online false",
		"units/report.service of report.service: drop-in false, masks false, installs false, online false",
		"units/report.timer of report.timer: drop-in false, masks false, installs true, online false",
		`units/srv-data\x2d1.mount of srv-data\x2d1.mount: drop-in false, masks false, installs false, online false`,
	}, got)
	require.Equal(t, 5, files[1].Line("ExecStart", "/usr/bin/gateway"))
	require.Equal(t, 1, files[1].Line("ExecStart", "/usr/bin/other"))
}

func TestBadUnits(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"the name of one of ours":            {"etcd.service", good, "1:1: error: etcd.service is the name of a unit of Spore; choose another one"},
		"an instance of one of ours":         {"ceph-osd-disk@x.service", good, "1:1: error: ceph-osd-disk@x.service is the name of a unit of Spore; choose another one"},
		"a target of ours":                   {"kafka.target", "[Unit]\nDescription=x\n", "1:1: error: kafka.target is the name of a unit of Spore; choose another one"},
		"a name that is kept for us":         {"spore-gateway.service", good, "1:1: error: spore-gateway.service is the name of a unit of Spore; choose another one, which does not begin with spore-"},
		"a drop-in for one of ours":          {"kubelet.service.d/50-x.conf", "[Service]\nNoNewPrivileges=no\n", "1:1: error: kubelet.service is a unit of Spore, which takes no drop-ins: settings of services/ and nodes/ change what it does"},
		"an alias of one of ours":            {"a.service", good + "[Install]\nAlias=b.service containerd.service\n", "4:1: error: Alias=containerd.service is the name of a unit of Spore; choose another one"},
		"one of ours that needs it":          {"a.service", good + "[Install]\nRequiredBy=kafka.service\n", "4:1: error: RequiredBy=kafka.service lets a failure of this unit stop one of Spore; write WantedBy=kafka.service"},
		"drop-ins for a kind":                {"service.d/a.conf", "", ": drop-ins for all units of a kind or a prefix change those of Spore too; write one for each unit, such as nginx.service.d"},
		"drop-ins for a prefix":              {"spore-.service.d/a.conf", "", ": drop-ins for all units of a kind or a prefix change those of Spore too; write one for each unit, such as nginx.service.d"},
		"drop-ins for a prefix of ours":      {"kube-.service.d/a.conf", "", ": drop-ins for all units of a kind or a prefix change those of Spore too; write one for each unit, such as nginx.service.d"},
		"drop-ins for a prefix of templates": {"ceph-osd-@.service.d/a.conf", "", ": drop-ins for all units of a kind or a prefix change those of Spore too; write one for each unit, such as nginx.service.d"},
		"drop-ins for a prefix of instances": {"ceph-osd-@x.service.d/a.conf", "", ": drop-ins for all units of a kind or a prefix change those of Spore too; write one for each unit, such as nginx.service.d"},
		"a name of a prefix":                 {"plant-.service", good, ": the name ends in - before the kind or the @, and drop-ins of such a name change all units of the prefix, those of Spore too; write the name without that -"},
		"a template of a prefix":             {"plant-@.service", good, ": the name ends in - before the kind or the @, and drop-ins of such a name change all units of the prefix, those of Spore too; write the name without that -"},
		"a folder of links":                  {"multi-user.target.wants/a.service", good, ": write it into the [Install] section of the unit that is to start: WantedBy=multi-user.target"},
		"another folder":                     {"mine/a.service", good, ": systemd would not read this folder; drop-ins for a unit are in NAME.d, such as nginx.service.d"},
		"drop-ins for no unit":               {"nginx.d/a.conf", "", `: "nginx" is not the name of a unit; drop-ins for a unit are in NAME.d, such as nginx.service.d`},
		"a drop-in with another end":         {"nginx.service.d/a.txt", "", "/a.txt: systemd reads *.conf alone in a folder of drop-ins; rename it to a.conf"},
		"a misspelt end":                     {"a.servise", good, `: systemd would not load a unit of this name: the end says what it is; did you mean ".service"?`},
		"no end":                             {"gateway", good, ": systemd would not load a unit of this name: the end says what it is; rename it to NAME.automount, .mount, .path, .service, .slice, .socket, .swap, .target or .timer"},
		"a device":                           {"a.device", "", ": systemd loads no .device units from files; write one of .automount, .mount, .path, .service, .slice, .socket, .swap, .target or .timer"},
		"a blank in a name":                  {"a b.service", good, `: systemd would not load a unit of this name; write at most 255 letters, digits and any of :-_.\, with one @ in a template`},
		"a template without name":            {"@.service", good, `: systemd would not load a unit of this name; write at most 255 letters, digits and any of :-_.\, with one @ in a template`},
		"a service that starts nothing":      {"a.service", "[Service]\nType=oneshot\n", "1:1: error: the service starts nothing, so that systemd would not load it; write ExecStart= with a program into [Service]"},
		"a timer that never elapses":         {"a.timer", "[Timer]\nPersistent=yes\n", "1:1: error: the timer never elapses, so that systemd would not load it; write OnCalendar= or OnBootSec= into [Timer]"},
		"a mount by another name":            {"data.mount", "[Mount]\nWhat=/dev/x\nWhere=/srv/data\n", "3:1: error: systemd loads a unit with Where=/srv/data by the name srv-data.mount alone; rename the file"},
		"a mount without a place":            {"data.mount", "[Mount]\nWhat=/dev/x\n", "1:1: error: the unit has no Where= in [Mount], so that systemd would not load it; write the path"},
		"waiting for nothing":                {"a.service", "[Unit]\nAfter=network.target network-online.target\n" + good, "2:1: warning: After=network-online.target waits for nothing where no unit wants that target; add Wants=network-online.target"},
		"a line without =":                   {"a.service", good + "Restart always\n", "3:1: error: the line has no =; write KEY=VALUE, or join it to the line before by a \\ at the end of that one"},
		"an unknown section":                 {"a.service", good + "[Instal]\nWantedBy=multi-user.target\n", "3:1: error: the section [Instal] is unknown, so that systemd would pass over it; write one of [Unit], [Service], [Install]"},
		"a drop-in of another section":       {"nginx.service.d/a.conf", "[Timer]\nOnBootSec=1\n", "1:1: error: [Timer] is a section of .timer units, and this is a .service; write one of [Unit], [Service], [Install]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := read(fstest.MapFS{"units/" + tc.file: file(tc.text)})
			require.Len(t, problems, 1)
			if strings.HasPrefix(tc.want, ":") { // of the folder or the name
				top, _, _ := strings.Cut(tc.file, "/")
				require.Equal(t, "units/"+top+":1:1: error"+tc.want, problems[0])
				return
			}
			if rest, ok := strings.CutPrefix(tc.want, "/a.txt"); ok {
				require.Equal(t, "units/"+tc.file+":1:1: error"+rest, problems[0])
				return
			}
			require.Equal(t, "units/"+tc.file+":"+tc.want, problems[0])
		})
	}
}

func TestUnitsLeaveThoseThatAMachineNeedsAlone(t *testing.T) {
	const early = "[Unit]\nDefaultDependencies=no\n"
	const needed = " can neither be masked nor replaced: no machine works without it as systemd brings it; write a drop-in into "
	const stops = " stops a unit of Spore, or one that each machine needs; name another unit, or remove the line"
	const unknown = " names a unit that is known on the machine alone; write the name without %"
	const alias = " takes the place of a unit that each machine needs; choose another name"
	const requires = " lets a failure of this unit stop one of Spore; write WantedBy="
	for name, tc := range map[string]struct{ file, text, want string }{
		"a mask of udev":               {"systemd-udevd.service", "", "1: systemd-udevd.service" + needed + "systemd-udevd.service.d/"},
		"another journald":             {"systemd-journald.service", good, "1: systemd-journald.service" + needed + "systemd-journald.service.d/"},
		"a mask of networkd":           {"systemd-networkd.service", "", "1: systemd-networkd.service" + needed + "systemd-networkd.service.d/"},
		"a mask of D-Bus":              {"dbus.service", "", "1: dbus.service" + needed + "dbus.service.d/"},
		"a mask of a target":           {"local-fs.target", "", "1: local-fs.target" + needed + "local-fs.target.d/"},
		"another target":               {"sysinit.target", "[Unit]\nDescription=x\n", "1: sysinit.target" + needed + "sysinit.target.d/"},
		"another goal":                 {"multi-user.target", "[Unit]\nDescription=x\n", "1: multi-user.target" + needed + "multi-user.target.d/"},
		"another emergency":            {"emergency.service", good, "1: emergency.service" + needed + "emergency.service.d/"},
		"a drop-in for one":            {"systemd-udevd.service.d/a.conf", "[Service]\nLimitNOFILE=9\n", ""},
		"a mask of another":            {"systemd-pstore.service", "", ""},
		"an alias of the goal":         {"a.target", "[Install]\nAlias=default.target\n", "2: Alias=default.target" + alias},
		"an alias of D-Bus":            {"a.service", good + "[Install]\nAlias=b.service dbus.service\n", "4: Alias=dbus.service" + alias},
		"an alias of another":          {"a.service", good + "[Install]\nAlias=b.service\n", ""},
		"an alias by the prefix":       {"spore.service", good + "[Install]\nAlias=%p-agent.service\n", "4: Alias=spore-agent.service is the name of a unit of Spore; choose another one"},
		"needed by the prefix":         {"spore.service", good + "[Install]\nRequiredBy=%p-agent.service\n", "4: RequiredBy=spore-agent.service" + requires + "spore-agent.service"},
		"needed by the name":           {"kafka@x.service", good + "[Install]\nUpheldBy=%p.service\n", "4: UpheldBy=kafka.service" + requires + "kafka.service"},
		"needed by the last part":      {"my-kafka.service", good + "[Install]\nRequiredBy=%j.service\n", "4: RequiredBy=kafka.service" + requires + "kafka.service"},
		"needed by the instance":       {"my@kafka.service", good + "[Install]\nRequiredBy=%i.service\n", "4: RequiredBy=kafka.service" + requires + "kafka.service"},
		"needed by an unknown one":     {"my@.service", good + "[Install]\nDefaultInstance=kafka\nRequiredBy=%i.service\n", "5: RequiredBy=%i.service" + unknown},
		"needed by the host":           {"a.service", good + "[Install]\nRequiredBy=%H.service\n", "4: RequiredBy=%H.service" + unknown},
		"needed by a broken specifier": {"a.service", good + "[Install]\nRequiredBy=x%\n", "4: RequiredBy=x%" + unknown},
		"needed by another":            {"a.service", good + "[Install]\nRequiredBy=%p-more.service\n", ""},
		"wanted by an instance":        {"a@.service", good + "[Install]\nWantedBy=%i.target\n", ""},
		"a conflict":                   {"a.service", "[Unit]\nConflicts=kafka.service\n" + good, "2: Conflicts=kafka.service" + stops},
		"a conflict in quotes":         {"a.service", "[Unit]\nConflicts=b.service \"kafka.service\"\n" + good, "2: Conflicts=kafka.service" + stops},
		"a conflict with journald":     {"a.service", "[Unit]\nConflicts=systemd-journald.service\n" + good, "2: Conflicts=systemd-journald.service" + stops},
		"a conflict of a drop-in":      {"nginx.service.d/a.conf", "[Unit]\nConflicts=etcd.service\n", "2: Conflicts=etcd.service" + stops},
		"a conflict with the stop":     {"a.service", early + "Conflicts=shutdown.target\nBefore=shutdown.target\n" + good, ""},
		"a conflict with another":      {"a.service", "[Unit]\nConflicts=nginx.service\n" + good, ""},
		"a stop that goes on":          {"a.service", "[Unit]\nPropagatesStopTo=kafka.service\n" + good, "2: PropagatesStopTo=kafka.service" + stops},
		"a stop from ours":             {"a.service", "[Unit]\nStopPropagatedFrom=kafka.service\n" + good, "2: StopPropagatedFrom=kafka.service: units of Spore, and those that each machine needs, propagate nothing; write PartOf=kafka.service to be stopped with it"},
		"early before ours":            {"a.service", early + "Before=spore-agent.service\n" + good, "3: Before=spore-agent.service with DefaultDependencies=no lets this unit hold up one of Spore in the early boot; remove one of both"},
		"before ours":                  {"a.service", "[Unit]\nBefore=kafka.service\n" + good, ""},
		"early before another":         {"a.service", early + "Before=nginx.service\n" + good, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := read(fstest.MapFS{"units/" + tc.file: file(tc.text)})
			if tc.want == "" {
				require.Empty(t, problems)
				return
			}
			line, message, _ := strings.Cut(tc.want, ": ")
			require.Equal(t, []string{"units/" + tc.file + ":" + line + ":1: error: " + message}, problems)
		})
	}
}

func TestADropInCanMakeAUnitOfItsOwnEarly(t *testing.T) {
	_, problems := read(fstest.MapFS{
		"units/a.service":          file("[Unit]\nBefore=etcd.service\n" + good),
		"units/a.service.d/x.conf": file("[Unit]\nDefaultDependencies=no\n"),
	})
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "units/a.service:2:1: error: Before=etcd.service with DefaultDependencies=no")
}

func FuzzExpand(f *testing.F) {
	f.Add("%p-agent.service", "spore.service")
	f.Add("%i%", "a@b.service")
	f.Fuzz(func(t *testing.T, name, unit string) {
		expanded, ok := expand(name, unit)
		if ok && !strings.Contains(name, "%") {
			require.Equal(t, name, expanded)
		}
	})
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"a link":               {fstest.MapFS{"units/a.service": {Data: []byte("/dev/null"), Mode: fs.ModeSymlink}}, "units/a.service:1:1: error: is a link; write the unit itself: an empty file masks a unit of a package, and Alias= in its [Install] section gives a second name"},
		"a FIFO":               {fstest.MapFS{"units/a.service": {Mode: fs.ModeNamedPipe}}, "units/a.service:1:1: error: cannot be read: it is a FIFO; put a regular file there"},
		"the folder is a link": {fstest.MapFS{"units": {Data: []byte("x"), Mode: fs.ModeSymlink}}, "units:1:1: error: is a link; make it a folder with the units in it"},
		"the folder is a file": {fstest.MapFS{"units": file("")}, "units:1:1: error: is not a folder; make it one, with units and NAME.d/*.conf in it"},
		"a unit of 2 MiB":      {fstest.MapFS{"units/a.target": {Data: make([]byte, 2<<20)}}, "units/a.target:1:1: error: it has more than 1 MiB, and systemd reads no such line; make it smaller"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := read(tc.files)
			require.Equal(t, []string{tc.want}, problems)
		})
	}
}

func TestTheFolderHasABound(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxUnits {
		many[fmt.Sprintf("units/u%03d.service", i)] = file(good)
	}
	_, problems := read(many)
	require.Empty(t, problems)
	many["units/v.service.d/a.conf"] = file("")
	_, problems = read(many)
	require.Equal(t, []string{"units:1:1: error: holds more than 200 units and drop-ins; make a Debian package of them, or fewer"}, problems)
}

func TestWhatAUnitStarts(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"a timer":                      {"a.timer", "[Timer]\nOnBootSec=1\n", "a.service"},
		"a timer for another unit":     {"a.timer", "[Timer]\nOnBootSec=1\nUnit=b.target\n", "b.target"},
		"a path of a template":         {"a@.path", "[Path]\nPathExists=/x\n", "a@.service"},
		"a socket":                     {"a.socket", "[Socket]\nListenStream=1\n", "a.service"},
		"a socket for another unit":    {"a.socket", "[Socket]\nListenStream=1\nService=b.service\n", "b.service"},
		"a socket that accepts":        {"a.socket", "[Socket]\nListenStream=1\nAccept=yes\n", "a@.service"},
		"a socket that does not":       {"a.socket", "[Socket]\nListenStream=1\nAccept=no\n", "a.service"},
		"a service":                    {"a.service", good, ""},
		"a drop-in":                    {"a.timer.d/a.conf", "[Timer]\nOnBootSec=1\n", ""},
		"a timer that is switched off": {"a.timer", "", ""},
	} {
		files, problems := read(fstest.MapFS{"units/" + tc.file: file(tc.text)})
		require.Empty(t, problems, name)
		require.Equal(t, tc.want, files[0].Starts(), name)
	}
}

func TestAFolderWithoutUnitsHasNone(t *testing.T) {
	files, problems := read(fstest.MapFS{"cluster.yaml": file("")})
	require.Empty(t, files)
	require.Empty(t, problems)
}

// The words are those of systemd-escape --path.
func TestPathsAreEscapedAsSystemdDoes(t *testing.T) {
	for p, want := range map[string]string{
		"/": "-", "/srv/data": "srv-data", "/srv//data/": "srv-data", "/srv/data-1": `srv-data\x2d1`, "/.hidden/a.b": `\x2ehidden-a.b`, "/a b": `a\x20b`, "/ä": `\xc3\xa4`,
	} {
		require.Equal(t, want, EscapePath(p))
	}
}

func TestAllUnitsOfTheSourceAreOurs(t *testing.T) {
	entries, err := os.ReadDir("../../units")
	require.NoError(t, err)
	var want []string
	for _, e := range entries {
		if name := e.Name(); !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".preset") {
			want = append(want, name)
			require.True(t, Ours(name), name)
		}
	}
	require.Equal(t, want, ours.Names(), "units/units.go embeds every kind of unit")
	require.False(t, Ours("gateway.service"))
	require.False(t, Ours("kafka.timer"))
}
