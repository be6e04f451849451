package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/activate"
	"spore/agent/atomicfile"
	"spore/agent/bootinfo"
	"spore/agent/delivery"
	"spore/agent/detect"
	"spore/agent/environment"
	"spore/agent/nic"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/sealed"
	"spore/agent/state"
	"spore/agent/status"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/pki"
	"spore/pki/seal"
	"spore/services"
	"spore/services/dns"
	"spore/services/mqtt"
)

// testMachine has the cluster part of a cluster with n nodes under a temporary root.
func testMachine(t testing.TB, n int) (*machine, *string) {
	root := paths.Root(t.TempDir())
	m := newMachine(root)
	host := new(string)
	m.setHostname = func(name string) error { *host = name; return nil }
	m.say = func(s string) { t.Log(s) }
	m.group = func(string) (int, error) { return os.Getgid(), nil }
	c := &cluster.Config{
		Cluster: spec.Cluster{
			Name: "plant", ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Domain: "plant.example",
			Network:  spec.Network{NodeSubnets: []string{"10.64.0.0/10"}, Nameservers: []string{"10.64.0.3"}},
			Services: []string{"mqtt", "dns"},
		},
		Services: spec.Services{
			&mqtt.Settings{TLS: mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "tls-cert"}, Key: spec.SecretRef{SecretRef: "tls-key"}}},
			&dns.Settings{},
		},
	}
	for i := range n {
		c.Cluster.Nodes = append(c.Cluster.Nodes, spec.Node{
			Name: fmt.Sprintf("node-%05d", i), MACs: []string{mac(i)}, IPs: []string{fmt.Sprintf("10.64.%d.%d", 1+i/250, 1+i%250)},
			Serial: fmt.Sprintf("SN-%d", i), Roles: []string{"mqtt-broker", "dns-server"},
		})
	}
	files, err := cluster.Compile(c)
	require.NoError(t, err)
	for name, data := range files {
		path := filepath.Join(root.At(bootinfo.ClusterDir), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	return m, host
}

func mac(i int) string { return fmt.Sprintf("52:54:00:%02x:%02x:01", i>>8, i&255) }

// become does what detect and run do for a machine with this MAC, up to the jobs for systemd.
func become(t testing.TB, m *machine, macs ...string) (detect.Identity, []string, []activate.Held) {
	d := detect.Machine{
		Sys: os.DirFS(string(m.root)), Match: m.part.Match, Say: m.say, Settled: func(context.Context) error { return nil },
		Cards: func() (cards []nic.Card, err error) {
			for i, a := range macs {
				cards = append(cards, nic.Card{Index: i + 2, MAC: a, Permanent: true})
			}
			return cards, nil
		},
	}
	id, err := detect.PhaseOne(context.Background(), d)
	require.NoError(t, err)
	require.NoError(t, derive(m, id))
	_, c, n, err := m.node()
	require.NoError(t, err)
	if n == nil {
		return id, nil, nil
	}
	require.NoError(t, environment.Write(m.root.At(paths.Environment), c, n, memory()))
	_, targets, held := activate.Plan(activate.Input{
		Cluster: c, Node: n, Identity: id, Have: activate.HaveIn(m.root.At(paths.Secrets)), Unit: func(string) bool { return true },
	})
	return id, targets, held
}

func TestAMachineBecomesItsNode(t *testing.T) {
	m, host := testMachine(t, 3)
	id, targets, held := become(t, m, mac(1))
	require.Equal(t, identity.Result{Node: "node-00001", By: "mac", Value: mac(1), Phase: 1, Candidates: []identity.Candidate{{Node: "node-00001", By: "mac", Value: mac(1)}}}, id.Result)
	require.Equal(t, "node-00001", *host)
	require.Equal(t, []string{"dns.target"}, targets)
	require.Equal(t, "mqtt-broker", held[0].Role)
	for _, path := range []string{
		"/etc/systemd/network/10-spore-525400000101.network", "/etc/hosts", paths.Environment + "/coredns.env", paths.Identity, paths.Probe,
	} {
		require.FileExists(t, m.root.At(path))
	}
	require.Equal(t, []static{{mac: mac(1), ip: staticIP(t, "10.64.1.2")}}, nodeStatics(t, m))
}

func TestABundleLetsTheRolesStart(t *testing.T) {
	before := unix.Umask(0o077) // that of spore-bundle.service
	defer unix.Umask(before)
	m, _ := testMachine(t, 3)
	become(t, m, mac(1))
	tree := withKeys(t, m)
	c, err := m.part.Cluster()
	require.NoError(t, err)
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	deliver := func(node string) {
		n, err := m.part.Node(node)
		require.NoError(t, err)
		data, err := tree.BundleFor(c, n, time.Now())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
		require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}))
	}
	deliver("node-00001")
	info := readInfo(t, m).Info
	require.Contains(t, info.Forgets, "/var does not last", "nothing remembers its serial")
	info.Forgets = ""
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.Firmware}, info)
	_, targets, held := become(t, m, mac(1))
	require.Equal(t, []string{"dns.target", "mqtt.target"}, targets)
	require.Empty(t, held)
	pending := func() []string {
		state, err := (&renewal.File{Path: m.root.At(paths.Renewal)}).Read()
		require.NoError(t, err)
		return state.Names()
	}
	require.Empty(t, pending(), "no program has run yet")
	for _, path := range []string{paths.Live + "/mosquitto/tls-key", paths.Live + "/api/agent-certificate", paths.Trust + "/mqtt.crt", paths.Inbox} {
		_, err := os.Stat(m.root.At(path))
		require.NoError(t, err, path)
	}
	for _, dir := range []string{paths.Trust, filepath.Dir(paths.Renewal)} {
		st, err := os.Stat(m.root.At(dir))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), st.Mode().Perm(), "programs without privileges read it, whatever the unit's UMask is: %s", dir)
	}
	deliver("node-00001")
	require.Empty(t, pending(), "a newer bundle with the same secrets changes nothing")

	deliver("node-00002")
	_, targets, _ = become(t, m, mac(1))
	require.Equal(t, []string{"dns.target"}, targets)
	require.Contains(t, readInfo(t, m).Problem, `for node "node-00002", and this is "node-00001"`)
	require.NoFileExists(t, m.root.At(paths.Secrets+"/mosquitto/tls-key"), "secrets of a refused bundle do not stay")
	require.NoFileExists(t, m.root.At(paths.Live+"/mosquitto/tls-key"))
	require.Equal(t, []string{"mosquitto"}, pending(), "the API reads its own again")
}

