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
