package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/pki/bundle"
	"spore/storage/atomicfile"
)

// recoveryKey is the entry of the bundle that opens encrypted state.
const recoveryKey = "state-recovery-key"

// DeliveredRecoveryKey takes the recovery key of the state out of the bundle that came with the machine. The bundle itself is
// taken when there is a state that it can be kept on.
func DeliveredRecoveryKey(ctx context.Context, m *node.Machine) (string, error) {
	t, err := newTaker(m)
	if err != nil {
		return "", err
	}
	t.in.Vault, t.in.Medium = nil, nil
	for {
		out := delivery.Take(ctx, t.in)
		switch {
		case out.Bundle != nil:
			key := out.Bundle.Secrets[recoveryKey]
			if key == "" {
				return "", errors.New("it has none; make a new one with `spore pki bundle --node " + t.node.Name + "`")
			}
			return key, nil
		case out.Ask == nil && len(t.in.Delivered) == 0:
			return "", fmt.Errorf("none came with the machine: bring it on the boot medium (`spore flash --node %s`) or by the firmware", t.node.Name)
		case out.Ask == nil:
			return "", errors.New(out.Info.Problem)
		}
		if err := t.open(ctx, out.Ask); err != nil {
			return "", err
		}
		if out.Ask.Opened != nil {
			sum := sha256.Sum256(out.Ask.Data)
			if _, err := atomicfile.Write(m.Root.At(paths.BundleOpened), append(sum[:], out.Ask.Opened...), 0o600); err != nil {
				return "", err
			}
		}
	}
}

// StoredRecoveryKey takes the recovery key out of the bundle that the node keeps.
func StoredRecoveryKey(ctx context.Context, m *node.Machine) (string, error) {
	t, err := newTaker(m)
	if err != nil {
		return "", err
	}
	if t == nil || t.vault == nil {
		return "", errors.New("the node keeps no bundle with the recovery key")
	}
	raw, _, err := t.vault.Open(ctx, m.Root.At(paths.StoredBundle), delivery.CredentialName)
	if err != nil {
		return "", err
	}
	b, err := bundle.Open(bytes.NewReader(raw), t.in.Whose)
	if err != nil {
		return "", err
	}
	if b.Secrets[recoveryKey] == "" {
		return "", errors.New("the node's bundle has no recovery key")
	}
	return b.Secrets[recoveryKey], nil
}
