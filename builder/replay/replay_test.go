package replay_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/accounts"
	"spore/builder/replay"
	"spore/builder/replay/files"
	"spore/builder/tree"
)

// pkg makes a package whose postinst has this text; fields are lines of its control paragraph.
func pkg(name, fields, postinst string) replay.Package {
	p := replay.Package{Name: name, Version: "1.2-3", Status: []byte("Package: " + name + "\n" + fields), Scripts: map[string][]byte{}}
	if postinst != "" {
		p.Scripts["postinst"] = []byte(postinst)
	}
	return p
}

func newTree(t testing.TB) *tree.Tree {
	t.Helper()
	root := tree.New()
	for _, dir := range []string{"/etc/alternatives", "/tmp", "/usr/bin", "/usr/sbin", "/var/lib", "/run"} {
		require.NoError(t, root.Mkdir(dir, 0o755))
	}
	return root
}

func configure(t testing.TB, root *tree.Tree, o replay.Options, packages ...replay.Package) (*replay.Replay, error) {
	t.Helper()
	fixed, err := accounts.Fixed()
	require.NoError(t, err)
	o.Tree, o.Accounts, o.Time = root, accounts.New(fixed, nil), cmp.Or(o.Time, 5*time.Second)
	r, err := replay.New(packages, o)
	require.NoError(t, err)
	for i := range packages {
		if err := r.Preinst(context.Background(), &packages[i]); err != nil {
			return r, err
		}
	}
	return r, r.Configure(context.Background(), 1_700_000_000)
}

func read(t testing.TB, root *tree.Tree, p string) string {
	t.Helper()
	data, err := root.ReadFile(p)
	require.NoError(t, err)
	return string(data)
}

func TestPackagesAreConfiguredBehindWhatTheyDependOn(t *testing.T) {
	root := newTree(t)
	say := func(name string) string { return "echo " + name + " >> /etc/order\n" }
	_, err := configure(t, root, replay.Options{},
		pkg("a", "Depends: c (>= 1), virtual | other\n", say("a")),
		pkg("b", "Provides: virtual (= 1)\nDepends: d\n", say("b")),
		pkg("c", "Pre-Depends: d:any\n", say("c")),
		pkg("d", "Depends: a\n", say("d")), // a circle
		pkg("base-files", "", say("base-files")))
	require.NoError(t, err)
	require.Equal(t, "base-files\nd\nc\nb\na\n", read(t, root, "/etc/order"))
}

