package accounts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const lockedSample = lockedHead +
	"users:\n  Debian-exim: 201\n  _tcpdump: 512\n  \"true\": 203\ngroups:\n  _tcpdump: 512\n"

func TestALockIsReadAndWrittenWithTheSameBytes(t *testing.T) {
	l, report := ParseLocked([]byte(lockedSample), fixed(t))
	require.Empty(t, report)
	require.Equal(t, &Locked{
		Users:  map[string]uint32{"_tcpdump": 512, "Debian-exim": 201, "true": 203},
		Groups: map[string]uint32{"_tcpdump": 512},
	}, l)
	data, err := l.Encode()
	require.NoError(t, err)
	require.Equal(t, lockedSample, string(data))
}

func TestAcceptedLocks(t *testing.T) {
	for name, c := range map[string]struct {
		text          string
		users, groups int
	}{
		"on one line":                           {"users: {_tcpdump: 512}\ngroups: {_tcpdump: 512}\n", 1, 1},
		"without groups":                        {"users: {a: 200}\n", 1, 0},
		"empty":                                 {"users: {}\ngroups: {}\n", 0, 0},
		"the global ids of Debian":              {"users: {a: 60000, b: 64999, c: 99}\n", 3, 0},
		"user and group with different numbers": {"users: {a: 200}\ngroups: {a: 201}\n", 1, 1},
		"what the table has with this number":   {"users: {mosquitto: 700}\n", 0, 0},
		"the number of the table's group":       {"users: {kvm: 993}\n", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, report := ParseLocked([]byte(c.text), fixed(t))
			require.Empty(t, report)
			require.Len(t, l.Users, c.users)
			require.Len(t, l.Groups, c.groups)
		})
	}
}

func TestRefusedLocks(t *testing.T) {
	var many strings.Builder
	many.WriteString("users:\n")
	for i := range maxLocked + 1 {
		fmt.Fprintf(&many, "  a%d: %d\n", i, 60000+i)
	}
	for name, c := range map[string]struct{ text, message string }{
		"an empty file":                {"", "1:1: error: it is empty; restore it"},
		"only a comment":               {"# x\n", "1:1: error: it is empty"},
		"a list":                       {"- a\n", "1:1: error: the file is not a mapping"},
		"a list of users":              {"users: [a]\n", "1:8: error: users is not a mapping"},
		"no value":                     {"users:\n", "1:7: error: users is not a mapping"},
		"an unknown key":               {"users: {}\ngrups: {}\n", `2:1: error: unknown key "grups"; did you mean "groups"?`},
		"users twice":                  {"users: {}\nusers: {}\n", `2:1: error: the key "users" is here twice`},
		"a name twice":                 {"users:\n  a: 200\n  a: 201\n", `3:3: error: the key "a" is here twice, first in`},
		"one id for two users":         {"users:\n  a: 200\n  b: 200\n", "3:6: error: the id 200 of user b is that of a"},
		"one id for two groups":        {"groups:\n  a: 200\n  b: 200\n", "3:6: error: the id 200 of group b is that of a"},
		"the id of a row of the table": {"users: {a: 8}\n", "1:12: error: the id 8 of user a is that of mail"},
		"another id than the table's":  {"users: {mail: 300}\n", "1:15: error: user mail has the id 8 in each image"},
		"root":                         {"users: {toor: 0}\n", "the id 0 of user toor is not one that a build gives"},
		"an id of Spore":               {"users: {a: 850}\n", "the id 850 of user a is not one that a build gives"},
		"an id of people":              {"users: {a: 1000}\n", "the id 1000 of user a is not one that a build gives"},
		"a negative id":                {"users: {a: -1}\n", "is not a whole number"},
		"an id that is too large":      {"users: {a: 4294967496}\n", "is not a whole number"},
		"an id in octal":               {"users: {a: 0310}\n", "is not a whole number"},
		"an id in hexadecimal":         {"users: {a: 0x200}\n", "is not a whole number"},
		"an id as text":                {"users: {a: \"200\"}\n", "1:12: error: the id of user a is not a whole number"},
		"an id that is a list":         {"users: {a: [200]}\n", "is not a whole number"},
		"a name with a colon":          {"users: {\"a:b\": 200}\n", "1:9: error: the name \"a:b\" is not allowed"},
		"a name with a newline":        {"users: {\"a\\nb\": 200}\n", "is not allowed"},
		"a name that is empty":         {"users: {\"\": 200}\n", "is not allowed"},
		"a name that is too long":      {"users: {" + strings.Repeat("a", 33) + ": 200}\n", "is not allowed"},
		"a name of digits":             {"users: {200: 200}\n", "1:9: error: this key is not a plain text"},
		"a name that is a truth value": {"users: {true: 200}\n", "this key is not a plain text"},
		"an anchor":                    {"users: &u {}\ngroups: *u\n", "is not a mapping"},
		"a merge":                      {"users: {<<: {a: 200}}\n", "this key is not a plain text"},
		"two documents":                {"users: {}\n---\nusers: {}\n", "2:1: error: a second YAML document begins here"},
		"an open bracket":              {"users: {a: 200\n", "error: not valid YAML"},
		"bytes that are not UTF-8":     {"users: {\xff: 200}\n", "error: not valid YAML"},
		"too many":                     {many.String(), "2:3: error: users has 2001 entries; at most 2000 are read"},
		"a file that is too large":     {strings.Repeat("#", MaxLockedSize+1), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			l, report := ParseLocked([]byte(c.text), fixed(t))
			require.Nil(t, l)
			require.ErrorContains(t, report.Err(), c.message)
			require.ErrorContains(t, report.Err(), "accounts.yaml:")
		})
	}
}

func TestAllThatIsWrongWithALockIsReportedAtOnce(t *testing.T) {
	_, report := ParseLocked([]byte("users:\n  a: 0\n  b: x\nother: {}\n"), fixed(t))
	require.Len(t, report, 3)
}

func FuzzParseLocked(f *testing.F) {
	for _, s := range []string{
		lockedSample, "users: {a: 200}\n", "groups: {\"null\": 60000}\n", "users: *a", "---\n---\n", "? a\n: b", "{",
	} {
		f.Add([]byte(s))
	}
	table := fixed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, report := ParseLocked(data, table)
		if l == nil {
			require.True(t, report.Failed())
			return
		}
		first, err := l.Encode()
		require.NoError(t, err)
		again, report := ParseLocked(first, table)
		require.Empty(t, report)
		require.Equal(t, l, again)
	})
}
