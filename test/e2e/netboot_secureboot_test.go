//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/netboot"
	"spore/builder/vm"
	"spore/pki/attest"
)

// Scenario: PXE under Secure Boot. A machine whose firmware takes our keys alone starts the iPXE of the folder, and
// that the UKI; with the iPXE as Debian has it, it starts nothing.

// signedFolders are the disk image and the folder for network boot of the suite's configuration, signed by keys of
// their own.
func signedFolders(t *testing.T) (out string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "edge")
	require.NoError(t, os.CopyFS(config, os.DirFS(filepath.Join(sourceTree, "examples/edge"))))
	// As in buildSigned: the UKI takes no words from outside.
	if words := suite.accel.KernelArguments; len(words) > 0 {
		f, err := os.OpenFile(filepath.Join(config, "image.yaml"), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = fmt.Fprintf(f, "kernelArguments: [%s]\n", strings.Join(words, ", "))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	out, keys := filepath.Join(dir, "out"), filepath.Join(dir, "keys")
	require.NoError(t, spore("keys", "init", keys, "--plain"))
	require.NoError(t, spore("build", config, "-o", out, "--pki", suite.dir, "--format", "disk,netboot", "--enroll", "if-safe",
		"--secure-boot-key", filepath.Join(keys, "db.key"), "--secure-boot-cert", filepath.Join(keys, "db.crt"), "--pcr-key", filepath.Join(keys, "pcr.key")))
	return out
}

func TestPXEUnderSecureBoot(t *testing.T) {
	t.Parallel()
	out := signedFolders(t)
	c := edge("pxe-keys", bootDisk(copyOf(t, filepath.Join(out, "spore.img"))))
	c.Firmware, c.Dir, c.Reboots = vm.SecureBoot, t.TempDir(), true
	g := boot(t, c)
	g.awaitLine(`Custom Secure Boot keys successfully enrolled`)
	g.running()
	g.off()

	byPXE := func(t *testing.T, name string) *guest {
		w := newWire(t)
		w.serve(out, "full")
		m := vm.Config{Name: name, Firmware: vm.SecureBoot, Vars: c.VarsPath(), Dir: t.TempDir(), TPM: filepath.Join(t.TempDir(), "tpm"), Args: w.card(edgeMAC, true)}
		return w.boot(m)
	}
	t.Run("the signed iPXE starts the signed image", func(t *testing.T) {
		g := byPXE(t, "pxe-signed")
		g.awaitLine(`spore stage1:.*the image comes from the network: the firmware started `)
		s := g.await("the fingerprint of a key that waits for approval", func(s vm.Status) bool { return s.Bundle.Fingerprint != "" })
		require.True(t, startOf(t, s).Firmware.SecureBoot, s.Raw)
		provesWhatItStarted(t, g, out, s.Bundle.Fingerprint)
		g.off()
	})
	t.Run("Debian's iPXE is refused", func(t *testing.T) {
		plain, err := os.ReadFile(filepath.Join(filepath.Dir(suite.image), "netboot", "ipxe", "snponly.efi"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(out, "netboot", "ipxe", "snponly.efi"), plain, 0o644))
		requireRefusal(t, byPXE(t, "pxe-unsigned"), `(?i)BdsDxe: failed to (load|start).*(access denied|security violation)`)
	})
}

// provesWhatItStarted has a machine that waits for approval prove by its TPM what its firmware, iPXE and systemd's stub
// measured, and get its bundle for that.
func provesWhatItStarted(t *testing.T, g *guest, out, fingerprint string) {
	t.Helper()
	path, err := program()
	require.NoError(t, err)
	approve := func(args ...string) (string, error) {
		said, err := exec.Command(path, append([]string{"approve", out}, args...)...).CombinedOutput()
		return string(said), err
	}
	said, err := approve("--json")
	require.NoError(t, err, said)
	var state netboot.State
	require.NoError(t, json.Unmarshal([]byte(said), &state))
	require.Len(t, state.Requests, 1)
	require.NotNil(t, state.Requests[0].Claim.TPM, said)
	tpm := attest.Fingerprint(state.Requests[0].Claim.TPM.EK)

	said, err = approve(fingerprint, "--pki", suite.dir, "--tpm", attest.Fingerprint(nil))
	require.Error(t, err)
	require.Contains(t, said, "its TPM has the fingerprint "+tpm)
	said, err = approve(fingerprint, "--pki", suite.dir, "--tpm", tpm)
	require.NoError(t, err, "%s", said)
	s := g.await("its bundle", func(s vm.Status) bool { return s.Bundle.Serial > 0 })
	require.Equal(t, "network", s.Bundle.From)
	require.Empty(t, s.Bundle.Problem)
}
