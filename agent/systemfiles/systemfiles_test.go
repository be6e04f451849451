package systemfiles

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/agent/detect"
	"spore/agent/paths"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/identity"
	"spore/cluster/spec"
)

func input(t *testing.T) Input {
	return Input{
		Root: paths.Root(t.TempDir()), Part: "/run/spore/cluster",
		Cluster: &facts.Cluster{Name: "plant", ID: "id", Domain: "plant.example", Network: spec.Network{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, NTPServers: []string{"ntp.example"}}},
		Node: &facts.Node{
			Name: "edge-01", Hostname: "edge", FQDN: "edge.plant.example", Roles: []string{"dns-server"}, Sysctl: map[string]string{"b": "2", "a": "1\n2"},
			Labels: map[string]string{"example.com/zone": "yes", "off": "no: #"}, Taints: []string{"a=b:NoSchedule"},
			Interfaces: []spec.Interface{{MAC: "52:54:00:77:00:0b", Addresses: []string{"10.77.0.11/24"}, MTU: 9000}, {Name: "v", VLAN: &spec.VLAN{ID: 7, Parent: "x"}}},
		},
		Identity: detect.Identity{Result: identity.Result{Node: "edge-01", By: "serial", Value: `CZ "1" $x`, Phase: 1}},
		Hosts:    []byte("10.77.0.11 edge.plant.example edge\n10.77.0.12 mqtt.plant.example mqtt\n"),
	}
}

func read(t *testing.T, in Input, path string) string {
	data, err := os.ReadFile(in.Root.At(path))
	require.NoError(t, err)
	return string(data)
}

func TestWrite(t *testing.T) {
	in := input(t)
	require.NoError(t, Write(in))
	for path, want := range map[string]string{
		"/etc/hostname":    "edge\n",
		"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n10.77.0.11 edge.plant.example edge\n10.77.0.12 mqtt.plant.example mqtt\n",
		"/etc/resolv.conf": "# Written by spore-agent at each boot.\nsearch plant.example\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\noptions edns0 timeout:2 attempts:2\n",
		"/etc/systemd/timesyncd.conf.d/10-spore.conf": "[Time]\nNTP=ntp.example\n",
		"/etc/sysctl.d/90-spore-node.conf":            "# Written by spore-agent at each boot.\na = 1 2\nb = 2\n",
		"/etc/cluster-config/node-identity":           "edge-01\n",
	} {
		require.Equal(t, want, read(t, in, path), path)
	}
	target, err := os.Readlink(in.Root.At("/etc/cluster-config/cluster.yaml"))
	require.NoError(t, err)
	require.Equal(t, "/run/spore/cluster/cluster.yaml", target)
}

func TestANodeWithPodsForwards(t *testing.T) {
	in := input(t)
	in.Node.Roles, in.Node.Sysctl = []string{"worker"}, map[string]string{"vm.overcommit_memory": "1"}
	require.NoError(t, Write(in))
	got := read(t, in, "/etc/sysctl.d/90-spore-node.conf")
	require.Contains(t, got, "\nnet.ipv4.ip_forward = 1\n")
	require.Contains(t, got, "\nkernel.panic = 10\n")
	require.True(t, strings.HasSuffix(got, "\nvm.overcommit_memory = 1\n"), "the node's own come last")
}

// settings are the lines of sysctl.d(5) in a text, by their keys.
func settings(t *testing.T, text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		require.True(t, ok, line)
		require.NotContains(t, out, key, "a key stands once in a file")
		out[key] = value
	}
	return out
}

func TestWhatEveryMachineHasIsNotWrittenAgain(t *testing.T) {
	data, err := os.ReadFile("../../overlay/usr/lib/sysctl.d/50-spore.conf")
	require.NoError(t, err)
	every, pods := settings(t, string(data)), settings(t, podSysctl)
	require.Equal(t, "1", every["net.ipv4.conf.all.arp_notify"])
	require.Equal(t, "1", every["net.ipv4.conf.default.arp_notify"])
	require.Equal(t, "1", every["kernel.panic_on_oops"], "kubelet asks for it")
	require.Len(t, pods, 11)
	for key := range every {
		require.NotContains(t, pods, key)
	}
}

func TestWritingTwiceGivesTheSame(t *testing.T) {
	in := input(t)
	snapshot := func() map[string]string {
		out := map[string]string{}
		require.NoError(t, filepath.Walk(string(in.Root), func(path string, st os.FileInfo, err error) error {
			if err == nil && st.Mode().IsRegular() {
				data, _ := os.ReadFile(path)
				out[path] = string(data) + st.ModTime().String()
			}
			return err
		}))
		return out
	}
	require.NoError(t, Write(in))
	before := snapshot()
	require.NoError(t, Write(in))
	require.Equal(t, before, snapshot())
}

// withNodeFile lays a file of the node into the cluster part.
func withNodeFile(t *testing.T, in Input, text string) {
	t.Helper()
	dir := in.Root.At(in.Part + "/nodes")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, in.Node.Name+".yaml"), []byte(text), 0o644))
}

func TestTheCurrentNodeIsALinkToTheNodesFile(t *testing.T) {
	in := input(t)
	withNodeFile(t, in, "node: edge-01 # as the user wrote it\n")
	require.NoError(t, Write(in))
	at := in.Root.At("/etc/cluster-config/current-node.yaml")
	target, err := os.Readlink(at)
	require.NoError(t, err)
	require.Equal(t, "nodes/edge-01.yaml", target)
	nodes, err := os.Readlink(in.Root.At("/etc/cluster-config/nodes"))
	require.NoError(t, err)
	require.Equal(t, "/run/spore/cluster/nodes", nodes)
	require.NoFileExists(t, in.Root.At(paths.NodeFile), "the node has a file of its own")
}

