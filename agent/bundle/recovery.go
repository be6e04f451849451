package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/pki/bundle"
	"spore/storage/atomicfile"
)

// recoveryKey is the entry of the bundle that opens encrypted state.
const recoveryKey = "state-recovery-key"

// DeliveredRecoveryKey takes the recovery key of the state out of the bundle that came with the machine. The bundle
// itself is taken when there is a state that it can be kept on.
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
	raw, err := t.stored(ctx)
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

// Stored is the bundle that the node keeps in its state, opened, as the cluster has signed it. The error is
// fs.ErrNotExist where it keeps none.
func Stored(ctx context.Context, m *node.Machine) ([]byte, error) {
	t, err := newTaker(m)
	if err != nil {
		return nil, err
	}
	if t == nil || t.vault == nil {
		return nil, fmt.Errorf("the node keeps no bundle: %w", fs.ErrNotExist)
	}
	return t.stored(ctx)
}

// stored opens what the vault has.
func (t *taker) stored(ctx context.Context) ([]byte, error) {
	raw, _, err := bundleVault{t.vault, t.m.Root}.Open(ctx)
	return raw, err
}
