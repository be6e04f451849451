package accounts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/files"
	"spore/builder/tree"
)

func mustUser(t *testing.T, db *DB, name string) User {
	t.Helper()
	u, ok := db.User(name)
	require.True(t, ok, name)
	return u
}

func mustGroup(t *testing.T, db *DB, name string) Group {
	t.Helper()
	g, ok := db.Group(name)
	require.True(t, ok, name)
	return g
}

func TestAnImageBeginsWithTheRowsOfBaseAndItsPrograms(t *testing.T) {
	db := New(fixed(t), nil, "etcd")
	require.Equal(t, User{
		Name: "etcd", ID: 801, HasID: true, Group: "etcd", Gecos: "etcd", Home: "/var/lib/etcd", Shell: "/usr/sbin/nologin",
	}, mustUser(t, db, "etcd"))
	mustUser(t, db, "root")
	mustUser(t, db, "spore-time")
	for _, name := range []string{"kafka", "mosquitto", "ceph", "systemd-network"} {
		_, ok := db.User(name)
		require.False(t, ok, name)
		_, ok = db.Group(name)
		require.False(t, ok, name)
	}
	require.Empty(t, db.Fresh().Users)
	require.Empty(t, db.Fresh().Groups)
}

func TestIDsComeFromTheTableThenTheLockThenTheName(t *testing.T) {
	db := New(fixed(t), &Locked{
		Users:  map[string]uint32{"_tcpdump": 512, "gone": 513},
		Groups: map[string]uint32{"_tcpdump": 514},
	})
	for _, name := range []string{"mosquitto", "_tcpdump", "nginx"} {
		require.NoError(t, db.AddUser(User{Name: name}))
	}
	ids := func(name string) [2]uint32 { return [2]uint32{mustUser(t, db, name).ID, mustGroup(t, db, name).ID} }
	require.Equal(t, [2]uint32{700, 700}, ids("mosquitto"))
	require.Equal(t, [2]uint32{512, 514}, ids("_tcpdump"))
	nginx := ids("nginx")
	require.Equal(t, nginx[0], nginx[1])
	require.True(t, nginx[0] >= 200 && nginx[0] <= 699)

	require.Equal(t, &Locked{
		Users:  map[string]uint32{"nginx": nginx[0]},
		Groups: map[string]uint32{"nginx": nginx[1]},
	}, db.Fresh())
	require.Equal(t, &Locked{
		Users:  map[string]uint32{"nginx": nginx[0], "_tcpdump": 512, "gone": 513},
		Groups: map[string]uint32{"nginx": nginx[1], "_tcpdump": 514},
	}, db.All(), "a package that is gone keeps its number")
}

func TestDerivedIDsAreThoseOfTheName(t *testing.T) {
	// These numbers are on disks: another hash would move them.
	db := New(fixed(t), nil)
	for name, id := range map[string]uint32{"tcpdump": 266, "nginx": 579, "postgres": 630} {
		require.NoError(t, db.AddUser(User{Name: name}))
		require.Equal(t, id, mustUser(t, db, name).ID, name)
	}
}

func TestAnIDDoesNotDependOnWhatElseIsThere(t *testing.T) {
	alone := New(fixed(t), nil)
	require.NoError(t, alone.AddUser(User{Name: "postgres"}))
	among := New(fixed(t), nil, "etcd", "kafka")
	for _, name := range []string{"redis", "nginx", "unbound", "bind", "postgres"} {
		require.NoError(t, among.AddUser(User{Name: name}))
	}
	require.Equal(t, mustUser(t, alone, "postgres").ID, mustUser(t, among, "postgres").ID)
}

func TestNoTwoNamesHaveOneIDUntilTheRangeIsFull(t *testing.T) {
	db := New(fixed(t), &Locked{Users: map[string]uint32{"locked": 333}})
	seen := map[uint32]bool{333: true}
	var err error
	for i := 0; err == nil; i++ {
		name := fmt.Sprintf("u%d", i)
		if err = db.AddUser(User{Name: name}); err != nil {
			require.Equal(t, 499, i)
			break
		}
		id := mustUser(t, db, name).ID
		require.False(t, seen[id], id)
		seen[id] = true
		require.Equal(t, id, mustGroup(t, db, name).ID)
	}
	require.ErrorIs(t, err, ErrTaken)
	require.ErrorContains(t, err, "no id is left for user u499")
}

