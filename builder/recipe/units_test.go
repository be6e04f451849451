package recipe

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/builder/tree"
	emergency "spore/wire/shell"
)

func units(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, data := range files {
		out[name] = &fstest.MapFile{Data: []byte(data), Mode: 0o644}
	}
	return out
}

func unit(name, data string) entry { return fileEntry(packageUnits+"/"+name, data, 0o644) }

func TestUnitsAreEnabledByPresetsAlone(t *testing.T) {
	o := Options{Units: units(map[string]string{
		"50-spore.preset": "# comment\nenable ours.service\nenable templ@.service a b\nenable dropped-in.service\ndisable *\n",
		"ours.service":    "[Install]\nWantedBy=multi-user.target \\\n  other.target\nRequiredBy=r.target\nAlias=second.service\nAlso=theirs.service\n",
		"templ@.service":  "[Unit]\nWantedBy=not-this\n[Install]\nWantedBy=%p-%i.target\nDefaultInstance=x\n",
		"default@.timer":  "[Install]\nWantedBy=timers.target\nDefaultInstance=x\n",
		"README.md":       "for people",

		"dropped-in.service":               "[Install]\nWantedBy=one.target\n",
		"dropped-in.service.d/50-x.conf":   "[Install]\nWantedBy=\nWantedBy=two.target\n",
		"other.service.d/50-not-ours.conf": "[Service]\nUser=x\n",
	})}
	r := compose(t, o, pkg("systemd", "", unit("theirs.service", "[Install]\nWantedBy=multi-user.target\n"), unit("multi-user.target", "")))
	links := map[string]string{}
	require.NoError(t, r.Tree.Walk(func(p string, n *tree.Inode) error {
		if n.Type == tree.Symlink && len(p) > len(localUnits) && p[:len(localUnits)] == localUnits {
			links[p[len(localUnits)+1:]] = n.Target
		}
		return nil
	}))
	require.Equal(t, map[string]string{
		"multi-user.target.wants/ours.service": localUnits + "/ours.service",
		"other.target.wants/ours.service":      localUnits + "/ours.service",
		"r.target.requires/ours.service":       localUnits + "/ours.service",
		"second.service":                       localUnits + "/ours.service",
		"templ-a.target.wants/templ@a.service": localUnits + "/templ@.service",
		"templ-b.target.wants/templ@b.service": localUnits + "/templ@.service",
		"two.target.wants/dropped-in.service":  localUnits + "/dropped-in.service",
	}, links)
	require.False(t, r.Tree.Exists(localUnits+"/README.md"))
	require.True(t, r.Tree.Exists(localUnits+"/other.service.d/50-not-ours.conf"))
	require.Equal(t, "multi-user.target", target(t, r.Tree, packageUnits+"/default.target"))
}

func target(t *testing.T, tr *tree.Tree, p string) string {
	t.Helper()
	n, err := tr.Lstat(p)
	require.NoError(t, err)
	return n.Target
}

func TestAUnitThatNoPresetNamesStaysOff(t *testing.T) {
	r := compose(t, Options{}, pkg("x", "", unit("x.service", "[Install]\nWantedBy=multi-user.target\n")))
	require.Empty(t, r.Tree.Children(localUnits))
}

func TestUnitsOfProgramsThatAreNotInTheImageAreLeftOut(t *testing.T) {
	u := units(map[string]string{
		"mosquitto.service": "", "mosquitto.service.d/50-x.conf": "", "mqtt.target": "",
		"coredns.service": "", "dns.target": "", "kubernetes-master.target": "", "spore-agent.service": "",
	})
	r := compose(t, Options{Units: u, Programs: []string{"mosquitto"}}, pkg("a", ""))
	require.Equal(t, []string{"mosquitto.service", "mosquitto.service.d", "mqtt.target", "spore-agent.service"}, r.Tree.Children(localUnits))
	r = compose(t, Options{Units: u, Programs: []string{"coredns"}}, pkg("a", ""))
	require.Equal(t, []string{"coredns.service", "dns.target", "spore-agent.service"}, r.Tree.Children(localUnits))
}

func TestUnusedUnitsGoWithTheirLinks(t *testing.T) {
	r := compose(t, Options{}, pkg("systemd", "",
		unit("systemd-logind.service", ""), unit("systemd-journald.service", ""),
		linkEntry(packageUnits+"/dbus-org.freedesktop.login1.service", "systemd-logind.service"),
		linkEntry(packageUnits+"/multi-user.target.wants/systemd-logind.service", "../systemd-logind.service"),
		linkEntry(packageUnits+"/sysinit.target.wants/systemd-journald.service", "../systemd-journald.service"),
		fileEntry("/usr/lib/systemd/systemd-logind", "elf", 0o755)))
	require.Equal(t, []string{"sysinit.target.wants", "systemd-journald.service"}, r.Tree.Children(packageUnits))
	require.False(t, r.Tree.Exists("/usr/lib/systemd/systemd-logind"))
	require.Contains(t, r.Report.Of("drop"), Entry{Step: "drop-units", Action: "drop", Path: packageUnits + "/systemd-logind.service", Why: "no seats and no sessions", Origin: "deb:systemd_1"})
}

