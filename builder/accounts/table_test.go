package accounts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func fixed(t testing.TB) *Table {
	t.Helper()
	table, err := Fixed()
	require.NoError(t, err)
	return table
}

func TestTheTableItself(t *testing.T) {
	a := fixed(t)
	for _, u := range a.users {
		if u.id >= 700 && u.id < 900 && u.group == u.name {
			require.Equal(t, u.id, a.gid[u.name], "user and group %s of ours have the same number", u.name)
		}
		require.False(t, u.id >= firstDerived && u.id <= lastDerived, "user %s has an id of the derived range", u.name)
	}
	for _, g := range a.groups {
		require.False(t, g.id >= firstDerived && g.id <= lastDerived, "group %s has an id of the derived range", g.name)
	}
	id, ok := a.UserID("ceph")
	require.True(t, ok)
	require.Equal(t, uint32(64045), id)
	id, ok = a.GroupID("kvm")
	require.True(t, ok)
	require.Equal(t, uint32(993), id)
	_, ok = a.UserID("nosuch")
	require.False(t, ok)
}

func TestRefusedTables(t *testing.T) {
	for name, c := range map[string]struct{ table, message string }{
		"a user id twice":         {"group:a:1::base\nuser:a:1:a::/:/x:base\nuser:b:1:a::/:/x:base", "user id 1 is that of"},
		"a group id twice":        {"group:a:1::base\ngroup:b:1::base", "group id 1 is that of a already"},
		"a user twice":            {"group:a:1::base\nuser:a:1:a::/:/x:base\nuser:a:2:a::/:/x:base", "user a appears twice"},
		"a group twice":           {"group:a:1::base\ngroup:a:2::base", "group a appears twice"},
		"a group that is missing": {"user:a:1:a::/:/x:base", "group a of user a has no row above"},
		"a number out of range":   {"group:a:70000::base", "not a number up to 65534"},
		"a short row":             {"group:a:1", "a row is"},
		"an unknown row":          {"other:a:1::base", "a row is"},
		"a name of digits":        {"group:1:1::base", `the name "1" is not allowed`},
		"a relative home":         {"group:a:1::base\nuser:a:1:a::x:/x:base", `the home "x" is not allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTable(c.table)
			require.ErrorContains(t, err, c.message)
			require.ErrorContains(t, err, "accounts/table:")
		})
	}
}

func TestTheMasterFilesOfBasePasswdAreCompared(t *testing.T) {
	a := fixed(t)
	require.NoError(t, a.CheckMaster("passwd.master", "root:*:0:0:root:/root:/bin/bash\nmail:*:8:8:mail:/x:/x\n", false))
	require.NoError(t, a.CheckMaster("group.master", "root:*:0:\nusers:*:100:\n", true))
	for name, c := range map[string]struct {
		text, message string
		groups        bool
	}{
		"a new account":        {"new:*:99:99:::\n", "passwd.master:1: new has the id 99", false},
		"another number":       {"root:*:0:\nmail:*:9:\n", "passwd.master:2: mail has the id 9", true},
		"a damaged record":     {"root\n", "is not an account", false},
		"a user among groups":  {"_apt:*:42:\n", "_apt has the id 42", true},
		"a group among users":  {"users:*:100:\n", "users has the id 100", false},
		"a number with zeroes": {"mail:*:008:\n", "mail has the id 008", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, a.CheckMaster("passwd.master", c.text, c.groups), c.message)
		})
	}
}
