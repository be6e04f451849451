//go:build integration

package secureboot

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/pki/authenticode"
	"spore/pki/siglist"
)

// files lays files into a folder of the test.
func files(t *testing.T, content map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range content {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

func run(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NotErrorIs(t, err, exec.ErrNotFound, "run make deps")
	return string(out), err
}

// sbverify (sbsigntool) is a second opinion on signatures.
func TestSbverifyAcceptsWhatWeSign(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	for _, extra := range []int{0, 8, 5} {
		signed, err := k.DB.SignPE(makeProgram(extra))
		require.NoError(t, err)
		changed := append([]byte(nil), signed...)
		changed[testHeaders+100] ^= 1
		bare, err := Strip(signed)
		require.NoError(t, err)
		dir := files(t, map[string][]byte{
			"good.efi": signed, "changed.efi": changed, "bare.efi": bare,
			"db.crt": k.DB.CertificatePEM(), "other.crt": k.KEK.CertificatePEM(),
		})
		out, err := run(t, dir, "sbverify", "--cert", "db.crt", "good.efi")
		require.NoError(t, err, out)
		require.Contains(t, out, "Signature verification OK")
		for _, args := range [][]string{{"db.crt", "changed.efi"}, {"db.crt", "bare.efi"}, {"other.crt", "good.efi"}} {
			out, err := run(t, dir, "sbverify", "--cert", args[0], args[1])
			require.Error(t, err, "%v: %s", args, out)
		}
	}
}

// sbsign is a second opinion on what we read.
func TestWeAcceptWhatSbsignSigns(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	key, err := k.DB.KeyPEM()
	require.NoError(t, err)
	dir := files(t, map[string][]byte{"in.efi": makeProgram(0), "db.key": key, "db.crt": k.DB.CertificatePEM()})
	out, err := run(t, dir, "sbsign", "--key", "db.key", "--cert", "db.crt", "--output", "out.efi", "in.efi")
	require.NoError(t, err, out)
	signed, err := os.ReadFile(filepath.Join(dir, "out.efi"))
	require.NoError(t, err)
	c, err := authenticode.Certificate(signed)
	require.NoError(t, err)
	require.True(t, c.Equal(k.DB.Certificate))
	ours, err := k.DB.SignPE(signed)
	require.NoError(t, err)
	theirs, err := k.DB.SignPE(makeProgram(0))
	require.NoError(t, err)
	require.Equal(t, theirs, ours, "a foreign signature is replaced")
}

// efitools are a second opinion on variables: the signature lists, byte for byte, and the bytes that a write's signature
// covers. (Their signatures have a time, ours have none.)
func TestEfitoolsMakeTheSameVariables(t *testing.T) {
	k, err := testKeys()
	require.NoError(t, err)
	key, err := k.PK.KeyPEM()
	require.NoError(t, err)
	for _, v := range k.Variables {
		if v.File != "PK" && v.File != "KEK" {
			continue
		}
		entries, err := siglist.Certificates(v.List)
		require.NoError(t, err)
		subject := map[string]*Signer{"PK": k.PK, "KEK": k.KEK}[v.File]
		dir := files(t, map[string][]byte{"in.crt": subject.CertificatePEM(), "PK.key": key, "PK.crt": k.PK.CertificatePEM()})
		out, err := run(t, dir, "cert-to-efi-sig-list", "-g", entries[0].Owner.String(), "in.crt", "out.esl")
		require.NoError(t, err, out)
		theirs, err := os.ReadFile(filepath.Join(dir, "out.esl"))
		require.NoError(t, err)
		require.Equal(t, theirs, v.List)

		out, err = run(t, dir, "sign-efi-sig-list", "-t", "2026-11-01 00:00:00", "-k", "PK.key", "-c", "PK.crt", v.Name, "out.esl", "out.auth")
		require.NoError(t, err, out)
		auth, err := os.ReadFile(filepath.Join(dir, "out.auth"))
		require.NoError(t, err)
		require.Equal(t, auth[16+4:16+24], v.Auth[16+4:16+24])
		require.Equal(t, auth[:16], v.Auth[:16], "the time, as EFI_TIME")
		content, err := CheckWrite(auth, v.Name, k.PK.Certificate)
		require.NoError(t, err, "their signature is right by our reading")
		require.Equal(t, v.List, content)
	}
}
