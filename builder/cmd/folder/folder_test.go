package folder

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/vault"
)

func TestAFolderWithErrorsIsNoConfiguration(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	_, err := Load(&out, dir, "", false)
	require.ErrorIs(t, err, ErrConfig)
	require.Contains(t, out.String(), dir+"/cluster.yaml:1:1: error: cannot be read")
}

func TestAccountsAreCheckedWithTheConfiguration(t *testing.T) {
	config, report, err := Check("../../../examples/edge", true)
	require.NoError(t, err)
	require.False(t, report.Failed())
	none, report, err := Accounts(config)
	require.NoError(t, err)
	require.Empty(t, report)
	require.Nil(t, none)

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../../examples/edge")))
	name := filepath.Join(dir, "accounts.yaml")
	require.NoError(t, os.WriteFile(name, []byte("users: {_tcpdump: 512}\n"), 0o644))
	var out bytes.Buffer
	config, err = Load(&out, dir, "", true)
	require.NoError(t, err)
	require.NotContains(t, out.String(), "accounts.yaml")
	locked, _, err := Accounts(config)
	require.NoError(t, err)
	require.Equal(t, map[string]uint32{"_tcpdump": 512}, locked.Users)

	for text, want := range map[string]string{
		"users:\n  a: 512\n  b: 512\n": name + ":3:6: error: the id 512 of user b is that of a",
		"users: {":                     name + ":1:1: error: not valid YAML",
		"":                             name + ":1:1: error: it is empty; restore it",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		out.Reset()
		_, err = Load(&out, dir, "", false)
		require.ErrorIs(t, err, ErrConfig)
		require.Contains(t, out.String(), want)
	}
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), nil, 0o644))
	out.Reset()
	_, err = Load(&out, dir, "", false)
	require.ErrorIs(t, err, ErrConfig)
	require.Contains(t, out.String(), name+":1:1: error: ", "all errors at once")
	require.Contains(t, out.String(), dir+"/cluster.yaml:1:1: error: ")
}

func TestTheKeysOfAnImage(t *testing.T) {
	const id = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	shared := facts.Cluster{Name: "plant", ID: id}
	tree := pki.New(&shared)
	_, err := tree.Update(&shared, nil, pki.Options{Now: time.Unix(1_800_000_000, 0), Random: rand.Reader})
	require.NoError(t, err)
	public, err := json.Marshal(tree.Public())
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "plant")

	none, err := readKeys(config, "", id)
	require.NoError(t, err, "a folder of keys need not be there")
	require.Empty(t, none)
	_, err = readKeys(config, filepath.Join(config, "elsewhere"), id)
	require.Error(t, err, "one that is named must be")

	require.NoError(t, os.MkdirAll(config+".pki", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(config+".pki", vault.PublicFile), public, 0o600))
	keys, err := readKeys(config+"/", "", id)
	require.NoError(t, err)
	require.Len(t, keys.SigningKeys, 1)
	require.Contains(t, keys.Files, "pki/signing.pub")
	for name, data := range keys.Files {
		require.NotContains(t, string(data), "PRIVATE", name)
	}
	_, err = readKeys(config, "", "00000000-0000-4000-8000-000000000000")
	require.ErrorContains(t, err, "are of the cluster with the id "+id)
}
