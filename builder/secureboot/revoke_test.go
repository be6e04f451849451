package secureboot

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestARevocationIsSignedAndHoldsItsHashes(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	programs := []Hash{{1}, {2, 31: 3}}
	v, err := k.KEK.Revoke(programs, time.Unix(1_800_000_000, 0))
	require.NoError(t, err)
	list, err := CheckWrite(v.Auth, "dbx", k.KEK.Certificate)
	require.NoError(t, err)
	require.Equal(t, v.List, list)
	got, err := ParseHashes(list)
	require.NoError(t, err)
	require.Equal(t, programs, got)
	entries, err := ParseList(list)
	require.NoError(t, err)
	require.Empty(t, entries, "they are no certificates")
	_, err = CheckWrite(v.Auth, "dbx", k.DB.Certificate)
	require.Error(t, err, "another key")
	_, err = CheckWrite(v.Auth, "db", k.KEK.Certificate)
	require.Error(t, err, "another variable")
	for _, n := range []int{0, maxRevoked + 1} {
		_, err := k.KEK.Revoke(make([]Hash, n), time.Unix(0, 0))
		require.ErrorContains(t, err, "at least one, and at most 64")
	}
}

func TestListsOfHashesThatAreRefused(t *testing.T) {
	good := EncodeHashes([]Hash{{1}})
	wide := bytes.Clone(good)
	wide[24] = 24 // the size of an entry
	short := append(bytes.Clone(good[:listHeader]), good[listHeader+8:]...)
	short[16], short[24] = byte(len(short)), byte(len(short)-listHeader)
	for name, data := range map[string][]byte{"cut short": good[:len(good)-1], "a header cut short": good[:9], "entries of another size": wide, "hashes of another length": short} {
		_, err := ParseHashes(data)
		require.ErrorContains(t, err, "read signature lists", name)
	}
}

func FuzzParseHashes(f *testing.F) {
	f.Add(EncodeHashes([]Hash{{1}, {2}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		hashes, err := ParseHashes(data)
		if err != nil || len(hashes) == 0 {
			return
		}
		again, err := ParseHashes(EncodeHashes(hashes))
		require.NoError(t, err)
		require.Equal(t, hashes, again)
	})
}