func TestRefusedUnits(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		message string
	}{
		"a preset that is none":       {map[string]string{"x.preset": "start x.service\n"}, "is not `enable PATTERN`"},
		"a preset without a name":     {map[string]string{"x.preset": "enable\n"}, "is not `enable PATTERN`"},
		"a preset with a bad pattern": {map[string]string{"x.preset": "enable [\n"}, "pattern"},
		"a target outside":            {map[string]string{"x.preset": "enable *\n", "a.service": "[Install]\nWantedBy=../../../a\n"}, "is outside of"},
		"an alias over a unit":        {map[string]string{"x.preset": "enable *\n", "a.service": "[Install]\nAlias=b.service\n", "b.service": ""}, "is a file already"},
		"an instance with a slash":    {map[string]string{"x.preset": "enable a@.service ../x\n", "a@.service": ""}, "is not a name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compose([]Package{pkg("a", "")}, Options{Units: units(c.files)})
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestEveryProgramThatAUnitRunsIsInTheImage(t *testing.T) {
	packages := []Package{
		pkg("usr-is-merged", "", linkEntry("/sbin", "usr/sbin"), fileEntry("/usr/sbin/daemon", "elf", 0o755), fileEntry("/usr/bin/tool", "elf", 0o755),
			fileEntry("/usr/bin/spore-agent", "elf", 0o755), linkEntry("/usr/bin/second", "../sbin/daemon"), fileEntry("/usr/share/text", "", 0o644), dirEntry("/usr/lib/dir", 0o755)),
	}
	gone := "/x, which is not in the image"
	for name, c := range map[string]struct {
		ours    map[string]string
		debian  []entry
		message string // of what is refused; empty for what is not
	}{
		"one that is there":                   {ours: map[string]string{"a.service": "[Service]\nExecStart=/usr/sbin/daemon -f /run/x\n"}},
		"through the links of the root":       {ours: map[string]string{"a.service": "[Service]\nExecStart=/sbin/daemon\nExecReload=/usr/bin/second\n"}},
		"by its name":                         {ours: map[string]string{"a.service": "[Service]\nExecStart=tool --watch\n"}},
		"what looks like it":                  {ours: map[string]string{"a.service": "[Service]\nExecStart=/usr/bin/tool -- /x\n"}},
		"in quotes":                           {ours: map[string]string{"a.service": "[Service]\nExecStart=\"/usr/bin/tool\" 'a b'\n"}},
		"each prefix":                         {ours: map[string]string{"a.service": "[Service]\nExecStart=@-:+!!/usr/bin/tool argv0\nExecStop=|/usr/bin/tool\n"}},
		"a setting that is no command":        {ours: map[string]string{"a.service": "[Service]\nExecPaths=/x\nExecSearchPath=/x\n# ExecStart=/x\n"}},
		"one that only the node knows":        {ours: map[string]string{"a@.service": "[Service]\nExecStart=/usr/lib/%i\n"}},
		"one that a drop-in takes out":        {ours: map[string]string{"a.service": "[Service]\nExecStart=/x\n", "a.service.d/1.conf": "[Service]\nExecStart=\nExecStart=tool\n"}},
		"a unit of a package that ours hides": {ours: map[string]string{"a.service": ""}, debian: []entry{unit("a.service", "[Service]\nExecStart=/x\n")}},
		"a masked unit of a package":          {debian: []entry{linkEntry(packageUnits+"/a.service", "/dev/null")}},
		"what a package only suggests":        {debian: []entry{unit("a.service", "[Service]\nExecStartPre=-suggested --wait quit\nExecStart=-/x\n")}},

		"one that is not there":         {map[string]string{"a.service": "[Service]\nExecStart=/x\n"}, nil, "/etc/systemd/system/a.service has ExecStart=" + gone},
		"with every prefix":             {map[string]string{"a.service": "[Service]\nExecStart=@-:+!/x argv0\n"}, nil, "ExecStart=" + gone},
		"another setting":               {map[string]string{"a.service": "[Service]\nExecReload=/x\n"}, nil, "ExecReload=" + gone},
		"of a socket":                   {map[string]string{"a.socket": "[Socket]\nExecStartPre=/x\n"}, nil, "a.socket has ExecStartPre=" + gone},
		"the second of a line":          {map[string]string{"a.service": "[Service]\nExecStartPre=/usr/bin/tool a ; -/x b\n"}, nil, "ExecStartPre=" + gone},
		"one that the agent becomes":    {map[string]string{"a.service": "[Service]\nExecStart=/usr/bin/spore-agent render a -- /x --y\n"}, nil, "ExecStart=" + gone},
		"after a line that goes on":     {map[string]string{"a.service": "[Service]\nExecStart=\\\n  /x\n"}, nil, "ExecStart=" + gone},
		"by its name, in no directory":  {map[string]string{"a.service": "[Service]\nExecStart=x\n"}, nil, "ExecStart=x, which is not in the image"},
		"a file that nobody executes":   {map[string]string{"a.service": "[Service]\nExecStart=/usr/share/text\n"}, nil, "/usr/share/text, which is not a program"},
		"a directory":                   {map[string]string{"a.service": "[Service]\nExecStart=/usr/lib/dir\n"}, nil, "/usr/lib/dir, which is not a program"},
		"a variable":                    {map[string]string{"a.service": "[Service]\nExecStart=$PROGRAM\n"}, nil, "ExecStart=$PROGRAM, which is not in the image"},
		"in a drop-in":                  {map[string]string{"a.service": "[Service]\nExecStart=tool\n", "a.service.d/1.conf": "[Service]\nExecStartPost=/x\n"}, nil, "a.service.d/1.conf has ExecStartPost=" + gone},
		"in a drop-in for all services": {map[string]string{"service.d/1.conf": "[Service]\nExecStartPre=/x\n"}, nil, "service.d/1.conf has ExecStartPre=" + gone},
		"in a drop-in for a package's":  {map[string]string{"a.service.d/1.conf": "[Service]\nExecStart=-/x\n"}, []entry{unit("a.service", "")}, "a.service.d/1.conf has ExecStart=" + gone},
		"of a package":                  {nil, []entry{unit("a.service", "[Service]\nExecStart=/x\n")}, packageUnits + "/a.service has ExecStart=" + gone},
		"a prefix alone":                {map[string]string{"a.service": "[Service]\nExecStart=- /x\n"}, nil, "a prefix without a program"},
		"a quote without its end":       {map[string]string{"a.service": "[Service]\nExecStart=\"/x\n"}, nil, "has no end"},
	} {
		t.Run(name, func(t *testing.T) {
			debian := pkg("debian", "", c.debian...)
			_, err := Compose(append([]Package{debian}, packages...), Options{Units: units(c.ours)})
			if c.message == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.message)
		})
	}
}

func FuzzCommandLines(f *testing.F) {
	for _, s := range []string{"/usr/bin/a -f b", "@-+/a argv0 ; b", "-- /a", "spore-agent render a -- /b", `"/a b" 'c' \;`, "-", `"`, "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		commands, err := parseCommands(line)
		if err != nil {
			return
		}
		for _, c := range commands {
			require.NotEmpty(t, c.program)
			require.Contains(t, strings.NewReplacer(`\`, "", `"`, "", "'", "").Replace(line), strings.NewReplacer(`\`, "", `"`, "", "'", "").Replace(c.program))
		}
	})
}

func FuzzPresets(f *testing.F) {
	f.Add("enable a.service\ndisable *\n", "[Install]\nWantedBy=multi-user.target\nAlias=%p.service\n")
	f.Fuzz(func(t *testing.T, preset, text string) {
		r, err := Compose([]Package{pkg("a", "")}, Options{Units: units(map[string]string{"x.preset": preset, "a@.service": text, "b.service": text})})
		if err != nil {
			return
		}
		require.NoError(t, r.Tree.Walk(func(p string, n *tree.Inode) error {
			if n.Type == tree.Symlink && n.Origin == "step:presets" {
				require.Contains(t, p, localUnits+"/")
			}
			return nil
		}))
	})
}

func TestAnImageHasAnEmergencyShellWhereItSaysSo(t *testing.T) {
	o := Options{Units: units(map[string]string{
		"50-spore.preset":      "enable spore-*\ndisable *\n",
		"spore-shell.socket":   "[Socket]\nAccept=yes\n[Install]\nWantedBy=spore-api.service\n",
		"spore-shell@.service": "[Service]\nExecStart=/usr/bin/bash\n",
	})}
	bash := pkg("bash", "", fileEntry("/usr/bin/bash", "", 0o755))
	link := localUnits + "/spore-api.service.wants/spore-shell.socket"
	off := compose(t, o, bash).Tree
	for _, path := range []string{localUnits + "/spore-shell.socket", localUnits + "/spore-shell@.service", link} {
		require.False(t, off.Exists(path), path)
	}
	require.False(t, off.Exists(emergency.KeysPath))
	o.ShellKeys = []string{"one", "two"}
	on := compose(t, o, bash).Tree
	keys, err := on.Lstat(emergency.KeysPath)
	require.NoError(t, err)
	require.Equal(t, tree.Bytes([]byte("one\ntwo\n")), keys.Content)
	for _, path := range []string{localUnits + "/spore-shell.socket", localUnits + "/spore-shell@.service", link} {
		require.True(t, on.Exists(path), path)
	}
}
