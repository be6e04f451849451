package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/logs/sending"
)

func TestFilesAreSentWhereThereAreSome(t *testing.T) {
	names := func(c sending.Config) (out []string) {
		for _, s := range sources(c, t.TempDir(), func(string) {}) {
			out = append(out, s.Name())
		}
		return out
	}
	require.Empty(t, names(sending.Config{}))
	require.Equal(t, []string{"pod"}, names(sending.Config{Pods: true}))
	require.Equal(t, []string{"pod", "audit"}, names(sending.Config{Pods: true, Audit: true}))
}

func TestNothingIsSharedWithoutGoodSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "send.json")
	require.ErrorContains(t, run(t.Context(), []string{"share", path}), "read the settings: ")
	require.NoError(t, os.WriteFile(path, []byte(`{"pods":true}`), 0o600))
	require.ErrorContains(t, run(t.Context(), []string{"share", path}), "has 0 stores")
	// Neither pods nor an audit log: nothing is changed.
	require.NoError(t, os.WriteFile(path, []byte(`{"stores":[{"name":"a","address":"a:1","serverName":"a"}],"ca":"a","certificate":"b","key":"c"}`), 0o600))
	require.NoError(t, run(t.Context(), []string{"share", path}))
	_, _, err := idsOf("nobody-has-this-name")
	require.ErrorContains(t, err, "find the account")
}

func TestAPositionThatIsDamagedIsRemovedAndSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store-1")
	require.NoError(t, run(t.Context(), []string{"repair", file}), "there is none at the first start")
	var said []string
	say := func(text string) { said = append(said, text) }
	require.NoError(t, os.WriteFile(file, []byte("LAST_CURSOR=nonsense\n"), 0o600))
	require.NoError(t, repair(file, say))
	require.NoFileExists(t, file)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "the journal is sent from its oldest entry on")
	require.NoError(t, repair(file, say))
	require.Len(t, said, 1)
	// The unit calls it before the program that would end, with the file that this has.
	unit, err := os.ReadFile("../../units/journal-upload@.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nExecStartPre=-/usr/bin/spore-logs repair /var/lib/journal-upload/${STORE}\n")
	require.Contains(t, string(unit), " --save-state=/var/lib/journal-upload/${STORE}\n")
}

func TestTheJournalIsThatOfTheMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine-id")
	require.Empty(t, journals(file))
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))
	require.Equal(t, []string{
		"/var/log/journal/0123456789abcdef0123456789abcdef/system.journal",
		"/run/log/journal/0123456789abcdef0123456789abcdef/system.journal",
	}, journals(file))
	unit, err := os.ReadFile("../../units/spore-logs.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nSupplementaryGroups=systemd-journal\n", "the files are for that group alone")
}
