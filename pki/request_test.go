package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leafOf is a node's leaf by the name of its row.
func leafOf(t *testing.T, s Share, name string) Leaf {
	t.Helper()
	for _, l := range s.Leaves {
		if l.Row.Name == name {
			return l
		}
	}
	t.Fatalf("no leaf %s", name)
	return Leaf{}
}

func requestPEM(t *testing.T, template *x509.CertificateRequest, key any) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: der}))
}

func TestACertificateForAKeyThatIsElsewhere(t *testing.T) {
	tree, c, nodes := made(t)
	l := leafOf(t, shares(t, c, nodes)["edge-01"], "mqtt-server")
	mqtt := tree.Authorities["mqtt"].Current
	by, err := NewIssuer("mqtt", mqtt.Certificate, mqtt.Key, begin)
	require.NoError(t, err)
	key, request, err := Request(l, rand.Reader)
	require.NoError(t, err)
	text, err := by.Certify(l, request, options(begin))
	require.NoError(t, err)
	require.Equal(t, Good, l.Examine(Certificate{text, key}, mqtt.Certificate, begin).Worth)
	require.NotContains(t, text, "PRIVATE")
	require.NotContains(t, request, "PRIVATE")

	// What is asked for besides the key is not looked at.
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	greedy := requestPEM(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "master-01", Organization: []string{"system:masters"}}, DNSNames: []string{"kubernetes"}}, own)
	text, err = by.Certify(l, greedy, options(begin))
	require.NoError(t, err)
	chain, err := splitCertificates(text)
	require.NoError(t, err)
	require.Empty(t, differs(certificate(t, chain[0]), l))
	require.True(t, samePublic(own.Public(), certificate(t, chain[0]).PublicKey))
}

func TestWhatIsNoRequest(t *testing.T) {
	tree, c, nodes := made(t)
	s := shares(t, c, nodes)["edge-01"]
	l := leafOf(t, s, "mqtt-server")
	mqtt := tree.Authorities["mqtt"].Current
	by, err := NewIssuer("mqtt", mqtt.Certificate, mqtt.Key, begin)
	require.NoError(t, err)
	_, request, err := Request(l, rand.Reader)
	require.NoError(t, err)
	block, _ := pem.Decode([]byte(request))
	flipped := bytes.Clone(block.Bytes)
	flipped[len(flipped)-3] ^= 1
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":        {"", "not one certificate request"},
		"a certificate":  {mqtt.Certificate, "not one certificate request"},
		"two":            {request + request, "not one certificate request"},
		"cut":            {string(pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: block.Bytes[:40]})), "cannot be read"},
		"forged":         {string(pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: flipped})), "not signed by its own key"},
		"another curve":  {requestPEM(t, &x509.CertificateRequest{}, large), "not of the kind"},
		"another kind":   {requestPEM(t, &x509.CertificateRequest{}, other), "not of the kind"},
		"something more": {request + strings.Repeat("x", 10), "not one certificate request"},
	} {
		_, err := by.Certify(l, tt.text, options(begin))
		require.ErrorContains(t, err, tt.want, name)
	}
	_, err = by.Certify(leafOf(t, s, "agent"), request, options(begin))
	require.ErrorContains(t, err, "internal error", "another authority's leaf")
}

// FuzzRequest: whatever is sent, nothing is signed but a P-256 key whose holder has signed the request.
func FuzzRequest(f *testing.F) {
	_, request, err := Request(Leaf{CommonName: "edge-01"}, rand.Reader)
	require.NoError(f, err)
	f.Add(request)
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := requested(text)
		if err != nil {
			return
		}
		public, ok := key.(*ecdsa.PublicKey)
		require.True(t, ok)
		require.Equal(t, elliptic.P256(), public.Curve)
	})
}

func TestTheRevisionGoesUpWithEachChangeOfThePublicHalf(t *testing.T) {
	tree, c, nodes := made(t)
	last := tree.Public()
	require.NotZero(t, last.Revision)
	update(t, tree, c, nodes, begin)
	require.Equal(t, last, tree.Public(), "nothing was due")
	for _, step := range []func() error{
		func() error { return tree.Introduce("mqtt", c, options(begin)) },
		func() error { return tree.Switch("mqtt") },
		func() error { return tree.Finish("mqtt", c, nil) },
		func() error { update(t, tree, c, nodes, begin.Add(AuthorityLife-20*day)); return nil },
	} {
		require.NoError(t, step())
		now := tree.Public()
		require.Greater(t, now.Revision, last.Revision)
		require.NotEqual(t, now.Trust(), last.Trust())
		last = now
	}

	data, err := tree.BundleFor(c, node(t, nodes, "edge-01"), begin)
	require.NoError(t, err)
	b, err := open(t, last, c, "edge-01", data)
	require.NoError(t, err)
	require.Equal(t, last.Revision, b.Revision)
	require.Equal(t, last.Trust(), b.Trust)
	require.Equal(t, last.Revision, tree.Issued["edge-01"].Revision)
}
