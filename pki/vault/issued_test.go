package vault

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheFolderListsWhatPeopleWereGiven(t *testing.T) {
	v := &Vault{Dir: t.TempDir()}
	list, err := ReadIssued(v.Dir)
	require.NoError(t, err)
	require.Empty(t, list)

	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	anna := Issued{Serial: "4f", User: "anna", Role: "admin", Nodes: []string{"edge-1"}, Made: begin, Ends: begin.Add(time.Hour)}
	bert := Issued{Serial: "5f", User: "bert", Role: "reader", Made: begin, Ends: begin.AddDate(0, 1, 0)}
	require.NoError(t, v.AddIssued(anna))
	require.NoError(t, v.AddIssued(bert))
	list, err = ReadIssued(v.Dir)
	require.NoError(t, err)
	require.Equal(t, []Issued{anna, bert}, list)
	st, err := os.Stat(filepath.Join(v.Dir, IssuedFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())

	for name, text := range map[string]string{
		"no JSON": "x", "more than it has": `[{"serial":"1","secret":"x"}]`, "far too much": strings.Repeat(" ", maxIssuedFile+1),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(v.Dir, IssuedFile), []byte(text), 0o600))
		_, err = ReadIssued(v.Dir)
		require.Error(t, err, name)
		require.Error(t, v.AddIssued(bert), name)
	}
}
