package pki

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	wire "spore/wire/update"
)

func TestAnUpdateIsSignedByTheKeyOfBundlesAndCountsWithThem(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	key, err := encodeKey(private)
	require.NoError(t, err)
	tree := &Tree{Cluster: "c", Serial: 4, Authorities: map[string]*Authority{SigningName: {Current: Generation{Key: key}}}}
	hash := strings.Repeat("a", 64)
	blob := wire.Blob{Size: 1, SHA256: hash}
	h := wire.Head{
		Nodes: []string{"a"}, RootHash: hash, ClusterHash: hash, Part: blob, UKI: blob, Boot: blob,
		Root: wire.Root{Size: 4096, Salt: hash, UUID: hash[:32], Index: blob}, Until: time.Unix(1_900_000_000, 5),
	}
	data, h, err := tree.SignUpdate(h, time.Unix(1_800_000_000, 5))
	require.NoError(t, err)
	require.EqualValues(t, 5, h.Serial)
	require.EqualValues(t, 5, tree.Serial)
	got, err := wire.Read(bufio.NewReader(bytes.NewReader(data)), []ed25519.PublicKey{private.Public().(ed25519.PublicKey)})
	require.NoError(t, err)
	require.Equal(t, "c", got.Cluster)
	require.Equal(t, time.Unix(1_800_000_000, 0).UTC(), got.Issued)
	require.Equal(t, time.Unix(1_900_000_000, 0).UTC(), got.Until)
	require.Equal(t, h.Root, got.Root)

	_, _, err = tree.SignUpdate(wire.Head{}, time.Unix(0, 0))
	require.ErrorIs(t, err, wire.ErrForm)
	require.EqualValues(t, 5, tree.Serial, "what was not signed is not counted")
	delete(tree.Authorities, SigningName)
	_, _, err = tree.SignUpdate(h, time.Unix(0, 0))
	require.ErrorContains(t, err, "make it with `spore pki renew`")
}