func TestGroupAndUserOfOneNameGetOneNumberInAnyOrder(t *testing.T) {
	a, b := New(fixed(t), nil), New(fixed(t), nil)
	require.NoError(t, a.AddGroup(Group{Name: "redis"}))
	require.NoError(t, a.AddUser(User{Name: "redis", Group: "redis"}))
	require.NoError(t, b.AddUser(User{Name: "redis", Group: "nogroup"}))
	require.NoError(t, b.AddGroup(Group{Name: "redis"}))
	require.Equal(t, mustUser(t, a, "redis").ID, mustGroup(t, a, "redis").ID)
	require.Equal(t, mustUser(t, a, "redis").ID, mustUser(t, b, "redis").ID)
	require.Equal(t, mustUser(t, b, "redis").ID, mustGroup(t, b, "redis").ID)

	require.NoError(t, a.AddGroup(Group{Name: "kvm"}))
	require.NoError(t, a.AddUser(User{Name: "kvm"}))
	require.Equal(t, uint32(993), mustUser(t, a, "kvm").ID, "the number of the table's group")
}

func TestWishesForAnID(t *testing.T) {
	for name, c := range map[string]struct {
		user User
		id   uint32
		err  string
	}{
		"a global id of Debian is kept": {user: User{Name: "a", ID: 61000, HasID: true}, id: 61000},
		"one below 100 is kept":         {user: User{Name: "a", ID: 98, HasID: true}, id: 98},
		"that of the table":             {user: User{Name: "ceph", ID: 64045, HasID: true}, id: 64045},
		"a dynamic id for the table's":  {user: User{Name: "ceph", ID: 107, HasID: true}, id: 64045},
		"that of another user":          {user: User{Name: "a", ID: 8, HasID: true}, err: "that is wanted for a is taken"},
		"that of a row not in the image": {
			user: User{Name: "a", ID: 64045, HasID: true}, err: "it is that of ceph"},
		"that of a locked user": {user: User{Name: "a", ID: 62000, HasID: true}, err: "it is that of locked"},
		"that of root":          {user: User{Name: "toor", ID: 0, HasID: true}, err: "wanted for toor is taken"},
		"another than the table's": {
			user: User{Name: "ceph", ID: 64046, HasID: true},
			err:  "user ceph is 64045 in accounts/table, and the package wants 64046",
		},
		"another than the lock's":   {user: User{Name: "locked", ID: 62001, HasID: true}, id: 62000},
		"a number of one system":    {user: User{Name: "locked", ID: 107, HasID: true}, id: 62000},
		"a number of people's ones": {user: User{Name: "kvm", ID: 1000, HasID: true}, id: 993},
	} {
		t.Run(name, func(t *testing.T) {
			db := New(fixed(t), &Locked{Users: map[string]uint32{"locked": 62000}})
			err := db.AddUser(c.user)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, ErrTaken)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.id, mustUser(t, db, c.user.Name).ID)
		})
	}
}

