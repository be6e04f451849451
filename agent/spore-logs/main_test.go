package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatItCannotStartWith(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "send.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, args := range map[string][]string{
		"it takes three arguments":          nil,
		"it has 4":                          {"a", "b", "c", "d"},
		"read the settings: ":               {"/nonexistent", "", ""},
		"send.json is malformed: ":          {file("{"), "", ""},
		"send.json has 0 stores":            {file("{}"), "", ""},
		"find who brings the journal: ":     {file(`{"stores":[{"name":"a","address":"a:1","serverName":"a"}],"ca":"a","certificate":"b","key":"c"}`), "", ""},
		"a store without a name":            {file(`{"stores":[{"name":"a"}]}`), "", ""},
		"does not say whom to trust":        {file(`{"stores":[{"name":"a","address":"a:1","serverName":"a"}]}`), "", ""},
		"send.json has 3 stores; there are": {file(`{"stores":[{},{},{}]}`), "", ""},
	} {
		require.ErrorContains(t, run(t.Context(), args), want)
	}
	_, err := uidOf("root")
	require.NoError(t, err)
}

func TestOnlyOneAccountMayBringTheJournal(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	taken, err := l.Accept()
	require.NoError(t, err)
	defer taken.Close()
	uid := uint32(os.Getuid())
	require.NoError(t, only(uid)(taken))
	require.ErrorContains(t, only(uid+1)(taken), "it is of the account ")
}
