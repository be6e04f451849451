package cluster

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheIDsOfAccountsAreKeptAsTheyAre(t *testing.T) {
	files := goodFolder(t)
	c, report := Load(files)
	require.Empty(t, report)
	require.Nil(t, c.Accounts)

	for _, text := range []string{"", "users: {a: 512}\n", "no: [YAML"} { // which their reader says
		files["accounts.yaml"] = &fstest.MapFile{Data: []byte(text)}
		c, report = Load(files)
		require.Empty(t, report)
		require.NotNil(t, c.Accounts)
		require.Equal(t, text, string(c.Accounts))
		require.NotContains(t, c.Source(), "accounts.yaml", "no node reads it")
	}
	delete(files, "accounts.yaml")
	files["acounts.yaml"] = &fstest.MapFile{}
	_, report = Load(files)
	require.ErrorContains(t, report.Err(), `did you mean "accounts.yaml"?`)
}

func TestIDsOfAccountsThatCannotBeRead(t *testing.T) {
	files := goodFolder(t)
	files["accounts.yaml"] = &fstest.MapFile{Data: []byte(strings.Repeat("#", maxFileSize+1))}
	c, report := Load(files)
	require.ErrorContains(t, report.Err(), "accounts.yaml:1:1: error: cannot be read: it is larger than 32 MiB")
	require.Nil(t, c.Accounts)

	delete(files, "accounts.yaml")
	files["accounts.yaml/x"] = &fstest.MapFile{}
	_, report = Load(files)
	require.ErrorContains(t, report.Err(), "accounts.yaml:1:1: error: cannot be read: ")
}