func TestABundleIsTakenByAnImageThatLacksOneOfItsPrograms(t *testing.T) {
	m, _ := testMachine(t, 3)
	row, ok := services.LookupProgram("mosquitto")
	require.True(t, ok)
	m.group = func(name string) (int, error) {
		if name == row.User {
			return 0, user.UnknownUserError(name)
		}
		return os.Getgid(), nil
	}
	become(t, m, mac(1))
	tree := withKeys(t, m)
	c, err := m.part.Cluster()
	require.NoError(t, err)
	n, err := m.part.Node("node-00001")
	require.NoError(t, err)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "spore.bundle"), data, 0o600))
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}))
	require.Empty(t, readInfo(t, m).Problem)
	require.FileExists(t, m.root.At(paths.Live+"/api/agent-certificate"))
	require.NoDirExists(t, m.root.At(paths.Live+"/mosquitto"))
}

func TestABundleOfTheBootMediumWaitsForItsPassphrase(t *testing.T) {
	m, _ := testMachine(t, 3)
	become(t, m, mac(1))
	tree := withKeys(t, m)
	c, err := m.part.Cluster()
	require.NoError(t, err)
	n, err := m.part.Node("node-00001")
	require.NoError(t, err)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	data, err = seal.WithPassphrase(data, "five words drawn by dice", 10)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(m.root.At(bootinfo.Delivered)), 0o700))
	require.NoError(t, os.WriteFile(m.root.At(bootinfo.Delivered), data, 0o600))
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}))
	require.Contains(t, readInfo(t, m).Problem, "waiting for the passphrase")
	require.FileExists(t, m.root.At(paths.BundleAsk))

	// systemd-ask-password that is answered wrongly at first.
	bin := t.TempDir()
	script := "#!/bin/sh\nif [ -e " + bin + "/asked ]; then echo five words drawn by dice; else touch " + bin + "/asked; echo wrong; fi\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-ask-password"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle", "--ask"}))
	require.Equal(t, uint64(1), readInfo(t, m).Serial)
	require.NotContains(t, readInfo(t, m).Problem, "waiting")
	require.NoFileExists(t, m.root.At(paths.BundleAsk))
	require.FileExists(t, m.root.At(paths.Secrets+"/mosquitto/tls-key"))
}

func TestAMachineThatIsNoNodeTakesNoBundle(t *testing.T) {
	m, _ := testMachine(t, 3)
	become(t, m, "52:54:00:ff:ff:ff")
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}))
	require.NoDirExists(t, m.root.At(paths.Secrets))
}