func TestRefusedAccounts(t *testing.T) {
	long := strings.Repeat("x", 600)
	for name, c := range map[string]struct {
		do func(db *DB) error
		is error
	}{
		"a user twice":       {func(db *DB) error { return db.AddUser(User{Name: "mail"}) }, ErrExists},
		"a group twice":      {func(db *DB) error { return db.AddGroup(Group{Name: "mail"}) }, ErrExists},
		"a user of no group": {func(db *DB) error { return db.AddUser(User{Name: "a", Group: "no"}) }, ErrNotFound},
		"a group of no user": {func(db *DB) error {
			return db.AddGroup(Group{Name: "a", Members: []string{"nosuch"}})
		}, ErrNotFound},
		"a name with a colon":         {func(db *DB) error { return db.AddUser(User{Name: "a:b"}) }, ErrInvalid},
		"a name with a newline":       {func(db *DB) error { return db.AddGroup(Group{Name: "a\n"}) }, ErrInvalid},
		"a name that is an option":    {func(db *DB) error { return db.AddUser(User{Name: "-a"}) }, ErrInvalid},
		"a name of digits":            {func(db *DB) error { return db.AddUser(User{Name: "12"}) }, ErrInvalid},
		"an empty name":               {func(db *DB) error { return db.AddGroup(Group{}) }, ErrInvalid},
		"a long name":                 {func(db *DB) error { return db.AddUser(User{Name: long[:33]}) }, ErrInvalid},
		"a path as a name":            {func(db *DB) error { return db.AddUser(User{Name: "../a"}) }, ErrInvalid},
		"a relative home":             {func(db *DB) error { return db.AddUser(User{Name: "a", Home: "x"}) }, ErrInvalid},
		"a home with a colon":         {func(db *DB) error { return db.AddUser(User{Name: "a", Home: "/x:0"}) }, ErrInvalid},
		"a relative shell":            {func(db *DB) error { return db.AddUser(User{Name: "a", Shell: "sh"}) }, ErrInvalid},
		"a comment of two lines":      {func(db *DB) error { return db.AddUser(User{Name: "a", Gecos: "\nr:"}) }, ErrInvalid},
		"a comment without end":       {func(db *DB) error { return db.AddUser(User{Name: "a", Gecos: long}) }, ErrInvalid},
		"a comment of bytes":          {func(db *DB) error { return db.SetGecos("mail", "\xff") }, ErrInvalid},
		"a shell for nobody":          {func(db *DB) error { return db.SetShell("nosuch", "/bin/sh") }, ErrNotFound},
		"a home that becomes bad":     {func(db *DB) error { return db.SetHome("mail", "/a:b") }, ErrInvalid},
		"a lock for nobody":           {func(db *DB) error { return db.Lock("nosuch") }, ErrNotFound},
		"a member that is not there":  {func(db *DB) error { return db.AddMember("nosuch", "mail") }, ErrNotFound},
		"a member of nothing":         {func(db *DB) error { return db.AddMember("mail", "nosuch") }, ErrNotFound},
		"to leave nothing":            {func(db *DB) error { return db.RemoveMember("mail", "nosuch") }, ErrNotFound},
		"a primary group of none":     {func(db *DB) error { return db.SetPrimaryGroup("mail", "nosuch") }, ErrNotFound},
		"to remove nobody's user":     {func(db *DB) error { return db.DelUser("nosuch") }, ErrNotFound},
		"to remove no group":          {func(db *DB) error { return db.DelGroup("nosuch") }, ErrNotFound},
		"to remove a primary group":   {func(db *DB) error { return db.DelGroup("mail") }, ErrInUse},
		"to remove root":              {func(db *DB) error { return db.DelUser("root") }, ErrInvalid},
		"a user of the table's group": {func(db *DB) error { return db.AddUser(User{Name: "a", Group: "kvm"}) }, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			db := New(fixed(t), nil)
			before, _, _, _ := db.Render()
			require.ErrorIs(t, c.do(db), c.is)
			after, _, _, _ := db.Render()
			require.Equal(t, string(before), string(after))
		})
	}
}

