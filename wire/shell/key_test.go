package shell

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestAKeyIsReadAsItWasWritten(t *testing.T) {
	key, err := NewKey(rand.Reader)
	require.NoError(t, err)
	data, err := EncodePrivate(key)
	require.NoError(t, err)
	again, err := ParsePrivate(data)
	require.NoError(t, err)
	require.Equal(t, key, again)
	text := EncodeKey(key.Public().(ed25519.PublicKey))
	public, err := ParseKey(text)
	require.NoError(t, err)
	require.Equal(t, key.Public(), public)
	keys, err := ParseKeys([]byte(text + "\n" + text + "\n"))
	require.NoError(t, err)
	require.Len(t, keys, 2)
	_, err = NewKey(iotest.ErrReader(io.ErrUnexpectedEOF))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestKeysThatAreNoneAreRefused(t *testing.T) {
	key, _ := key(1)
	text := EncodeKey(key.Public().(ed25519.PublicKey))
	for _, bad := range []string{"", "x", text[1:], text + "=", text + "\n", " " + text, text[:43] + "\n="} {
		_, err := ParseKey(bad)
		require.Error(t, err, "%q", bad)
	}
	for _, bad := range []string{"", "\n", text + "\n\n", strings.Repeat(text+"\n", MaxKeys+1)} {
		_, err := ParseKeys([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(curve)
	require.NoError(t, err)
	other := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	good, err := EncodePrivate(key)
	require.NoError(t, err)
	for _, bad := range []string{"", "x", other, string(good) + "x", strings.ReplaceAll(string(good), "PRIVATE", "PUBLIC")} {
		_, err := ParsePrivate([]byte(bad))
		require.Error(t, err)
	}
}
