package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
)

func TestTheCertificateThatWasRenewedIsTheOneThatIsShown(t *testing.T) {
	m := nodetest.Brokers(t, "10.77.0.11")["kafka-1"]
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	lay := func(dir, prefix, text string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for _, name := range []string{"agent-certificate", "agent-key"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, prefix+name), []byte(text), 0o600))
		}
	}
	lay(credentials, "secret_", "first")
	id, err := m.OwnIdentity()
	require.NoError(t, err)
	require.Equal(t, "first", string(id.Certificate))

	live := m.Root.At(paths.Live)
	lay(filepath.Join(live, ".api-1"), "", "second")
	require.NoError(t, os.Symlink(".api-1", filepath.Join(live, node.APIProgram)))
	id, err = m.OwnIdentity()
	require.NoError(t, err)
	require.Equal(t, "second", string(id.Certificate))
	require.Equal(t, "second", string(id.Key))
	require.NotEmpty(t, id.Authorities)
}

func TestAUnitsOwnRuntimeDirectoryIsThatOfItsName(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "/run/kubelet": "/run/kubelet", "/run/calico:/run/calico-node:/run/cni/net.d": "/run/calico-node", "/run/a:/run/b": "/run/a",
	} {
		t.Setenv("RUNTIME_DIRECTORY", list)
		require.Equal(t, want, node.RuntimeDirectory("calico-node"), list)
	}
}

func TestOnlyAMachineThatIsANodeIsItself(t *testing.T) {
	m, _ := nodetest.New(t, 2)
	_, _, err := m.Self()
	require.ErrorContains(t, err, "has `spore-agent detect` run?")
	nodetest.Is(t, m, "")
	_, _, err = m.Self()
	require.ErrorContains(t, err, "this machine is no node")
	_, c, n, err := m.Node()
	require.NoError(t, err, "to be no node is no error")
	require.Nil(t, c)
	require.Nil(t, n)
	nodetest.Is(t, m, "node-00001")
	c, n, err = m.Self()
	require.NoError(t, err)
	require.Equal(t, "plant", c.Name)
	require.Equal(t, "node-00001", n.Name)
	nodetest.Is(t, m, "node-00002")
	_, _, err = m.Self()
	require.ErrorContains(t, err, "node-00002", "the cluster part does not have it")
}

func TestWhatIsWaitedForIsReadUntilItIsThere(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.Empty(t, m.Waiting(), "nobody has waited")
	m.Waits("kafka", "waiting for kafka-1")
	m.Waits("etcd", "waiting for master-1")
	require.NoError(t, os.WriteFile(m.Root.At(paths.Waiting+"/.half"), []byte("x"), 0o600))
	require.Equal(t, map[string]string{"kafka": "waiting for kafka-1", "etcd": "waiting for master-1"}, m.Waiting())
	m.Waits("kafka", "")
	m.Waits("kafka", "")
	require.Equal(t, map[string]string{"etcd": "waiting for master-1"}, m.Waiting())
}

func TestAUnitReadsTheSecretsThatItWasGiven(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	_, err := node.Secret("x")
	require.ErrorContains(t, err, "CREDENTIALS_DIRECTORY is not set")
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	_, err = node.Secret("x")
	require.ErrorContains(t, err, "secret x of this unit")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret_x"), []byte("seven"), 0o600))
	got, err := node.Secret("x")
	require.NoError(t, err)
	require.Equal(t, "seven", string(got))
}
