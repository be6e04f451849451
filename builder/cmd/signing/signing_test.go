package signing

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/secureboot"
	"spore/pki/seal"
)

const phrase = "correct horse battery"

var testKeys = sync.OnceValues(func() (*secureboot.Keys, error) {
	return secureboot.Generate(rand.Reader, secureboot.Options{Name: "plant", Now: time.Unix(1_800_000_000, 0)})
})

// folder is one as `spore keys init` makes it, with the keys of one signer as key, sealed.age and identity.age.
func folder(t *testing.T, identity *age.X25519Identity) func(name string) string {
	t.Helper()
	k, err := testKeys()
	require.NoError(t, err)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, data []byte) { require.NoError(t, os.WriteFile(at(name), data, 0o600)) }
	text, err := k.DB.KeyPEM()
	require.NoError(t, err)
	sealed, err := seal.WithPassphrase(text, phrase, 10)
	require.NoError(t, err)
	forID, err := seal.ForRecipients(text, []string{identity.Recipient().String()})
	require.NoError(t, err)
	write("db.key", text)
	write("db.key.age", sealed)
	write("id.key.age", forID)
	write("id", []byte(identity.String()))
	write("phrase", []byte(phrase+"\n"))
	write("wrong", []byte("another one\n"))
	write("db.crt", k.DB.CertificatePEM())
	write("KEK.crt", k.KEK.CertificatePEM())
	for _, v := range k.Variables {
		write(v.File+".auth", v.Auth)
	}
	return at
}

// load runs the flags as a command does.
func load(t *testing.T, ask func(string, bool) (string, error), args ...string) (*Flags, error) {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{}
	f.Register(cmd)
	f.ask = ask
	require.NoError(t, cmd.ParseFlags(args))
	k, err := f.Load()
	if err == nil && f.Key != "" {
		want, kerr := testKeys()
		require.NoError(t, kerr)
		require.True(t, k.Boot.Key.Equal(want.DB.Key))
	}
	if err == nil {
		require.Equal(t, f.Enroll != "", k.Enroll != nil)
		require.Equal(t, f.PCRKey != "", k.PCR != nil)
	}
	return &f, err
}

func TestKeysAreReadInEachWayTheyAreKept(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	at := folder(t, id)
	asked := 0
	ask := func(string, bool) (string, error) { asked++; return phrase, nil }
	never := func(string, bool) (string, error) { return "", errors.New("nobody is to be asked") }
	for _, c := range []struct {
		ask  func(string, bool) (string, error)
		args []string
	}{
		{never, nil},
		{never, []string{"--secure-boot-key", at("db.key")}},
		{never, []string{"--secure-boot-key", at("db.key.age"), "--key-passphrase-file", at("phrase")}},
		{never, []string{"--secure-boot-key", at("id.key.age"), "--key-identity", at("id")}},
		{ask, []string{"--secure-boot-key", at("db.key.age"), "--pcr-key", at("db.key.age")}},
		{never, []string{"--secure-boot-key", at("db.key"), "--enroll", "force"}},
	} {
		if len(c.args) > 0 {
			c.args = append(c.args, "--secure-boot-cert", at("db.crt"))
		}
		_, err := load(t, c.ask, c.args...)
		require.NoError(t, err, "%v", c.args)
	}
	require.Equal(t, 1, asked, "two keys of one folder have one passphrase")
}

func TestFlagsThatAreRefused(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	at := folder(t, id)
	never := func(string, bool) (string, error) { return "", errors.New("nobody is to be asked") }
	both := []string{"--secure-boot-key", at("db.key"), "--secure-boot-cert", at("db.crt")}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a key alone":             {both[:2], exit.Misuse, "go together"},
		"a certificate alone":     {both[2:], exit.Misuse, "go together"},
		"another's certificate":   {[]string{"--secure-boot-key", at("db.key"), "--secure-boot-cert", at("KEK.crt")}, exit.Failed, "is not the certificate of"},
		"a wrong passphrase":      {[]string{"--secure-boot-key", at("db.key.age"), "--secure-boot-cert", at("db.crt"), "--key-passphrase-file", at("wrong")}, exit.Failed, "does not open it"},
		"a wrong identity":        {[]string{"--secure-boot-key", at("db.key.age"), "--secure-boot-cert", at("db.crt"), "--key-identity", at("id")}, exit.Failed, "open it"},
		"PCR 11 alone":            {[]string{"--pcr-key", at("db.key")}, exit.Misuse, "--pcr-key without --secure-boot-key"},
		"no key":                  {append(both, "--pcr-key", at("none")), exit.Failed, "no such file"},
		"enrolment without a key": {[]string{"--enroll", "force"}, exit.Misuse, "refuse this image"},
		"an unknown mode":         {append(both, "--enroll", "always"), exit.Misuse, "use off, manual, if-safe, force"},
		"keys that are not there": {append(both, "--enroll", "force", "--enroll-keys", at("none")), exit.Failed, "spore keys init"},
	} {
		_, err := load(t, never, c.args...)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.code, exit.Code(err), name)
	}
	// A db without the image's certificate would lock the image out.
	k, err := secureboot.Generate(rand.Reader, secureboot.Options{Name: "other", Now: time.Unix(1_800_000_000, 0)})
	require.NoError(t, err)
	for _, v := range k.Variables {
		require.NoError(t, os.WriteFile(at(v.File+".auth"), v.Auth, 0o600))
	}
	_, err = load(t, never, append(both, "--enroll", "force")...)
	require.ErrorContains(t, err, "would refuse this image")
}
