//go:build integration

package quote

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"github.com/stretchr/testify/require"

	"spore/pki/attest"
)

// emulated is a TPM of swtpm, with a seed of its own.
func emulated(t *testing.T) transport.TPM {
	t.Helper()
	// The name of a socket has at most 107 characters (unix(7)), and that of the test is in t.TempDir.
	dir, err := os.MkdirTemp("", "tpm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool { return linuxudstpmReady(socket) }, 10*time.Second, 10*time.Millisecond)
	tpm, err := linuxudstpm.Open(socket)
	require.NoError(t, err)
	return tpm
}

func linuxudstpmReady(socket string) bool {
	tpm, err := linuxudstpm.Open(socket)
	if err != nil {
		return false
	}
	_, err = tpm2.GetRandom{BytesRequested: 8}.Execute(tpm)
	return err == nil
}

func measure(t *testing.T, tpm transport.TPM, register uint, data []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(data)
	_, err := tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(register), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: sum[:]}}},
	}.Execute(tpm)
	require.NoError(t, err)
	return sum[:]
}

const subject = "aaaa-bbbb-cccc-dddd-eeee"

// start is what firmware and stub measure.
func start(t *testing.T, tpm transport.TPM, programs ...string) (log []byte) {
	t.Helper()
	events := []event{{4, 5, measure(t, tpm, 4, []byte("Calling EFI Application from Boot Option"))}, {4, 4, measure(t, tpm, 4, make([]byte, 4))}}
	for _, p := range programs {
		events = append(events, event{4, 0x80000003, measure(t, tpm, 4, []byte(p))})
	}
	measure(t, tpm, 11, []byte("sections"))
	return makeLog(events...)
}

func served() attest.Want {
	sections := sha256.Sum256([]byte("sections"))
	return attest.Want{
		Programs: map[[32]byte]string{sha256.Sum256([]byte("uki")): "spore.efi"}, UKI: "spore.efi", Cmdline: "ro",
		Measured: [][32]byte{sha256.Sum256(append(make([]byte, 32), sections[:]...))},
	}
}

func TestATPMProvesWhatWasStartedAndOpensWhatIsForIt(t *testing.T) {
	tpm, nonce := emulated(t), bytes.Repeat([]byte{9}, attest.NonceSize)
	log := start(t, tpm, "uki")
	keys, err := Keys(tpm)
	require.NoError(t, err)
	again, err := Keys(tpm)
	require.NoError(t, err)
	require.Equal(t, keys, again, "its keys are always the same, and nothing is left in it")
	e, err := Quote(tpm, nonce, subject, bytes.NewReader(log), "ro")
	require.NoError(t, err)
	require.NoError(t, attest.Verify(keys, *e, nonce, subject, served()))
	require.ErrorContains(t, attest.Verify(keys, *e, bytes.Repeat([]byte{8}, 32), subject, served()), "another question")
	require.ErrorContains(t, attest.Verify(keys, *e, nonce, "another", served()), "for another machine")

	activate := func(t transport.TPM) func(credential, secret []byte) ([]byte, error) {
		return func(credential, secret []byte) ([]byte, error) { return Activate(t, credential, secret) }
	}
	w, err := attest.Wrap([]byte("a bundle"), keys)
	require.NoError(t, err)
	for range 3 {
		got, err := attest.Unwrap(w, activate(tpm))
		require.NoError(t, err)
		require.Equal(t, "a bundle", string(got))
	}

	t.Run("another TPM does not open it", func(t *testing.T) {
		other := emulated(t)
		otherKeys, err := Keys(other)
		require.NoError(t, err)
		require.NotEqual(t, attest.Fingerprint(keys.EK), attest.Fingerprint(otherKeys.EK))
		_, err = attest.Unwrap(w, activate(other))
		require.ErrorContains(t, err, "this machine's TPM does not open it")

		// Who shows the EK of a good machine beside a quote of a TPM of his own gets a bundle that neither of the two opens.
		borrowed := attest.Keys{EK: keys.EK, AK: otherKeys.AK}
		start(t, other, "uki")
		e, err := Quote(other, nonce, subject, bytes.NewReader(log), "ro")
		require.NoError(t, err)
		require.NoError(t, attest.Verify(borrowed, *e, nonce, subject, served()), "a quote says nothing of the EK")
		b, err := attest.Wrap([]byte("a bundle"), borrowed)
		require.NoError(t, err)
		for _, t2 := range []transport.TPM{tpm, other} {
			_, err = attest.Unwrap(b, activate(t2))
			require.ErrorContains(t, err, "this machine's TPM does not open it")
		}
	})
	t.Run("another system that measures the UKI's parts shows", func(t *testing.T) {
		evil := emulated(t)
		log := start(t, evil, "evil loader")
		keys, err := Keys(evil)
		require.NoError(t, err)
		e, err := Quote(evil, nonce, subject, bytes.NewReader(log), "ro")
		require.NoError(t, err)
		require.ErrorContains(t, attest.Verify(keys, *e, nonce, subject, served()), "a program that is not served here")
		// The log that it would have had.
		uki := sha256.Sum256([]byte("uki"))
		e, err = Quote(evil, nonce, subject, bytes.NewReader(makeLog(event{4, 0x80000003, uki[:]})), "ro")
		require.NoError(t, err)
		require.ErrorContains(t, attest.Verify(keys, *e, nonce, subject, served()), "does not match its PCR 4")
	})
	t.Run("what was measured after the start shows", func(t *testing.T) {
		measure(t, tpm, 11, []byte("a phase"))
		e, err := Quote(tpm, nonce, subject, bytes.NewReader(log), "ro")
		require.NoError(t, err)
		require.ErrorContains(t, attest.Verify(keys, *e, nonce, subject, served()), "the machine's PCR 11 is")
	})
}
