package secureboot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
	"spore/pki/siglist"
)

func TestARevocationIsSignedAndHoldsItsHashes(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	programs := []authenticode.Hash{{1}, {2, 31: 3}}
	v, err := k.KEK.Revoke(programs, time.Unix(1_800_000_000, 0))
	require.NoError(t, err)
	list, err := CheckWrite(v.Auth, "dbx", k.KEK.Certificate)
	require.NoError(t, err)
	require.Equal(t, v.List, list)
	got, err := siglist.Hashes(list)
	require.NoError(t, err)
	require.Equal(t, programs, got)
	entries, err := siglist.Certificates(list)
	require.NoError(t, err)
	require.Empty(t, entries, "they are no certificates")
	_, err = CheckWrite(v.Auth, "dbx", k.DB.Certificate)
	require.Error(t, err, "another key")
	_, err = CheckWrite(v.Auth, "db", k.KEK.Certificate)
	require.Error(t, err, "another variable")
	for _, n := range []int{0, maxRevoked + 1} {
		_, err := k.KEK.Revoke(make([]authenticode.Hash, n), time.Unix(0, 0))
		require.ErrorContains(t, err, "at least one, and at most 64")
	}
}
