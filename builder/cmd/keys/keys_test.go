package keys

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/revocation"
	"spore/builder/secureboot"
	"spore/pki/seal"
	"spore/pki/siglist"
)

// bench runs the command in a folder of its own.
type bench struct {
	t   *testing.T
	dir string
	// starts is what the nodes say.
	starts func() ([]revocation.Answer, error)
}

const phrase = "correct horse battery"

func (b bench) run(args ...string) (code int, out string) {
	b.t.Helper()
	world := outside{
		starts: func(_ *cobra.Command, _ reach.Flags, _ string) ([]revocation.Answer, error) { return b.starts() },
		now:    func() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }, random: rand.Reader, workFactor: 10,
		ask: func(_ string, twice bool) (string, error) {
			if !twice {
				return "", errors.New("a new passphrase is asked for twice")
			}
			return phrase, nil
		},
	}
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(command(world))
	var buf bytes.Buffer
	root.SetOut(&buf)
	root.SetErr(&buf)
	root.SetArgs(append([]string{"keys"}, args...))
	code = exit.Run(context.Background(), root)
	return code, buf.String()
}

func (b bench) at(name string) string { return filepath.Join(b.dir, name) }

func (b bench) file(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(b.at(name))
	require.NoError(b.t, err)
	return data
}

func TestKeysAreMadeAndKeptFromOthers(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	for name, way := range map[string]struct {
		args   []string
		suffix string
		open   func([]byte) ([]byte, error)
	}{
		"passphrase": {nil, ".age", func(d []byte) ([]byte, error) { return seal.OpenPassphrase(d, phrase, 1<<16) }},
		"recipient": {[]string{"--recipient", id.Recipient().String()}, ".age", func(d []byte) ([]byte, error) {
			return seal.OpenIdentities(d, []byte(id.String()), 1<<16)
		}},
		"plain": {[]string{"--plain"}, "", func(d []byte) ([]byte, error) { return d, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bench{t: t, dir: t.TempDir()}
			code, out := b.run(append([]string{"init", b.at("k"), "--name", "Plant"}, way.args...)...)
			require.Equal(t, exit.OK, code, out)
			require.Contains(t, out, "Microsoft's certificates are NOT included")
			require.Contains(t, out, "option ROM")
			require.Contains(t, out, "k/db.key"+way.suffix)
			for _, v := range []string{"PK", "KEK", "db"} {
				sealed := b.file("k/" + v + ".key" + way.suffix)
				require.Equal(t, way.suffix == "", bytes.Contains(sealed, []byte("PRIVATE KEY")))
				key, err := way.open(sealed)
				require.NoError(t, err)
				s, err := secureboot.NewSigner(key, b.file("k/"+v+".crt"))
				require.NoError(t, err)
				require.Equal(t, 2048, s.Key.N.BitLen())
				entries, err := siglist.Certificates(b.file("k/" + v + ".esl"))
				require.NoError(t, err)
				require.True(t, entries[0].Certificate.Equal(s.Certificate))
			}
			require.Contains(t, string(b.file("k/pcr.pub")), "BEGIN PUBLIC KEY")
			_, err := way.open(b.file("k/pcr.key" + way.suffix))
			require.NoError(t, err)
			require.NotEmpty(t, b.file("k/noPK.auth"))
			st, err := os.Stat(b.at("k"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), st.Mode().Perm())

			code, out = b.run("show", b.at("k"))
			require.Equal(t, exit.OK, code)
			require.Contains(t, out, "Plant Secure Boot Platform Key")
			require.Contains(t, out, "2046-11-01")
			code, out = b.run("init", b.at("k"), "--plain")
			require.Equal(t, exit.Failed, code)
			require.Contains(t, out, "never overwritten")
		})
	}
}

func TestMicrosoftsAreIncludedOnlyWhereAskedFor(t *testing.T) {
	b := bench{t: t, dir: t.TempDir()}
	code, out := b.run("init", b.at("k"), "--plain", "--microsoft", "--bits", "3072")
	require.Equal(t, exit.OK, code, out)
	require.Contains(t, out, "Microsoft Corporation UEFI CA 2011, until 2026-06-27")
	require.NotContains(t, out, "NOT included")
	_, list := b.run("show", b.at("k"))
	require.Contains(t, list, "Microsoft Corporation KEK CA 2011")

	one := b.at("k/PK.crt")
	code, out = b.run("init", b.at("more"), "--plain", "--db-certificate", one, "--kek-certificate", one)
	require.Equal(t, exit.OK, code, out)
	entries, err := siglist.Certificates(b.file("more/db.esl"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, entries[0].Owner, entries[1].Owner)
	kek, err := siglist.Certificates(b.file("more/KEK.esl"))
	require.NoError(t, err)
	require.Len(t, kek, 2)
}

func TestWhatInitRefuses(t *testing.T) {
	b := bench{t: t, dir: t.TempDir()}
	require.NoError(t, os.WriteFile(b.at("bad"), []byte("x"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"two ways at once":       {[]string{"--plain", "--recipient", "age1x"}, exit.Misuse, "exclude each other"},
		"an odd size":            {[]string{"--plain", "--bits", "1024"}, exit.Misuse, "use 2048 or 3072"},
		"no recipient":           {[]string{"--recipient", "nobody"}, exit.Misuse, "is not an age recipient"},
		"a short passphrase":     {[]string{"--passphrase-file", b.at("bad")}, exit.Failed, "take at least 12"},
		"no flash image":         {[]string{"--plain", "--microsoft=" + b.at("none")}, exit.Failed, "Debian's package ovmf has them"},
		"another file":           {[]string{"--plain", "--microsoft=" + b.at("bad")}, exit.Failed, "not a variable store"},
		"a bad certificate":      {[]string{"--plain", "--db-certificate", b.at("bad")}, exit.Failed, "read the certificate"},
		"a folder that is not":   {[]string{"--plain", b.at("none/k")}, exit.Failed, "make the folder"},
		"two folders":            {[]string{"a", "b"}, exit.Misuse, ""},
		"an unknown certificate": {[]string{"--plain", "--kek-certificate", b.at("none")}, exit.Failed, "no such file"},
	} {
		args := c.args
		if name != "a folder that is not" && name != "two folders" {
			args = append(args, b.at("k"))
		}
		code, out := b.run(append([]string{"init"}, args...)...)
		require.Equal(t, c.code, code, "%s: %s", name, out)
		require.Contains(t, out, c.want, name)
	}
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "what fails leaves nothing behind")
	code, _ := b.run("show", b.at("none"))
	require.Equal(t, exit.Failed, code)
}