// keepsState gives the machine a state partition, and a systemd-creds that only dresses up what it is given.
func keepsState(t *testing.T, m *machine) {
	t.Helper()
	require.NoError(t, atomicfile.WriteJSON(m.root.At(paths.State), state.Info{Kind: state.Partition}))
	bin := t.TempDir()
	script := `#!/bin/sh
case $1 in
encrypt) { printf '\132\034\152\206\337\235\100\226\261\325\246\136\010\142\361\232'; cat; } | base64 ;;
decrypt) base64 -d | tail -c +17 ;;
*) exit 1 ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-creds"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NoError(t, os.MkdirAll(filepath.Dir(m.root.At(paths.HostKey)), 0o755))
	key, err := hex.DecodeString("89f70f6d90b84795b60b94afac71e928")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(m.root.At(paths.HostKey), key, 0o400))
	require.NoError(t, os.WriteFile(m.root.At("/etc/machine-id"), []byte("3d1219c7c4c5404aaa1f6d2a48adfda4\n"), 0o444))
}

// A master whose bundle is older than its certificates last makes them again, keeps them, and gives them to its programs.
func TestACertificateThatEndedIsMadeAgainAndKept(t *testing.T) {
	m, _ := testMachine(t, 3)
	become(t, m, mac(1))
	keepsState(t, m)
	c, err := m.part.Cluster()
	require.NoError(t, err)
	n, err := m.part.Node("node-00001")
	require.NoError(t, err)
	n.Roles = []string{"control-plane", "dns-server", "mqtt-broker"}
	c.Services.Set(&spec.Kubernetes{})
	c.Members["control-plane"] = []string{n.Name}
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.part.Dir, facts.ClusterFile), c))
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.part.Dir, facts.NodeDir, n.Name+".json"), n))
	tree := withKeys(t, m)
	data, err := tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	credentials := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
	take := func() string {
		require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}))
		text, err := os.ReadFile(m.root.At(paths.Secrets + "/mosquitto/tls-cert"))
		require.NoError(t, err)
		return string(text)
	}
	first := take()
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.Firmware, Sealed: sealed.Host}, readInfo(t, m).Info)
	require.NoFileExists(t, m.root.At(paths.Leaves))

	t.Setenv("CREDENTIALS_DIRECTORY", "")
	m.now = func() time.Time { return time.Now().AddDate(0, 0, 400) }
	second := take()
	require.Equal(t, delivery.Info{Serial: 1, From: delivery.State, Sealed: sealed.Host}, readInfo(t, m).Info)
	require.NotEqual(t, first, second)
	block, _ := pem.Decode([]byte(second))
	made, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(tree.Public().Files()[pki.PublicDir+"/mqtt.crt"]))
	_, err = made.Verify(x509.VerifyOptions{Roots: roots, DNSName: n.FQDN, CurrentTime: m.now()})
	require.NoError(t, err)
	require.FileExists(t, m.root.At(paths.Leaves))
	require.Equal(t, second, take(), "it is kept, and not made at each boot")

	data, err = tree.BundleFor(c, n, time.Now())
	require.NoError(t, err)
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	require.NoError(t, os.WriteFile(filepath.Join(credentials, "spore.bundle"), data, 0o600))
	m.now = time.Now
	require.Equal(t, first, take(), "a bundle whose certificate is good wins")
	require.NoFileExists(t, m.root.At(paths.Leaves))
}

func TestABundleThatCannotBeTakenIsSaid(t *testing.T) {
	m, _ := testMachine(t, 1)
	become(t, m, mac(0))
	withKeys(t, m)
	require.NoError(t, os.WriteFile(filepath.Join(m.part.Dir, "pki/mqtt.crt"), []byte("-----BEGIN X-----\nAAAA\n-----END X-----\n"), 0o644))
	require.ErrorContains(t, dispatch(context.Background(), m, []string{"spore-agent", "bundle"}), "mqtt.crt")
	require.Contains(t, readInfo(t, m).Problem, "mqtt.crt")
}

// withKeys gives the machine's image the public half of new keys.
func withKeys(t *testing.T, m *machine) *pki.Tree {
	t.Helper()
	c, err := m.part.Cluster()
	require.NoError(t, err)
	var nodes []facts.Node
	for _, name := range c.Members["mqtt-broker"] {
		n, err := m.part.Node(name)
		require.NoError(t, err)
		nodes = append(nodes, *n)
	}
	tree := pki.New(c)
	_, err = tree.Update(c, nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	for name, data := range tree.Public().Files() {
		path := filepath.Join(m.part.Dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	keys, err := tree.Public().SigningKeys()
	require.NoError(t, err)
	for _, k := range keys {
		c.SigningKeys = append(c.SigningKeys, base64.StdEncoding.EncodeToString(k))
	}
	require.NoError(t, atomicfile.WriteJSON(filepath.Join(m.part.Dir, facts.ClusterFile), c))
	return tree
}

func readInfo(t *testing.T, m *machine) (info bundleInfo) {
	t.Helper()
	require.NoError(t, atomicfile.ReadJSON(m.root.At(paths.BundleInfo), &info))
	return info
}

func TestDerivingTwiceEndsInTheSameState(t *testing.T) {
	m, _ := testMachine(t, 3)
	snapshot := func() map[string]string {
		out := map[string]string{}
		for _, dir := range []string{"/etc", "/run/spore"} {
			require.NoError(t, filepath.Walk(m.root.At(dir), func(path string, st os.FileInfo, err error) error {
				if err == nil && st.Mode().IsRegular() {
					data, err := os.ReadFile(path)
					require.NoError(t, err)
					out[path] = string(data)
				}
				return err
			}))
		}
		return out
	}
	become(t, m, mac(1))
	first := snapshot()
	become(t, m, "52:54:00:ff:ff:ff")
	require.NotEqual(t, first, snapshot(), "an unknown machine derives something else")
	become(t, m, mac(1))
	require.Equal(t, first, snapshot())
}

func TestWrongUsage(t *testing.T) {
	m, _ := testMachine(t, 1)
	for _, args := range [][]string{{"spore-agent"}, {"spore-agent", "nonsense"}, {"spore-agent", "detect", "--x"}, {"spore-agent", "probe", "x"}, {"spore-agent", "run", "x"}, {"spore-agent", "bundle", "x"},
		{"spore-agent", "status", "-x"}, {"spore-agent", "render"}, {"spore-agent", "state", "adopt"}, {"/usr/sbin/mount.spore", "x"}} {
		err := dispatch(context.Background(), m, args)
		require.ErrorAs(t, err, new(usageError), "%v", args)
	}
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "--help"}))
}

func TestStatusIsWhatTheDaemonWroteLast(t *testing.T) {
	m, _ := testMachine(t, 1)
	require.ErrorContains(t, dispatch(context.Background(), m, []string{"spore-agent", "status"}), "there is no status yet")
	l := status.Line{Spore: 1, Cluster: "plant", Node: "a", Matched: &status.Matched{By: "mac", Value: "x"}, Roles: []string{"dns-server"}, System: "running"}
	require.NoError(t, os.WriteFile(m.root.At(paths.Status), []byte(l.String()+"\n"), 0o644))
	require.NoError(t, dispatch(context.Background(), m, []string{"spore-agent", "status", "--json"}))
	require.Contains(t, text(l), "node       a of cluster plant, by mac x\nsystem     running\nroles      dns-server\n")
	l.Bundle = &delivery.Info{Serial: 3, From: delivery.Medium, Sealed: sealed.TPM, Problem: "the bundle stays"}
	require.Contains(t, text(l), "bundle     3, from the boot medium, sealed to the TPM\n           the bundle stays\n")
	require.Contains(t, text(status.Line{Cluster: "plant", Problem: "who is it"}), "problem    who is it\n")
}

// TestTheBudget holds the agent to its bound for detection, environment and activation, in CPU time of the host.
func TestTheBudget(t *testing.T) {
	for nodes, budget := range map[int]float64{1000: 100, 10000: 200} {
		m, _ := testMachine(t, nodes)
		before := status.UsedCPU()
		become(t, m, mac(nodes-1))
		used := status.UsedCPU() - before
		t.Logf("%d nodes: %.1f ms of CPU, %.0f allowed", nodes, used, budget)
		require.Less(t, used, budget, "%d nodes", nodes)
	}
}

func BenchmarkBecome(b *testing.B) {
	for _, nodes := range []int{3, 1000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			m, _ := testMachine(b, nodes)
			for b.Loop() {
				become(b, m, mac(nodes-1))
			}
		})
	}
}

func staticIP(t *testing.T, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	require.NoError(t, err)
	return a
}

func nodeStatics(t *testing.T, m *machine) []static {
	_, _, n, err := m.node()
	require.NoError(t, err)
	return staticAddresses(n)
}
