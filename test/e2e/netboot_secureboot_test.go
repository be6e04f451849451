//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/netboot"
	"spore/builder/vm"
	"spore/pki/attest"
)

// testPXE is a machine whose firmware takes our keys alone, in these variables. It starts the iPXE of an output folder,
// and that the UKI; with the iPXE as Debian has it, it starts nothing.
func testPXE(t *testing.T, out, vars string) {
	byPXE := func(t *testing.T, name string) *guest {
		w := newWire(t)
		w.serve(out, "full")
		m := vm.Config{Name: name, Firmware: vm.SecureBoot, Vars: vars, Dir: t.TempDir(), TPM: filepath.Join(t.TempDir(), "tpm"), Args: w.card(edgeMAC, true)}
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
	approve := func(args ...string) (string, error) {
		said, err := exec.Command(flashTool(t), append([]string{"approve", out}, args...)...).CombinedOutput()
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