// A pushed configuration brings the file of a node, and takes it away.
func TestTheCurrentNodeFollowsTheConfiguration(t *testing.T) {
	in := input(t)
	target := func() string {
		require.NoError(t, Write(in))
		to, err := os.Readlink(in.Root.At("/etc/cluster-config/current-node.yaml"))
		require.NoError(t, err)
		return to
	}
	require.Equal(t, "/run/spore/node.yaml", target())
	withNodeFile(t, in, "node: edge-01\n")
	require.Equal(t, "nodes/edge-01.yaml", target())
	require.NoError(t, os.Remove(in.Root.At(in.Part+"/nodes/edge-01.yaml")))
	require.Equal(t, "/run/spore/node.yaml", target())
}

// Whoever reads current-node.yaml finds a document of the same form on every node: the shortest one that the builder
// takes for a node without a file, with the same result.
func TestANodeWithoutAFileIsToldItsDefaults(t *testing.T) {
	in := input(t)
	require.NoError(t, Write(in))
	said := read(t, in, paths.NodeFile)

	folder := os.DirFS("../../examples/edge")
	with := fstest.MapFS{"nodes/edge-01.yaml": {Data: []byte(said)}}
	without := fstest.MapFS{}
	for _, name := range []string{"cluster.yaml", "image.yaml", "services/dns.yaml", "services/mqtt.yaml"} {
		data, err := fs.ReadFile(folder, name)
		require.NoError(t, err)
		with[name], without[name] = &fstest.MapFile{Data: data}, &fstest.MapFile{Data: data}
	}
	told := func(files fs.FS) []facts.Node {
		c, report := cluster.Load(files)
		require.NoError(t, report.Err())
		_, nodes := cluster.Facts(c)
		return nodes
	}
	require.Equal(t, told(without), told(with))
}

func TestWhatDHCPSaysIsUsedOnlyWhereTheClusterSaysNothing(t *testing.T) {
	in := input(t)
	in.Resolvers, in.SearchDomain = []string{"192.0.2.1"}, "dhcp.example"
	require.NoError(t, WriteResolvers(in))
	require.NotContains(t, read(t, in, "/etc/resolv.conf"), "192.0.2.1")
	in.Cluster.Network.Nameservers = nil
	require.NoError(t, WriteResolvers(in))
	require.Contains(t, read(t, in, "/etc/resolv.conf"), "search plant.example\nnameserver 192.0.2.1\n")
}

func TestANodeThatIsNotInTheHostsFileKnowsItself(t *testing.T) {
	in := input(t)
	in.Hosts = []byte("10.77.0.12 mqtt.plant.example # edge.plant.example\n")
	require.NoError(t, Write(in))
	require.Contains(t, read(t, in, "/etc/hosts"), "127.0.1.1 edge.plant.example edge\n")
}

func TestAMachineThatIsNoNode(t *testing.T) {
	in := input(t)
	in.Node, in.Hosts = nil, nil
	in.Identity = detect.Identity{Seen: detect.Seen{MACs: []string{"52:54:00:77:00:99"}}}
	require.NoError(t, Write(in))
	require.Equal(t, "unknown-770099\n", read(t, in, "/etc/hostname"))
	for _, name := range []string{"node-identity", "current-node.yaml"} {
		_, err := os.Lstat(in.Root.At("/etc/cluster-config/" + name))
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	require.Equal(t, "unknown", Hostname(nil, detect.Identity{}))
}

func TestTimesyncdIsToldAgainWhenTheClockIsRight(t *testing.T) {
	in := input(t)
	in.Cluster.TimeNodes = []facts.TimeNode{{Name: "edge-01", IP: "10.77.0.11"}, {Name: "mqtt-01", IP: "10.77.0.12"}}
	in.ClockWrong = true
	require.NoError(t, Write(in))
	require.Equal(t, "[Time]\nNTP=ntp.example 10.77.0.12\n", read(t, in, timesyncdFile), "a clock that was wrong asks everybody")
	changed, err := WriteTimeServers(in)
	require.NoError(t, err)
	require.False(t, changed)
	in.ClockWrong = false
	changed, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "[Time]\nNTP=ntp.example\n", read(t, in, timesyncdFile), "the first of the time nodes follows none of them")
	in.Node = nil
	_, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.Equal(t, "[Time]\nNTP=ntp.example 10.77.0.11 10.77.0.12\n", read(t, in, timesyncdFile), "a machine that does not match any node may ask all")
}

func TestChronyIsToldWhereItIsInTheImage(t *testing.T) {
	in := input(t)
	require.NoError(t, os.MkdirAll(in.Root.At("/etc/chrony/sources.d"), 0o755))
	in.Cluster.TimeNodes = []facts.TimeNode{{Name: "edge-01", IP: "10.77.0.11"}, {Name: "mqtt-01", IP: "10.77.0.12"}}
	in.ClockWrong = true
	require.NoError(t, Write(in))
	require.Equal(t, "# Written by spore-agent at each boot.\nserver ntp.example iburst\nserver 10.77.0.12 iburst\n", read(t, in, chronyFile))
	_, err := os.Lstat(in.Root.At(timesyncdFile))
	require.ErrorIs(t, err, fs.ErrNotExist, "timesyncd is not in the image")
	changed, err := WriteTimeServers(in)
	require.NoError(t, err)
	require.False(t, changed)
	in.ClockWrong = false
	changed, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "# Written by spore-agent at each boot.\nserver ntp.example iburst\n", read(t, in, chronyFile))
	in.Cluster.Network.NTPServers, in.Cluster.TimeNodes = nil, nil
	_, err = WriteTimeServers(in)
	require.NoError(t, err)
	require.Equal(t, "# Written by spore-agent at each boot.\n", read(t, in, chronyFile))
}
