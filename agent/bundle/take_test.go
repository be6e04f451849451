package bundle

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/sealed"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/seal"
	"spore/services"
	"spore/services/kubernetes"
	"spore/storage/atomicfile"
)

// starts is what the node starts with the secrets that it has.
func starts(t *testing.T, m *node.Machine) ([]string, []activate.Held) {
	t.Helper()
	id, c, n, err := m.Node()
	require.NoError(t, err)
	_, targets, held := activate.Plan(activate.Input{
		Cluster: c, Node: n, Identity: id, Have: activate.HaveIn(m.Root.At(paths.Secrets)), Unit: func(string) bool { return true },
	})
	return targets, held
}

func TestABundleLetsTheRolesStart(t *testing.T) {
	before := unix.Umask(0o077) // that of spore-bundle.service
	defer unix.Umask(before)
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00001")
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	deliver := func(node string) {
		n, err := m.Part.Node(node)
		require.NoError(t, err)
		data, err := tree.BundleFor(c, n, time.Now())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
		require.NoError(t, Take(context.Background(), m, false))
	}
	deliver("node-00001")
	info := readInfo(t, m).Info
	require.Contains(t, info.Forgets, "/var does not last", "nothing remembers its serial")
	info.Forgets = ""
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.Firmware}, info)
	targets, held := starts(t, m)
	require.Equal(t, []string{"dns.target", "mqtt.target"}, targets)
	require.Empty(t, held)
	pending := func() []string {
		state, err := (&renewal.File{Path: m.Root.At(paths.Renewal)}).Read()
		require.NoError(t, err)
		return state.Names()
	}
	require.Empty(t, pending(), "no program has run yet")
	for _, path := range []string{paths.Live + "/mosquitto/tls-key", paths.Live + "/api/agent-certificate", paths.Trust + "/mqtt.crt", paths.Inbox} {
		_, err := os.Stat(m.Root.At(path))
		require.NoError(t, err, path)
	}
	for _, dir := range []string{paths.Trust, filepath.Dir(paths.Renewal)} {
		st, err := os.Stat(m.Root.At(dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), st.Mode().Perm(), "programs without privileges read it, whatever the unit's UMask is: %s", dir)
	}
	deliver("node-00001")
	require.Empty(t, pending(), "a newer bundle with the same secrets changes nothing")

	deliver("node-00002")
	targets, _ = starts(t, m)
	require.Equal(t, []string{"dns.target"}, targets)
	require.Contains(t, readInfo(t, m).Problem, `for node "node-00002", and this is "node-00001"`)
	require.NoFileExists(t, m.Root.At(paths.Secrets+"/mosquitto/tls-key"), "secrets of a refused bundle do not stay")
	require.NoFileExists(t, m.Root.At(paths.Live+"/mosquitto/tls-key"))
	require.Equal(t, []string{"mosquitto"}, pending(), "the API reads its own again")
}

func TestABundleIsTakenByAnImageThatLacksOneOfItsPrograms(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	row, ok := services.Ours().LookupProgram("mosquitto")
	require.True(t, ok)
	m.Group = func(name string) (int, error) {
		if name == row.User {
			return 0, user.UnknownUserError(name)
		}
		return os.Getgid(), nil
	}
	nodetest.Is(t, m, "node-00001")
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	n, err := m.Part.Node("node-00001")
	require.NoError(t, err)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "spore.bundle"), data, 0o600))
	require.NoError(t, Take(context.Background(), m, false))
	require.Empty(t, readInfo(t, m).Problem)
	require.FileExists(t, m.Root.At(paths.Live+"/api/agent-certificate"))
	require.NoDirExists(t, m.Root.At(paths.Live+"/mosquitto"))
}

