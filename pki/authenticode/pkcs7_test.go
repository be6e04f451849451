package authenticode

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// owner makes a key with its certificate.
func owner(t *testing.T) (*rsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return key, c
}

// signature is one of a program whose content is given, with attributes or without.
func signature(t *testing.T, key *rsa.PrivateKey, c *x509.Certificate, content []byte, attributes bool) []byte {
	t.Helper()
	digest, err := valueDigest(content)
	require.NoError(t, err)
	var set []byte
	if attributes {
		set, err = encodeAttributes(oidIndirectData, digest)
		require.NoError(t, err)
		sum := sha256.Sum256(set)
		digest = sum[:]
	}
	inner, err := sign(key, c, contentInfo{oidIndirectData, tagged(0, content)}, digest, set)
	require.NoError(t, err)
	der, err := asn1.Marshal(contentInfo{oidSignedData, tagged(0, inner)})
	require.NoError(t, err)
	return der
}

func TestSignaturesThatOthersReadInAnotherWay(t *testing.T) {
	key, c := owner(t)
	hash := Hash{7}
	content, err := asn1.Marshal(indirectData{
		Data:   peImageAttribute{oidPEImageData, asn1.RawValue{FullBytes: peImageData}},
		Digest: digestInfo{algorithmSHA256, hash[:]},
	})
	require.NoError(t, err)
	require.Empty(t, readSignature(signature(t, key, c, content, true), hash).Problem)
	require.Equal(t, "it has no attributes", readSignature(signature(t, key, c, content, false), hash).Problem)
	two := append(append([]byte(nil), content...), content...)
	require.Contains(t, readSignature(signature(t, key, c, two, true), hash).Problem, "its content is not a signature of a program")
	require.Contains(t, readSignature(signature(t, key, c, content, true), Hash{8}).Problem, "was changed after it was signed")
}

func TestADetachedSignature(t *testing.T) {
	key, c := owner(t)
	_, other := owner(t)
	der, err := SignDetached(key, c, []byte("data"))
	require.NoError(t, err)
	require.NoError(t, CheckDetached(der, c, []byte("data")))
	require.ErrorContains(t, CheckDetached(der, c, []byte("dati")), "was not made with its certificate")
	require.ErrorContains(t, CheckDetached(der, other, []byte("data")), "was not made with its certificate")
	require.ErrorContains(t, CheckDetached(append(der, 0), c, []byte("data")), "no signed data of one signer")
	require.ErrorContains(t, CheckDetached(nil, c, []byte("data")), "no signed data of one signer")
}
