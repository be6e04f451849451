package bundle

import (
	"context"
	"os"
	"strings"

	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/sealed"
	"spore/agent/state"
	"spore/storage/atomicfile"
)

// bundleVault is the vault's one file for the bundle.
type bundleVault struct {
	*sealed.Vault
	root paths.Root
}

func (v bundleVault) Open(ctx context.Context) ([]byte, string, error) {
	return v.Vault.Open(ctx, v.root.At(paths.StoredBundle), delivery.CredentialName)
}

func (v bundleVault) Seal(ctx context.Context, data []byte) (string, error) {
	return v.Vault.Seal(ctx, v.root.At(paths.StoredBundle), delivery.CredentialName, data)
}

func (v bundleVault) PutAside() error {
	return os.Rename(v.root.At(paths.StoredBundle), v.root.At(paths.UnopenedBundle))
}

// leavesName is the name that the file of re-issued certificates is sealed under.
const leavesName = "spore.leaves"

// findVault tells whether what is sealed would last.
func (t *taker) findVault() {
	var info state.Info
	if err := atomicfile.ReadJSON(t.m.Root.At(paths.State), &info); err != nil {
		info.Warning = "it is not known what /var is: " + err.Error()
	}
	if info.Kind != state.Partition {
		t.noVault = "/var does not last: " + info.Warning
		return
	}
	machineID, _ := os.ReadFile(t.m.Root.At("/etc/machine-id"))
	t.vault = &sealed.Vault{
		Creds: node.Creds, HasTPM: t.m.HasTPM, AwaitTPM: t.m.AwaitTPM, MachineID: string(machineID), HostKey: t.m.Root.At(paths.HostKey),
		Fleeting: strings.HasPrefix(t.m.Boot.MachineIDFrom, bootinfo.FromChance), Say: t.m.Say,
	}
	if info.Encryption != nil && !t.vault.Fleeting {
		// The host key lies behind the same lock. Sealed to the TPM, the secrets would be lost with it, when the recovery key has
		// brought back all the rest.
		t.vault.HasTPM = func(context.Context) bool { return false }
	}
}