func TestWhatScriptsOfDebianDo(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		path   string
		want   string // its content, or "-> target"
		mode   uint32
		owner  string
	}{
		"a first installation": {script: "echo \"$1,$2,$#\" > /etc/x", path: "/etc/x", want: "configure,,2\n"},
		"a system user": {script: "adduser --system --group --no-create-home --home /nonexistent _a\ntouch /etc/x; chown _a:_a /etc/x; chmod 640 /etc/x",
			path: "/etc/x", mode: 0o640, owner: "_a"},
		"an older version that is not there": {script: "if dpkg --compare-versions \"$2\" lt-nl 2; then echo old > /etc/x; else echo new > /etc/x; fi", path: "/etc/x", want: "new\n"},
		"an override": {script: "touch /usr/bin/x; if ! dpkg-statoverride --list /usr/bin/x >/dev/null; then dpkg-statoverride --update --add root daemon 4754 /usr/bin/x; fi",
			path: "/usr/bin/x", mode: 0o4754},
		"a diversion": {script: "echo old > /usr/bin/y; dpkg-divert --package a --add --rename --divert /usr/bin/y.real /usr/bin/y", path: "/usr/bin/y.real", want: "old\n"},
		"alternatives": {script: "touch /usr/bin/v1 /usr/bin/v2\nupdate-alternatives --install /usr/bin/v v /usr/bin/v1 10 --slave /usr/bin/w w /usr/bin/v1\nupdate-alternatives --install /usr/bin/v v /usr/bin/v2 20",
			path: "/etc/alternatives/v", want: "-> /usr/bin/v2"},
		"the link of alternatives": {script: "touch /usr/bin/v1\nupdate-alternatives --install /usr/bin/v v /usr/bin/v1 10", path: "/usr/bin/v", want: "-> /etc/alternatives/v"},
		"ucf":                      {script: "echo x > /usr/bin/template; ucf --three-way --debconf-ok /usr/bin/template /etc/a/x", path: "/etc/a/x", want: "x\n"},
		"debconf's default":        {script: ". /usr/share/debconf/confmodule\ndb_get a/size || true; echo \"$RET\" > /etc/x; db_stop", path: "/etc/x", want: "small\n"},
		"debconf's answer":         {script: ". /usr/share/debconf/confmodule\ndb_get a/name; echo \"$RET\" > /etc/x; db_stop", path: "/etc/x", want: "it's mine\n"},
		"debconf and what is set":  {script: ". /usr/share/debconf/confmodule\ndb_set a/size large; db_input high a/size || true; db_go || true; db_get a/size; echo $RET > /etc/x", path: "/etc/x", want: "large\n"},
		"a template of tmpfiles":   {script: "mkdir -p /usr/lib/tmpfiles.d; echo 'd /var/lib/a 0750 daemon daemon -' > /usr/lib/tmpfiles.d/a.conf; systemd-tmpfiles --create a.conf", path: "/var/lib/a", mode: 0o750, owner: "daemon"},
		"a module of apache": {script: "mkdir -p /etc/apache2/mods-available; touch /etc/apache2/mods-available/x.load; a2enmod -q x", path: "/etc/apache2/mods-enabled/x.load",
			want: "-> ../mods-available/x.load"},
		"the version of a package": {script: "dpkg-query -W -f='${Version}' a > /etc/x", path: "/etc/x", want: "1.2-3"},
		"the time":                 {script: "date +%Y > /etc/x", path: "/etc/x", want: "2023\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newTree(t)
			p := pkg("a", "", "#!/bin/sh\nset -e\n"+c.script+"\n")
			p.Scripts["templates"] = []byte("Template: a/size\nType: select\nChoices: small, large\nDefault: small\nDescription: Size?\n\nTemplate: a/name\nType: string\nDescription: Name?\n")
			_, err := configure(t, root, replay.Options{Answers: map[string]map[string]string{"a": {"a/name": "it's mine"}}}, p)
			require.NoError(t, err)
			n, err := root.Lstat(c.path)
			require.NoError(t, err)
			if target, ok := strings.CutPrefix(c.want, "-> "); ok {
				require.Equal(t, target, n.Target)
			} else if c.want != "" {
				require.Equal(t, c.want, read(t, root, c.path))
			}
			if c.mode != 0 {
				require.Equal(t, c.mode, n.Mode)
			}
			if c.owner != "" {
				require.Contains(t, read(t, root, "/etc/passwd"), c.owner+":x:")
				require.NotZero(t, n.UID)
			}
		})
	}
}

func TestUnitsThatScriptsEnable(t *testing.T) {
	r, err := configure(t, newTree(t), replay.Options{},
		pkg("a", "", "deb-systemd-helper unmask a.service >/dev/null || true\nif deb-systemd-helper --quiet was-enabled a.service; then deb-systemd-helper enable a.service; fi\n"+
			"deb-systemd-helper --user enable u.service; systemctl enable b; systemctl mask c.service; systemctl disable b.service; deb-systemd-invoke start a.service"))
	require.NoError(t, err)
	units := r.Units()
	require.True(t, units["a.service"].Enabled)
	require.Equal(t, "a", units["a.service"].Package)
	require.False(t, units["b.service"].Enabled)
	require.True(t, units["c.service"].Masked)
	require.NotContains(t, units, "u.service")
}

func TestTriggersRunForThoseWhoAskedForThem(t *testing.T) {
	root := newTree(t)
	owner := pkg("owner", "", "[ \"$1\" = triggered ] && echo \"$2\" >> /etc/triggered || true")
	owner.Scripts["triggers"] = []byte("# comment\ninterest-noawait cache\ninterest other\ninterest never\n")
	second := pkg("second", "", "")
	second.Scripts["triggers"] = []byte("activate-noawait other\n")
	_, err := configure(t, root, replay.Options{}, owner, second, pkg("first", "", "dpkg-trigger --no-await cache"))
	require.NoError(t, err)
	require.Equal(t, "cache other\n", read(t, root, "/etc/triggered"))
}

func TestNothingStaysWhereEachBootBeginsWithNothing(t *testing.T) {
	root := newTree(t)
	_, err := configure(t, root, replay.Options{}, pkg("a", "", "mktemp; mkdir -p /run/a/b; touch /run/a/b/c /var/lib/kept"))
	require.NoError(t, err)
	require.Empty(t, root.Children("/tmp"))
	require.Empty(t, root.Children("/run"))
	require.True(t, root.Exists("/var/lib/kept"))
}

