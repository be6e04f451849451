package access

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"spore/cluster/facts"
	tree "spore/pki"
)

func TestAFileForABrowserHasTheCertificateItsKeyAndItsChain(t *testing.T) {
	c := &facts.Cluster{ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Name: "plant"}
	keys := tree.New(c)
	o := tree.Options{Now: time.Now(), Random: rand.Reader}
	_, err := keys.Update(c, nil, o)
	require.NoError(t, err)
	made, err := keys.Access(c, tree.NodeReader, "anna", time.Hour, o)
	require.NoError(t, err)
	data, password, err := forBrowser(made, rand.Reader)
	require.NoError(t, err)
	require.Regexp(t, `^[a-z2-7]{5}-[a-z2-7]{5}-[a-z2-7]{5}-[a-z2-7]{5}$`, password)
	key, leaf, chain, err := pkcs12.DecodeChain(data, password)
	require.NoError(t, err)
	require.Equal(t, "anna", leaf.Subject.CommonName)
	require.True(t, key.(*ecdsa.PrivateKey).PublicKey.Equal(leaf.PublicKey))
	require.NotEmpty(t, chain)
	require.NoError(t, leaf.CheckSignatureFrom(chain[0]), "the authority of agents")
	_, _, _, err = pkcs12.DecodeChain(data, "another")
	require.Error(t, err)
	_, another, err := forBrowser(made, rand.Reader)
	require.NoError(t, err)
	require.NotEqual(t, password, another)
	_, _, err = forBrowser(made, bytes.NewReader(nil))
	require.ErrorContains(t, err, "make a password")

	openssl, err := exec.LookPath("openssl")
	require.NoError(t, err, "openssl is of make deps")
	file := filepath.Join(t.TempDir(), "anna.p12")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	text, err := exec.Command(openssl, "pkcs12", "-in", file, "-nodes", "-passin", "pass:"+password).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Regexp(t, `CN ?= ?anna`, string(text))
	require.Contains(t, string(text), "PRIVATE KEY")
}

func TestAFileForABrowserThatWouldBeOfNoUseIsNotMade(t *testing.T) {
	for want, args := range map[string][]string{
		"same file":         {"--p12", "anna", "-o", "./anna"},
		"leave --node out":  {"--p12", "anna", "--node", "edge-01"},
		"choose the role r": {"--p12", "anna", "-o", "a", "--role", "scraper"},
	} {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, t.TempDir()))
		require.ErrorContains(t, cmd.Execute(), want)
	}
}
