package keys

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/secureboot"
	"spore/builder/uki/ukitest"
	"spore/pki/authenticode"
	"spore/pki/siglist"
)

func TestImagesAreAddedToTheListOfTheRevoked(t *testing.T) {
	b := bench{t, t.TempDir()}
	code, out := b.run("init", b.at("keys"), "--plain")
	require.Zero(t, code, out)
	for name, sections := range map[string]string{"a.efi": ".text", "b.efi": ".other"} {
		require.NoError(t, os.WriteFile(b.at(name), ukitest.Program(0, sections), 0o600))
	}
	list := func() []authenticode.Hash {
		t.Helper()
		kek, err := secureboot.ParseCertificate(b.file("keys/KEK.crt"))
		require.NoError(t, err)
		content, err := secureboot.CheckWrite(b.file("dbx.auth"), "dbx", kek)
		require.NoError(t, err)
		hashes, err := siglist.Hashes(content)
		require.NoError(t, err)
		return hashes
	}
	code, out = b.run("revoke", b.at("a.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth"))
	require.Zero(t, code, out)
	require.Contains(t, out, "dbx.auth holds 1 images")
	require.Len(t, list(), 1)
	code, out = b.run("revoke", b.at("b.efi"), b.at("a.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth"))
	require.Zero(t, code, out)
	require.Len(t, list(), 2, "what is there stays, and is not there twice")

	before := b.file("dbx.auth")
	code, out = b.run("init", b.at("others"), "--plain")
	require.Zero(t, code, out)
	require.NoError(t, os.WriteFile(b.at("no.efi"), []byte("no program"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":              {[]string{"revoke"}, exit.Misuse, "requires at least 1 arg"},
		"no keys":              {[]string{"revoke", b.at("a.efi"), "--keys", b.at("none"), "-o", b.at("dbx.auth")}, exit.Failed, "no such file"},
		"a list of other keys": {[]string{"revoke", b.at("a.efi"), "--keys", b.at("others"), "-o", b.at("dbx.auth")}, exit.Failed, "was not made with this key"},
		"no image":             {[]string{"revoke", b.at("none.img"), "--keys", b.at("keys"), "-o", b.at("dbx.auth")}, exit.Failed, "no such file"},
		"no program":           {[]string{"revoke", b.at("no.efi"), "--keys", b.at("keys"), "-o", b.at("dbx.auth")}, exit.Failed, "not a PE file"},
	} {
		code, out := b.run(c.args...)
		require.Equal(t, c.code, code, "%s: %s", name, out)
		require.Contains(t, out, c.want, name)
		require.Equal(t, before, b.file("dbx.auth"), name)
	}
}
