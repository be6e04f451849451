//go:build integration

package tpm

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/dbx"
	"spore/builder/secureboot"
	"spore/builder/uki/ukitest"
	"spore/pki/authenticode"
)

// What builds revoke is what the agent looks for on its ESP: one hash, signed or not, and one list.
func TestTheAgentKnowsWhatBuildsRevoke(t *testing.T) {
	keys, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(1_800_000_000, 0)})
	require.NoError(t, err)
	program := ukitest.Program(0, ".text")
	signed, err := keys.DB.SignPE(program)
	require.NoError(t, err)
	var hashes []authenticode.Hash
	for _, p := range [][]byte{program, signed} {
		want, err := authenticode.HashOf(bytes.NewReader(p), int64(len(p)))
		require.NoError(t, err)
		hashes = append(hashes, want)
	}
	require.Equal(t, hashes[0], hashes[1], "the signature is not part of it")
	v, err := keys.KEK.Revoke([]authenticode.Hash{hashes[0], {1}}, time.Unix(1_800_000_000, 0))
	require.NoError(t, err)
	w, err := dbx.Parse(v.Auth)
	require.NoError(t, err)
	require.Equal(t, []authenticode.Hash{hashes[0], {1}}, w.Hashes())
	after, err := w.After(nil)
	require.NoError(t, err)
	require.Equal(t, v.List, after)
}