func TestTheSameScriptsGiveTheSameTree(t *testing.T) {
	names := func() []string {
		root := newTree(t)
		_, err := configure(t, root, replay.Options{},
			pkg("a", "", "x=$(mktemp /etc/a.XXXXXX); echo $$ $PPID $(date) > $x; adduser --system --quiet _new"), pkg("b", "", "mktemp /etc/b.XXXXXX"))
		require.NoError(t, err)
		var out []string
		require.NoError(t, root.Walk(func(p string, n *tree.Inode) error {
			data := ""
			if n.Type == tree.Regular {
				data = read(t, root, p)
			}
			out = append(out, p+" "+data)
			return nil
		}))
		return out
	}
	require.Equal(t, names(), names())
}

func TestWhatCannotBeReplayedNamesScriptLineCommandAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
		is     error
	}{
		"another language":         {script: "#!/usr/bin/perl\nprint 1;", want: []string{"package a: postinst: ", "written in perl", "scripts: {a: {skip: [postinst]}}"}},
		"a key":                    {script: "\nssh-keygen -A", want: []string{"line 2: ssh-keygen is not replayed: it makes keys", "by a unit"}},
		"a certificate":            {script: "openssl req -new", want: []string{"openssl is not replayed"}},
		"an id":                    {script: "uuidgen > /etc/id", want: []string{"uuidgen is not replayed"}},
		"a password":               {script: "echo root:x | chpasswd", want: []string{"chpasswd"}},
		"randomness":               {script: "head -c 16 /dev/urandom > /etc/key", want: []string{"exits with status 1"}},
		"a device":                 {script: "mknod /etc/x c 1 3", want: []string{"mknod"}, is: files.ErrRefused},
		"a diversion of our agent": {script: "dpkg-divert --add --rename /usr/bin/spore-agent", want: []string{"it would hide a file of Spore"}, is: files.ErrRefused},
		"a diversion to our unit":  {script: "dpkg-divert --divert /etc/systemd/system/spore-api.service --add /etc/x", want: []string{"it would hide a file of Spore"}},
		"an unknown option":        {script: "adduser --no-such-option x", want: []string{"--no-such-option"}},
		"a status":                 {script: "set -e\nfalse", want: []string{"it exits with status 1"}},
		"a link to /proc":          {script: "ln -s /proc /etc/p; echo 1 > /etc/p/x", is: files.ErrRefused, want: []string{"/etc/p/x"}},
		"a million files":          {script: "i=0; while [ $i -lt 1000000 ]; do touch /etc/$i; i=$((i+1)); done", want: []string{"more than a maintainer script may do"}},
		"a million directories":    {script: "mkdir -p /etc/$(seq -s / 1 100000)", want: []string{"package a: postinst"}},
		"a copy of a copy":         {script: "head -c 1000000 /usr/bin/big > /etc/x; while :; do cat /etc/x /etc/x > /etc/y; mv /etc/y /etc/x; done", want: []string{"more than a maintainer script may do"}},
		"the network":              {script: "set -e\nwget http://x", want: []string{"wget: not found"}},
		"awk that runs a program":  {script: "awk 'BEGIN { system(\"id\") }'", want: []string{"awk"}},
		"awk without end":          {script: "awk 'BEGIN { while (1) x = x \"aaaaaaaa\" }'", want: []string{"package a: postinst"}},
		"sed without end":          {script: "echo x | sed ':a; s/x/xx/; ba'", want: []string{"package a: postinst"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := newTree(t)
			require.NoError(t, root.WriteFile("/usr/bin/big", make([]byte, 1_000_000), 0o644, ""))
			var o replay.Options
			if strings.HasSuffix(name, " without end") {
				o.Time = time.Second // No other bound ends them.
			}
			_, err := configure(t, root, o, pkg("a", "", c.script))
			var e *replay.Error
			require.ErrorAs(t, err, &e)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func TestScriptsThatImageYAMLSkips(t *testing.T) {
	p := pkg("a", "", "#!/usr/bin/perl\n")
	p.Scripts["preinst"] = []byte("#!/usr/bin/python3\n")
	p.Skip = []string{"postinst", "preinst"}
	_, err := configure(t, newTree(t), replay.Options{}, p)
	require.NoError(t, err)
}

func TestASecretIsMadeByAUnitOnTheNode(t *testing.T) {
	r, err := configure(t, newTree(t), replay.Options{OnNode: map[string]replay.OnNode{"openssh-server": {Commands: []string{"ssh-keygen"}}}},
		pkg("openssh-server", "", "ssh-keygen -q -f /etc/key -N ''"))
	require.NoError(t, err)
	require.Equal(t, []string{"openssh-server"}, r.Deferred())
}
