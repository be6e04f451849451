//go:build integration

package pcr

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/uki"
)

// tools runs tpm2-tools with an emulated TPM, in a folder.
type tools struct {
	t    *testing.T
	dir  string
	port int
}

// newTools starts a TPM on two ports of the loopback that follow each other, as the tools want it.
func newTools(t *testing.T) tools {
	t.Helper()
	k := tools{t, t.TempDir(), 0}
	for k.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		if next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1)); err == nil {
			next.Close()
			k.port = port
		}
		l.Close()
	}
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+k.dir, "--server", fmt.Sprintf("type=tcp,port=%d", k.port),
		"--ctrl", fmt.Sprintf("type=tcp,port=%d", k.port+1), "--flags", "not-need-init,startup-clear")
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", k.port+1))
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
	return k
}

func (k tools) run(name string, args ...string) (string, error) {
	k.t.Helper()
	cmd := exec.Command("tpm2_"+name, args...)
	cmd.Dir, cmd.Env = k.dir, append(os.Environ(), fmt.Sprintf("TPM2TOOLS_TCTI=swtpm:host=127.0.0.1,port=%d", k.port))
	out, err := cmd.CombinedOutput()
	require.NotErrorIs(k.t, err, exec.ErrNotFound, "run make deps")
	return string(out), err
}

func (k tools) ok(name string, args ...string) string {
	k.t.Helper()
	out, err := k.run(name, args...)
	require.NoError(k.t, err, out)
	return out
}

func (k tools) extend(data []byte) {
	k.t.Helper()
	sum := sha256.Sum256(data)
	k.ok("pcrextend", fmt.Sprintf("%d:sha256=%s", Register, hex.EncodeToString(sum[:])))
}

// authorized tells whether the TPM takes the signature for the value that its register has now.
func (k tools) authorized() bool {
	k.t.Helper()
	k.ok("startauthsession", "-S", "session", "--policy-session")
	defer k.ok("flushcontext", "session")
	k.ok("policypcr", "-S", "session", "-l", fmt.Sprintf("sha256:%d", Register))
	_, err := k.run("policyauthorize", "-S", "session", "-i", "policy", "-n", "name", "-t", "ticket")
	return err == nil
}

// A TPM is the judge of what is for TPMs: it measures as the stub does, holds what was predicted, and takes the signature
// for that value and no other.
func TestATPMHoldsWhatWasPredictedAndTakesItsSignature(t *testing.T) {
	image, err := Build(options(), signer(t))
	require.NoError(t, err)
	v, err := Predict(bytes.NewReader(image))
	require.NoError(t, err)
	list, err := ReadSignatures(bytes.NewReader(image))
	require.NoError(t, err)
	key, err := signer(t).PublicKey()
	require.NoError(t, err)
	policy, err := hex.DecodeString(list[0].Policy)
	require.NoError(t, err)

	k := newTools(t)
	for name, data := range map[string][]byte{"policy": policy, "signature": list[0].Signature, "key.pem": key} {
		require.NoError(t, os.WriteFile(filepath.Join(k.dir, name), data, 0o600))
	}
	info, err := uki.Inspect(bytes.NewReader(image))
	require.NoError(t, err)
	for _, name := range measured {
		for _, s := range info.Sections {
			if s.Name == name {
				memory := make([]byte, s.VirtualSize)
				copy(memory, image[s.Offset:s.Offset+min(s.RawSize, s.VirtualSize)])
				k.extend(append([]byte(name), 0))
				k.extend(memory)
			}
		}
	}
	require.Contains(t, strings.ToLower(k.ok("pcrread", fmt.Sprintf("sha256:%d", Register))), v.String())
	k.ok("loadexternal", "-C", "o", "-G", "rsa", "-u", "key.pem", "-c", "key", "-n", "name")
	k.ok("verifysignature", "-c", "key", "-g", "sha256", "-f", "rsassa", "-m", "policy", "-s", "signature", "-t", "ticket")
	require.True(t, k.authorized())
	k.extend([]byte("another phase of the boot"))
	require.False(t, k.authorized())
}
