package vault

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/pki"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func tree(t *testing.T) *pki.Tree {
	config, report := cluster.Check(os.DirFS("../../cluster/testdata/six-nodes"), cluster.Options{})
	require.NoError(t, report.Err())
	c, nodes := cluster.Facts(config)
	out := pki.New(&c)
	_, err := out.Update(&c, nodes, pki.Options{Now: begin, Random: rand.NewChaCha8([32]byte{9})})
	require.NoError(t, err)
	return out
}

func keys(passphrase string) Keys {
	return Keys{WorkFactor: 10, Passphrase: func(bool) (string, error) { return passphrase, nil }}
}

const phrase = "correct horse battery"

func created(t *testing.T, s Settings, k Keys) (string, *pki.Tree) {
	dir := filepath.Join(t.TempDir(), "configs.pki")
	content := tree(t)
	v, err := Create(dir, s, content, k)
	require.NoError(t, err)
	require.NoError(t, v.Save())
	require.NoError(t, v.Close())
	return dir, content
}

func TestAFolderIsReadAsItWasWritten(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	identities := Keys{Identities: func() ([]byte, error) { return []byte(id.String()), nil }}
	for name, way := range map[string]struct {
		settings Settings
		keys     Keys
	}{
		"passphrase": {Settings{Keep: KeepPassphrase}, keys(phrase)},
		"recipients": {Settings{Keep: KeepRecipients, Recipients: []string{id.Recipient().String()}}, identities},
		"plain":      {Settings{Keep: KeepPlain}, Keys{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, content := created(t, way.settings, way.keys)
			v, err := Open(dir, way.keys)
			require.NoError(t, err)
			defer v.Close()
			require.Equal(t, content, v.Tree)
			require.Equal(t, way.settings, v.Settings)
			p, err := ReadPublic(dir)
			require.NoError(t, err, "the public half needs no key")
			require.Equal(t, content.Public(), p)
			private(t, dir, name == "plain")
		})
	}
}

// private checks modes, and that no secret is readable.
func private(t *testing.T, dir string, plain bool) {
	st, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		if !plain {
			require.NotContains(t, string(data), "PRIVATE KEY", e.Name())
		}
	}
}

func TestAWrongPassphraseIsRefused(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPassphrase}, keys(phrase))
	_, err := Open(dir, keys("something else"))
	require.ErrorContains(t, err, "the passphrase or identity does not open it")
	_, err = Create(filepath.Join(t.TempDir(), "x"), Settings{Keep: KeepPassphrase}, tree(t), keys("short"))
	require.ErrorContains(t, err, "take at least 12")
	v, err := Open(dir, keys(phrase))
	require.NoError(t, err, "a refusal leaves no lock behind")
	require.NoError(t, v.Close())
}

func TestKeysAreNeverOverwritten(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPlain}, Keys{})
	_, err := Create(dir, Settings{Keep: KeepPlain}, tree(t), Keys{})
	require.ErrorContains(t, err, "keys are never overwritten")
}

func TestTwoCannotHaveAFolderOpen(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPlain}, Keys{})
	v, err := Open(dir, Keys{})
	require.NoError(t, err)
	_, err = Open(dir, Keys{})
	require.ErrorContains(t, err, "is in use by another spore")
	time.AfterFunc(100*time.Millisecond, func() { _ = v.Close() })
	v, err = Open(dir, Keys{})
	require.NoError(t, err, "one that is done in a moment is waited for")
	require.NoError(t, v.Close())
}

// A cut between the two writes leaves a public half of before; whoever opens the folder next mends it.
func TestAPublicHalfThatIsNotTheTreesIsMended(t *testing.T) {
	dir, content := created(t, Settings{Keep: KeepPlain}, Keys{})
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, PublicFile), []byte("{}"), 0o600) },
		func() error { return os.Remove(filepath.Join(dir, PublicFile)) },
	} {
		require.NoError(t, spoil())
		_, err := ReadPublic(dir)
		require.Error(t, err)
		v, err := Open(dir, Keys{})
		require.NoError(t, err)
		mended, err := v.MendPublic()
		require.NoError(t, err)
		require.True(t, mended)
		mended, err = v.MendPublic()
		require.NoError(t, err)
		require.False(t, mended)
		require.NoError(t, v.Close())
		p, err := ReadPublic(dir)
		require.NoError(t, err)
		require.Equal(t, content.Public(), p)
	}
}

func TestAWriteThatFailsLeavesTheOldFile(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPassphrase}, keys(phrase))
	v, err := Open(dir, keys(phrase))
	require.NoError(t, err)
	defer v.Close()
	before, err := os.ReadFile(filepath.Join(dir, SealedFile))
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir, dir+"-gone"))
	require.Error(t, v.Save())
	require.NoError(t, os.Rename(dir+"-gone", dir))
	after, err := os.ReadFile(filepath.Join(dir, SealedFile))
	require.NoError(t, err)
	require.Equal(t, before, after)
	left, err := filepath.Glob(filepath.Join(dir, ".*-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhatIsNoTreeIsRefusedWithoutQuotingIt(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPlain}, Keys{})
	for _, bad := range []string{"", "hunter2", "[]", `{"version":1,"hunter2":1}`, `{"version":1}`, `{"version":1,"cluster":"x","authorities":{"a":null},"leaves":{},"secrets":{},"issued":{}}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, PlainFile), []byte(bad), 0o600))
		_, err := Open(dir, Keys{})
		require.ErrorContains(t, err, "it contains no ", bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, PlainFile), []byte(`{"version":2}`), 0o600))
	_, err := Open(dir, Keys{})
	require.ErrorContains(t, err, "it has version 2, and this program reads 1")
}

func TestSettingsThatAreWrongAreRefused(t *testing.T) {
	dir, _ := created(t, Settings{Keep: KeepPlain}, Keys{})
	for bad, want := range map[string]string{
		"keep: open\n":                             "write passphrase, recipients or plain",
		"keep: recipients\n":                       "there are 0 recipients",
		"keep: plain\nrecipients: [age1x]\n":       "recipients are for `keep: recipients`",
		"keep: plain\nroot: {key: a}\n":            "root has no certificate",
		"keep: plain\nrots: {}\n":                  "field rots not found",
		"keep: recipients\nrecipients: [nobody]\n": "is not an age recipient",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, SettingsFile), []byte(bad), 0o600))
		_, err := Open(dir, Keys{})
		require.ErrorContains(t, err, want)
	}
	_, err := Open(t.TempDir(), Keys{})
	require.ErrorIs(t, err, ErrNone)
	require.ErrorContains(t, err, "spore pki init")
}

// openssl is a second opinion on the keys.
func TestAPlainTreesKeysAreKeysToOpenssl(t *testing.T) {
	_, content := created(t, Settings{Keep: KeepPlain}, Keys{})
	program, err := exec.LookPath("openssl")
	require.NoError(t, err, "run make deps")
	for name, a := range content.Authorities {
		file := filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(file, []byte(a.Current.Key), 0o600))
		out, err := exec.Command(program, "pkey", "-in", file, "-noout", "-check").CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

func FuzzDecodeTree(f *testing.F) {
	f.Add([]byte(`{"version":1,"cluster":"x","name":"y","serial":0,"authorities":{},"leaves":{},"secrets":{},"issued":{}}`))
	f.Add([]byte(`{"version":1,"cluster":"x","authorities":{"mqtt":{"current":{"number":1}}},"leaves":{"a/b":{}},"secrets":{"a":{}},"issued":{"n":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeTree(data)
		if err == nil {
			require.True(t, got.Whole())
			_ = got.Public()
		}
	})
}
