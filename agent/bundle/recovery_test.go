package bundle

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/state"
	"spore/agent/unlock"
	"spore/pki/bundle"
	"spore/pki/seal"
	"spore/storage/atomicfile"
)

// bundleFor is a bundle of a machine that is node-00001, and its recovery key.
func bundleFor(t *testing.T, m *node.Machine, node string) (data []byte, key string) {
	t.Helper()
	nodetest.Is(t, m, "node-00001")
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	n, err := m.Part.Node(node)
	require.NoError(t, err)
	data, err = tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	require.NoError(t, deliverTo(m, data))
	key, err = DeliveredRecoveryKey(context.Background(), m)
	if node == "node-00001" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, "node-00001")
	}
	return data, key
}

// deliverTo puts a bundle where stage1 does.
func deliverTo(m *node.Machine, data []byte) error {
	path := m.Root.At(bootinfo.Delivered)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func TestTheRecoveryKeyIsInTheBundleThatCameBeforeThereIsState(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	data, key := bundleFor(t, m, "node-00001")
	require.Regexp(t, `^([cbdefghijklnrtuv]{8}-){7}[cbdefghijklnrtuv]{8}$`, key)
	left, err := os.ReadFile(m.Root.At(bootinfo.Delivered))
	require.NoError(t, err)
	require.Equal(t, data, left, "the bundle itself is not taken")
	require.NoDirExists(t, m.Root.At(paths.Secrets))

	require.NoError(t, os.Remove(m.Root.At(bootinfo.Delivered)))
	_, err = DeliveredRecoveryKey(context.Background(), m)
	require.ErrorContains(t, err, "none came with the machine: bring it on the boot medium (`spore flash --node node-00001`)")
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	require.NoError(t, os.WriteFile(filepath.Join(credentials, delivery.CredentialName), data, 0o600))
	again, err := DeliveredRecoveryKey(context.Background(), m)
	require.NoError(t, err)
	require.Equal(t, key, again)
}

func TestTheRecoveryKeyOfAnotherNodeIsNotTaken(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	_, key := bundleFor(t, m, "node-00002")
	require.Empty(t, key)
}

func TestNobodyIsAskedTwiceForThePassphraseOfABundle(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	data, key := bundleFor(t, m, "node-00001")
	locked, err := seal.WithPassphrase(data, "five words drawn by dice", 10)
	require.NoError(t, err)
	require.Less(t, len(locked), bundle.MaxSize)
	require.NoError(t, deliverTo(m, locked))
	bin := t.TempDir()
	asked := filepath.Join(bin, "asked")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-ask-password"), []byte("#!/bin/sh\necho x >> "+asked+"\necho five words drawn by dice\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for range 2 {
		got, err := DeliveredRecoveryKey(context.Background(), m)
		require.NoError(t, err)
		require.Equal(t, key, got)
	}
	st, err := os.Stat(m.Root.At(paths.BundleOpened))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	nodetest.KeepsState(t, m)
	require.NoError(t, Take(context.Background(), m, false))
	require.Equal(t, uint64(1), readInfo(t, m).Serial)
	times, err := os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(times))
	require.NoFileExists(t, m.Root.At(paths.BundleOpened), "it is kept until the bundle is taken")
}

func TestOnEncryptedStateSecretsAreSealedByWhatLiesBehindItsLock(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	bundleFor(t, m, "node-00001")
	nodetest.KeepsState(t, m)

	for _, i := range []state.Info{{Kind: state.Partition}, {Kind: state.Partition, Encryption: &unlock.Info{Opened: "tpm2"}}} {
		require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), i))
		taker, err := newTaker(m)
		require.NoError(t, err)
		bin := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-creds"), []byte("#!/bin/sh\nexit 0\n"), 0o755))
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		require.NoError(t, os.MkdirAll(m.Root.At("/dev"), 0o755))
		require.NoError(t, os.WriteFile(m.Root.At("/dev/tpmrm0"), nil, 0o600))
		tpm := taker.vault.HasTPM(context.Background())
		require.Equal(t, i.Encryption == nil, tpm)
	}
}
