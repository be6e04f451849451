package hostkey

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/unlock"
)

func keeper(dir string) Keeper {
	return Keeper{Node: "edge-01", MachineID: "0123456789abcdef0123456789abcdef\n", With: func(fn func(string) error) error { return fn(dir) }}
}

func TestTheKeyIsMadeOfTheMediumAndTheMachine(t *testing.T) {
	dir := t.TempDir()
	k := keeper(dir)
	_, err := k.Read()
	require.ErrorIs(t, err, unlock.ErrNoKey)
	key, err := k.Make()
	require.NoError(t, err)
	require.Len(t, key, 64)
	again, err := k.Read()
	require.NoError(t, err)
	require.Equal(t, key, again)
	half, err := os.ReadFile(filepath.Join(dir, Path("edge-01")))
	require.NoError(t, err)
	require.NotContains(t, string(half), key, "the medium alone does not have it")

	other := keeper(dir)
	other.MachineID = "fedcba9876543210fedcba9876543210\n"
	of, err := other.Read()
	require.NoError(t, err)
	require.NotEqual(t, key, of, "another machine has another key")
	other = keeper(dir)
	other.Node = "edge-02"
	_, err = other.Read()
	require.ErrorIs(t, err, unlock.ErrNoKey, "another node has none")

	next, err := k.Make()
	require.NoError(t, err)
	require.NotEqual(t, key, next)
}

func TestThereIsNoKeyWhereNothingWouldKeepIt(t *testing.T) {
	fleeting, disc, broken, damaged := keeper(t.TempDir()), keeper(""), keeper(""), keeper(t.TempDir())
	fleeting.Fleeting, disc.With = true, nil
	broken.With = func(func(string) error) error { return errors.New("mount the boot medium: it is read-only") }
	_, err := damaged.Make()
	require.NoError(t, err)
	damaged.With = func(fn func(string) error) error {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "loader"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, Path("edge-01")), []byte("00ff"), 0o600))
		return fn(dir)
	}
	for name, tc := range map[string]struct {
		keeper     Keeper
		read, made string
	}{
		"nothing is the same at each boot": {fleeting, unlock.ErrNoKey.Error(), "nothing of this machine is the same at each boot"},
		"booted from a disc":               {disc, unlock.ErrNoKey.Error(), "was not booted from a disk with an EFI system partition"},
		"a medium that is read-only":       {broken, "it is read-only", "keep a host key on the boot medium: mount the boot medium: it is read-only"},
		"a damaged file":                   {damaged, "loader/spore-state-edge-01.key on the boot medium is damaged", ""},
	} {
		_, err := tc.keeper.Read()
		require.ErrorContains(t, err, tc.read, name)
		if _, err = tc.keeper.Make(); tc.made != "" {
			require.ErrorContains(t, err, tc.made, name)
		}
	}
}
