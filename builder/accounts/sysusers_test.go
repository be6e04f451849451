package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSysusersDeclareUsersGroupsAndMembers(t *testing.T) {
	db := New(fixed(t), nil)
	require.NoError(t, db.Sysusers("x.conf", `# a comment

u sshd -:nogroup "sshd user" /run/sshd
u!	systemd-network - "systemd Network Management"
u a 61000 'It''s "quoted"' /var/lib/a /bin/sh
u b -:adm - - -
u c 61001:8
u d /usr/bin/d "100\% %%" /home/d\ d
g render -
g e 61002
m d render
m nobody-yet made-too
r - 500-900
`))
	for _, want := range []User{
		{Name: "sshd", ID: 703, Group: "nogroup", Gecos: "sshd user", Home: "/run/sshd", Shell: "/usr/sbin/nologin"},
		{
			Name: "systemd-network", ID: 998, Group: "systemd-network", Gecos: "systemd Network Management", Home: "/",
			Shell: "/usr/sbin/nologin",
		},
		{Name: "a", ID: 61000, Group: "a", Gecos: `Its "quoted"`, Home: "/var/lib/a", Shell: "/bin/sh"},
		{Name: "c", ID: 61001, Group: "mail", Home: "/", Shell: "/usr/sbin/nologin"},
	} {
		want.HasID = true
		require.Equal(t, want, mustUser(t, db, want.Name))
	}
	require.Equal(t, "adm", mustUser(t, db, "b").Group)
	require.Equal(t, "100% %", mustUser(t, db, "d").Gecos)
	require.Equal(t, "/home/d d", mustUser(t, db, "d").Home)
	require.Equal(t, uint32(61000), mustGroup(t, db, "a").ID)
	require.Equal(t, uint32(61002), mustGroup(t, db, "e").ID)
	require.Equal(t, []string{"d"}, mustGroup(t, db, "render").Members)
	require.Equal(t, uint32(992), mustGroup(t, db, "render").ID)
	require.Equal(t, []string{"nobody-yet"}, mustGroup(t, db, "made-too").Members)
	require.Equal(t, "/", mustUser(t, db, "nobody-yet").Home)
	_, ok := db.Group("sshd")
	require.False(t, ok, "a user with a named primary group has no group of its own")
}

func TestSysusersLeaveWhatIsThere(t *testing.T) {
	db := New(fixed(t), nil)
	require.NoError(t, db.AddUser(User{Name: "a", Group: "nogroup", Home: "/srv/a", Shell: "/bin/sh"}))
	before, _, _, _ := db.Render()
	require.NoError(t, db.Sysusers("x", "u a - \"other\" /x\nu root 0 \"Super User\" /root\nu nobody 65534\ng mail 8\n"))
	after, _, _, _ := db.Render()
	require.Equal(t, string(before), string(after))
}

func TestSysusersOfSeveralFilesMayNameEachOther(t *testing.T) {
	db := New(fixed(t), nil)
	require.NoError(t, db.SysusersFiles([]SysusersFile{
		{"a.conf", "m late grp\nu first -:grp\n"},
		{"b.conf", "u late - \"Late\"\ng grp -\n"},
	}))
	require.Equal(t, "Late", mustUser(t, db, "late").Gecos)
	require.Equal(t, "grp", mustUser(t, db, "first").Group)
	require.Equal(t, []string{"late"}, mustGroup(t, db, "grp").Members)
}

func TestRefusedSysusers(t *testing.T) {
	for name, c := range map[string]struct{ line, message string }{
		"another number for a user":   {"u mail 9 -", "user mail is 8 in this image, and the package wants 9"},
		"another number for a group":  {"g mail 9", "group mail is 8 in this image, and the package wants 9"},
		"another number than a row's": {"u ceph 64046", "is 64045 in accounts/table, and the package wants 64046"},
		"the number of another user":  {"u new 8", "that is wanted for new is taken: it is that of mail"},
		"a second root":               {"u toor 0", "that is wanted for toor is taken"},
		"a group that is missing":     {"u a -:nosuch", "group nosuch does not exist"},
		"a gid that is missing":       {"u a -:64999", "group 64999 does not exist"},
		"an unknown line type":        {"q mail -", `line type "q"`},
		"a locked group":              {"g! mail -", `line type "g!"`},
		"a line without a name":       {"u", "has no name"},
		"a name that is open":         {"u -", "has no name"},
		"a member of nothing":         {"m mail", "has no group"},
		"an id that is a word":        {"u a b", `the id "b" is not a number`},
		"an id that is too large":     {"g a 70000", `the id "70000" is not a number`},
		"a bad name":                  {`u "a b"`, `the name "a b" is not allowed`},
		"a colon in a comment":        {`u a - "x:y"`, "the comment"},
		"a relative home":             {"u a - - home", "the home"},
		"an open quote":               {`u a - "x`, "ends within a quote"},
		"an open escape":              {`u a - x\`, "ends within a quote, escape"},
		"a specifier":                 {"u a-%m -", "the specifier %m of sysusers.d has no value in a build"},
		"an open specifier":           {"u a - %", "ends within a quote, escape or specifier"},
		"too many fields":             {"u a - - - - x", `has no field "x"`},
		"too many fields of a group":  {"g a - x", `has no field "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := New(fixed(t), nil).Sysusers("/usr/lib/sysusers.d/x.conf", "# a comment\n"+c.line+"\n")
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "/usr/lib/sysusers.d/x.conf:2: ")
		})
	}
}

func FuzzSysusers(f *testing.F) {
	for _, s := range []string{
		"u a -", "g kvm -", "m root kvm", `u! systemd-network - "x y" /`, "r - 500-900", "u", "#", "u a 1:2",
		`u a - '\'`, "u a - %%",
	} {
		f.Add(s)
	}
	table := fixed(f)
	f.Fuzz(func(t *testing.T, text string) {
		db := New(table, nil)
		if db.Sysusers("x", text) != nil {
			return
		}
		for _, u := range db.Users() {
			require.NoError(t, u.check())
			_, ok := db.PrimaryGroup(u.Name)
			require.True(t, ok)
		}
		locked, err := db.All().Encode()
		require.NoError(t, err)
		_, report := ParseLocked(locked, table)
		require.Empty(t, report)
	})
}