func TestABundleOfTheBootMediumWaitsForItsPassphrase(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00001")
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	n, err := m.Part.Node("node-00001")
	require.NoError(t, err)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	data, err = seal.WithPassphrase(data, "five words drawn by dice", 10)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(bootinfo.Delivered)), 0o700))
	require.NoError(t, os.WriteFile(m.Root.At(bootinfo.Delivered), data, 0o600))
	require.NoError(t, Take(context.Background(), m, false))
	require.Contains(t, readInfo(t, m).Problem, "waiting for the passphrase")
	require.FileExists(t, m.Root.At(paths.BundleAsk))

	// systemd-ask-password that is answered wrongly at first.
	bin := t.TempDir()
	script := "#!/bin/sh\nif [ -e " + bin + "/asked ]; then echo five words drawn by dice; else touch " + bin + "/asked; echo wrong; fi\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-ask-password"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NoError(t, Take(context.Background(), m, true))
	require.Equal(t, uint64(1), readInfo(t, m).Serial)
	require.NotContains(t, readInfo(t, m).Problem, "waiting")
	require.NoFileExists(t, m.Root.At(paths.BundleAsk))
	require.FileExists(t, m.Root.At(paths.Secrets+"/mosquitto/tls-key"))
}

func TestAMachineThatIsNoNodeTakesNoBundle(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "")
	require.NoError(t, Take(context.Background(), m, false))
	require.NoDirExists(t, m.Root.At(paths.Secrets))
}

// A master whose bundle is older than its certificates last makes them again, keeps them, and gives them to its
// programs.
func TestACertificateThatEndedIsMadeAgainAndKept(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00001")
	nodetest.KeepsState(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	n, err := m.Part.Node("node-00001")
	require.NoError(t, err)
	n.Roles = []string{"control-plane", "dns-server", "mqtt-broker"}
	c.Services.Set(&kubernetes.Settings{})
	c.Members["control-plane"] = []string{n.Name}
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.ClusterFile), c))
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.Part.Dir, facts.NodeDir, n.Name+".json"), n))
	tree := nodetest.WithKeys(t, m)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
	take := func() string {
		require.NoError(t, Take(context.Background(), m, false))
		text, err := os.ReadFile(m.Root.At(paths.Secrets + "/mosquitto/tls-cert"))
		require.NoError(t, err)
		return string(text)
	}
	first := take()
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.Firmware, Sealed: sealed.Host}, readInfo(t, m).Info)
	require.NoFileExists(t, m.Root.At(paths.Leaves))

	t.Setenv("CREDENTIALS_DIRECTORY", "")
	m.Now = func() time.Time { return time.Now().AddDate(0, 0, 400) }
	second := take()
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.State, Sealed: sealed.Host}, readInfo(t, m).Info)
	require.NotEqual(t, first, second)
	block, _ := pem.Decode([]byte(second))
	made, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(tree.Public().Files()[pki.PublicDir+"/mqtt.crt"]))
	_, err = made.Verify(x509.VerifyOptions{Roots: roots, DNSName: n.FQDN, CurrentTime: m.Now()})
	require.NoError(t, err)
	require.FileExists(t, m.Root.At(paths.Leaves))
	require.Equal(t, second, take(), "it is kept, and not made at each boot")

	data, err = tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
	m.Now = time.Now
	require.Equal(t, first, take(), "a bundle whose certificate is good wins")
	require.NoFileExists(t, m.Root.At(paths.Leaves))
}

func TestABundleThatCannotBeTakenIsSaid(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	nodetest.WithKeys(t, m)
	require.NoError(t, os.WriteFile(filepath.Join(m.Part.Dir, "pki/mqtt.crt"), []byte("-----BEGIN X-----\nAAAA\n-----END X-----\n"), 0o644))
	require.ErrorContains(t, Take(context.Background(), m, false), "mqtt.crt")
	require.Contains(t, readInfo(t, m).Problem, "mqtt.crt")
}

func readInfo(t *testing.T, m *node.Machine) (info Info) {
	t.Helper()
	require.NoError(t, atomicfile.ReadJSON(m.Root.At(paths.BundleInfo), &info))
	return info
}