func TestAccountsChange(t *testing.T) {
	db := New(fixed(t), nil)
	require.NoError(t, db.AddUser(User{Name: "frr", Gecos: "x", Home: "/nonexistent"}))
	id := mustUser(t, db, "frr").ID
	require.NoError(t, db.AddGroup(Group{Name: "frrvty", Members: []string{"mail"}}))
	require.NoError(t, db.AddMember("frr", "frrvty"))
	require.NoError(t, db.AddMember("frr", "frrvty"))
	require.Equal(t, []string{"mail", "frr"}, mustGroup(t, db, "frrvty").Members)
	require.NoError(t, db.RemoveMember("mail", "frrvty"))
	require.NoError(t, db.RemoveMember("mail", "frrvty"))
	require.NoError(t, db.SetShell("frr", "/bin/bash"))
	require.NoError(t, db.SetHome("frr", "/run/frr"))
	require.NoError(t, db.SetGecos("frr", "Routing"))
	require.NoError(t, db.SetPrimaryGroup("frr", "frrvty"))
	require.NoError(t, db.Lock("frr"))
	require.Equal(t, User{
		Name: "frr", ID: id, HasID: true, Group: "frrvty", Gecos: "Routing", Home: "/run/frr", Shell: "/bin/bash",
	}, mustUser(t, db, "frr"))
	gid, ok := db.PrimaryGroup("frr")
	require.True(t, ok)
	require.Equal(t, mustGroup(t, db, "frrvty").ID, gid)
	require.Equal(t, "frr", db.UserName(id))
	require.Equal(t, "frrvty", db.GroupName(gid))

	require.NoError(t, db.DelUser("frr"))
	require.Empty(t, mustGroup(t, db, "frrvty").Members)
	require.NoError(t, db.DelGroup("frr"))
	require.Equal(t, fmt.Sprint(id), db.UserName(id), "an id without a user is a number")
	_, ok = db.PrimaryGroup("frr")
	require.False(t, ok)
	require.Empty(t, db.Fresh().Users)
	require.NoError(t, db.AddUser(User{Name: "frr"}))
	require.Equal(t, id, mustUser(t, db, "frr").ID, "the name has its id again")
}

func TestOwnersOfFilesAreAccountsOfTheImage(t *testing.T) {
	db := New(fixed(t), nil)
	require.True(t, db.Owned(0, 8))
	require.False(t, db.Owned(700, 0), "mosquitto is in the table and not in the image")
	require.False(t, db.Owned(0, 700))
	require.False(t, db.Owned(12345, 0))
	require.NoError(t, db.AddUser(User{Name: "mosquitto"}))
	require.True(t, db.Owned(700, 700))
}

func TestWhatIsReturnedIsACopy(t *testing.T) {
	db := New(fixed(t), nil)
	require.NoError(t, db.AddMember("mail", "adm"))
	mustGroup(t, db, "adm").Members[0] = "root"
	require.Equal(t, []string{"mail"}, mustGroup(t, db, "adm").Members)
}

func TestTheFilesAreSortedByIDAndHaveNoPasswords(t *testing.T) {
	db := New(fixed(t), &Locked{Users: map[string]uint32{"_tcpdump": 512}, Groups: map[string]uint32{"_tcpdump": 512}})
	require.NoError(t, db.AddUser(User{Name: "_tcpdump"}))
	require.NoError(t, db.AddMember("_tcpdump", "adm"))
	passwd, group, shadow, gshadow := db.Render()
	require.True(t, strings.HasPrefix(string(passwd), "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:"))
	require.Contains(t, string(passwd), "\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n_tcpdump:x:512:512:")
	require.True(t, strings.HasSuffix(string(passwd), "\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"))
	require.Contains(t, string(group), "\nadm:x:4:_tcpdump\n")
	require.Contains(t, string(gshadow), "\nadm:!*::_tcpdump\n")
	require.Contains(t, string(shadow), "\n_tcpdump:!*:::::::\n")
	for _, file := range [][]byte{shadow, gshadow} {
		for _, line := range strings.Split(strings.TrimSpace(string(file)), "\n") {
			require.Equal(t, "!*", strings.Split(line, ":")[1], line)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(string(passwd)), "\n") {
		require.Equal(t, "x", strings.Split(line, ":")[1], line)
	}
}

func TestTheFilesOfTheImageFollowTheAccounts(t *testing.T) {
	f := files.New(tree.New())
	db := New(fixed(t), nil)
	require.NoError(t, db.Write(f))
	for name, mode := range map[string]uint32{"passwd": 0o644, "group": 0o644, "shadow": 0o640, "gshadow": 0o640} {
		n, err := f.Stat("/etc/" + name)
		require.NoError(t, err)
		require.Equal(t, mode, n.Mode, name)
		require.Equal(t, map[uint32]uint32{0o644: 0, 0o640: 42}[mode], n.GID, name)
	}
	require.NoError(t, db.AddUser(User{Name: "nginx"}))
	require.NoError(t, db.Write(f))
	data, err := f.ReadFile("/etc/passwd")
	require.NoError(t, err)
	passwd, _, _, _ := db.Render()
	require.Equal(t, string(passwd), string(data))
}
