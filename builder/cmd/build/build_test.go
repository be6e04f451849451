package build

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/vault"
)

func TestSourceDateEpoch(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1": 1, "1700000000": 1_700_000_000, "4294967295": 4_294_967_295} {
		got, err := sourceDateEpoch(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"0", "-1", "x", "1.5", "4294967296", "99999999999999999999"} {
		_, err := sourceDateEpoch(text)
		require.Equal(t, exit.Misuse, exit.Code(err), text)
	}
}

func TestFormatsOfTheCommandLineWinOverThoseOfTheConfiguration(t *testing.T) {
	for _, tt := range []struct{ flag, configured, want []string }{
		{nil, nil, []string{"disk"}},
		{nil, []string{"uki"}, []string{"uki"}},
		{[]string{"disk"}, []string{"uki"}, []string{"disk"}},
	} {
		got, err := chooseFormats(tt.flag, tt.configured)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	_, err := chooseFormats([]string{"floppy"}, nil)
	require.Equal(t, exit.Misuse, exit.Code(err))
}

func TestABadConfigurationBuildsNothing(t *testing.T) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command("0"))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"build", t.TempDir(), "-o", t.TempDir(), "--cache", t.TempDir()})
	require.Equal(t, exit.Failed, exit.Run(context.Background(), root))
	require.Contains(t, out.String(), "cluster.yaml:1:1: error: cannot be read")
	require.Contains(t, out.String(), "nothing was built")
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
