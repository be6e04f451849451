package identity

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/bootinfo"
	"spore/agent/bundle"
	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/nocloud"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
)

func TestABundleOfNoCloudIsJudgedAsAnyOther(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "node-00001")
	tree := nodetest.WithKeys(t, m)
	c, err := m.Part.Cluster()
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for _, tt := range []struct {
		of, problem string
		serial      uint64
		targets     []string
	}{
		{"node-00002", "the bundle of NoCloud's user-data was refused", 0, []string{"dns.target"}},
		{"node-00001", "", 2, []string{"dns.target", "mqtt.target"}},
		{"", "", 0, []string{"dns.target"}},
	} {
		id, err := m.Identity()
		require.NoError(t, err)
		id.NoCloud = &nocloud.Found{From: []string{"a volume"}}
		if tt.of != "" {
			n, err := m.Part.Node(tt.of)
			require.NoError(t, err)
			id.NoCloud.Bundle, err = tree.BundleFor(c, n, time.Now())
			require.NoError(t, err)
		}
		require.NoError(t, keepDelivered(m, id))
		if tt.of != "" {
			st, err := os.Stat(m.Root.At(bootinfo.DeliveredNoCloud))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
		}
		require.NoError(t, bundle.Take(t.Context(), m, false))
		var info bundle.Info
		require.NoError(t, atomicfile.ReadJSON(m.Root.At(paths.BundleInfo), &info))
		require.Equal(t, tt.serial, info.Serial, "%+v", info)
		require.Contains(t, info.Problem, tt.problem)
		if tt.serial > 0 {
			require.Equal(t, delivery.NoCloud, info.From)
		}
		_, _, n, err := m.Node()
		require.NoError(t, err)
		_, targets, _ := activate.Plan(activate.Input{
			Cluster: c, Node: n, Identity: id, Have: activate.HaveIn(m.Root.At(paths.Secrets)), Unit: func(string) bool { return true },
		})
		require.Equal(t, tt.targets, targets)
	}
}

func TestTheNetworkOfNoCloudIsWrittenForANodeThatHasNone(t *testing.T) {
	const mac = "52:54:00:77:00:99"
	given := []spec.Interface{{MAC: mac, Addresses: []string{"10.99.0.4/24"}, Gateways: []string{"10.99.0.1"}}}
	m := nodetest.Brokers(t, "10.99.0.4")["kafka-1"]
	id := detect.Identity{
		Result:  identity.Result{Node: "kafka-1", By: identity.ByNoCloud, Value: "kafka-1", Phase: 1},
		NoCloud: &nocloud.Found{From: []string{"a volume"}, Network: &nocloud.Network{Nameservers: []string{"10.99.0.2"}, Search: "plant.example"}}, Network: given,
	}
	m.SetHostname = func(string) error { return nil }
	require.NoError(t, Derive(m, id))
	data, err := os.ReadFile(m.Root.At("/etc/systemd/network/10-spore-525400770099.network"))
	require.NoError(t, err)
	require.Equal(t, "[Match]\nPermanentMACAddress="+mac+"\n\n[Network]\nIPv6AcceptRA=no\nGateway=10.99.0.1\n\n[Address]\nAddress=10.99.0.4/24\n", string(data))
	require.NoFileExists(t, m.Root.At("/etc/systemd/network/10-spore-dhcp.network"))
	resolv, err := os.ReadFile(m.Root.At("/etc/resolv.conf"))
	require.NoError(t, err)
	require.Contains(t, string(resolv), "nameserver 10.99.0.2\n")
	_, _, n, err := m.Node()
	require.NoError(t, err)
	require.Equal(t, given, n.Interfaces, "what is derived later is derived of the same")
	require.FileExists(t, m.Root.At(paths.Probe), "its addresses are probed")

	own, _ := nodetest.New(t, 3)
	id.Node = "node-00001"
	require.NoError(t, Derive(own, id))
	require.NoFileExists(t, own.Root.At("/etc/systemd/network/10-spore-525400770099.network"), "the configuration describes its network")
	require.FileExists(t, own.Root.At("/etc/systemd/network/10-spore-525400000101.network"))
}

func TestAHypervisorIsKnownByTheProcessorsFlags(t *testing.T) {
	require.False(t, virtual(filepath.Join(t.TempDir(), "cpuinfo")))
	for text, want := range map[string]bool{
		"processor\t: 0\nflags\t\t: fpu sse hypervisor lm\n": true, "flags\t\t: fpu lm\n": false, "model name\t: hypervisor\nflags\t\t: fpu\n": false, "": false,
	} {
		path := filepath.Join(t.TempDir(), "cpuinfo")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.Equal(t, want, virtual(path), text)
	}
}
