// Package nspawn runs the nodes of a cluster as containers of systemd-nspawn: the root and the cluster part of an image
// that the builder made, with the units, the agent and the programs that are in it. What a machine gives its node, a
// container gives it as well: a network card with the node's MAC, by which the agent knows it, the bundle as a
// credential of the firmware, a volatile /etc with the machine id of stage1, and a /var that outlives a loss of power.
//
// It leaves out what containers do not have. The firmware, the kernel and stage1 are the host's or nobody's. The one
// disk of a node is mounted by the host, so that spore-state.service and the mount of var.mount are replaced, and
// nothing else is. A loss of power ends all processes at once and loses what they had not synced (see disk). When it
// comes, a seed chooses, which is a new one in each run and printed. What a disk has in a cache of its own is for the
// tests in QEMU.
//
// It needs root, loop devices, and control groups of version 2 (which may lie beside those of version 1), and nothing
// of it is left after the test: see Main.
package nspawn

import (
	crand "crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spore/agent/bootinfo"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/vault"
	"spore/storage/gpt"
	"spore/test/chance"
	"spore/test/program"
)

// bridge is the switch that all nodes and the test are plugged into.
const bridge = "lab"

// sectorSize is that of disk images, in bytes.
const sectorSize = 512

// Numbers of the partitions in an image.
const (
	rootPart    = 2
	clusterPart = 4
)

// Options says what cluster to run.
type Options struct {
	// Source is the folder of the project, Configs that of the cluster's configuration.
	Source, Configs string
	// Secrets are those that the operator brings.
	Secrets map[string]string
	// Masked are units that cannot work in a container, which the nodes do without.
	Masked []string
	// Image keeps the disk image, for nodes that Boot runs as machines.
	Image bool
	// Named has nodes know which image they were started from, as stage1 tells a machine: they say it in their status.
	Named bool
	// Age is how long ago the keys were made: certificates that last for less have ended.
	Age time.Duration
}

// Lab is a cluster whose nodes can be started. The test itself has the address of the cluster's first gateway.
type Lab struct {
	Cluster facts.Cluster
	Keys    *pki.Tree
	nodes   []*Node
	t       *testing.T
	// root and part are the unpacked root and cluster part.
	root, part string
	// program is the path of spore, which an operator has.
	program string
	options Options
	dir     string
	// started is what nodes know of the image; nothing, unless they are to.
	started bootinfo.Info
	// random chooses when the power goes.
	random *rand.Rand
}

// New builds the image of a configuration with keys of its own, unpacks it and lays the network. No node runs yet. Only
// one lab can be there at a time. The test is skipped where it may not make namespaces.
func New(t *testing.T, o Options) *Lab {
	t.Helper()
	if os.Getenv(stageVariable) != stageTests {
		require.NotZero(t, os.Geteuid(), "the tests of this package must be run by nspawn.Main")
		t.Skip("only root may make the namespaces of containers")
	}
	began := time.Now()
	config, report := cluster.LoadDir(o.Configs)
	require.NoError(t, report.Err())
	dir := t.TempDir()
	l := &Lab{
		t: t, root: filepath.Join(dir, "root"), part: filepath.Join(dir, "cluster"), options: o, dir: dir,
		random: rand.New(rand.NewPCG(chance.Seed(t), 0)),
	}
	var nodes []facts.Node
	l.Cluster, nodes = cluster.Facts(config)
	l.build(o, dir)
	if o.Named {
		l.name()
	}
	built := time.Now()
	l.unpack(l.image(), map[int]string{rootPart: l.root, clusterPart: l.part})
	l.plugIn()
	for _, f := range nodes {
		l.nodes = append(l.nodes, l.newNode(f, filepath.Join(dir, f.Name)))
	}
	t.Logf("image built in %.1f s, unpacked in %.1f s", built.Sub(began).Seconds(), time.Since(built).Seconds())
	return l
}

// image is the file of the disk image.
func (l *Lab) image() string { return filepath.Join(l.dir, "out", "spore.img") }

// name reads which image it is.
func (l *Lab) name() {
	l.t.Helper()
	out, err := exec.Command(l.program, "inspect", l.image(), "--json").Output()
	require.NoError(l.t, err)
	var said struct{ Image bootinfo.Info }
	require.NoError(l.t, json.Unmarshal(out, &said), "%s", out)
	// It was read from no disk of the node.
	l.started = bootinfo.Info{RootHash: said.Image.RootHash, ClusterHash: said.Image.ClusterHash}
	require.NotEmpty(l.t, l.started.ClusterHash, "%s", out)
}

// build does what an operator does.
func (l *Lab) build(o Options, dir string) {
	l.t.Helper()
	configs, err := filepath.Abs(o.Configs)
	require.NoError(l.t, err)
	l.program, err = program.SporeBy(o.Source, func(folder, name string, args ...string) error {
		l.onHost(folder, name, args...)
		return nil
	})
	require.NoError(l.t, err)
	keys := filepath.Join(dir, "keys")
	args := []string{"pki", "init", configs, "--plain", "--dir", keys}
	for name, value := range o.Secrets {
		file := filepath.Join(dir, name)
		require.NoError(l.t, os.WriteFile(file, []byte(value), 0o600))
		args = append(args, "--secret", name+"="+file)
	}
	l.onHost(o.Source, l.program, args...)
	if o.Age > 0 {
		l.age(keys, o)
	}
	l.onHost(o.Source, l.program, "build", configs, "-o", filepath.Join(dir, "out"), "--pki", keys, "--format", "disk")
	v, err := vault.Open(keys, vault.Keys{})
	require.NoError(l.t, err)
	l.Keys = v.Tree
	require.NoError(l.t, v.Close())
}

// age puts keys that were made a while ago in the place of those in a folder.
func (l *Lab) age(keys string, o Options) {
	l.t.Helper()
	config, report := cluster.LoadDir(o.Configs)
	require.NoError(l.t, report.Err())
	shared, nodes := cluster.Facts(config)
	v, err := vault.Open(keys, vault.Keys{})
	require.NoError(l.t, err)
	defer v.Close()
	made := pki.Options{Now: time.Now().Add(-o.Age), Random: crand.Reader, Given: map[string]pki.Hidden{}}
	for name, value := range o.Secrets {
		made.Given[name] = pki.Hidden(value)
	}
	v.Tree = pki.New(&shared)
	_, err = v.Tree.Update(&shared, nodes, made)
	require.NoError(l.t, err)
	require.NoError(l.t, v.Save())
}

// keep writes the keys back to their folder, as the operator's commands do: bundles that the test has made count.
func (l *Lab) keep() {
	l.t.Helper()
	v, err := vault.Open(filepath.Join(l.dir, "keys"), vault.Keys{})
	require.NoError(l.t, err)
	defer v.Close()
	v.Tree = l.Keys
	require.NoError(l.t, v.Save())
}

// onHost runs a program in the host's network, where the archive of packages is.
func (l *Lab) onHost(folder, name string, args ...string) {
	l.t.Helper()
	// A copy, since a file closes its descriptor when it is collected, and the next lab needs it too.
	network, err := unix.FcntlInt(hostNetwork, unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(l.t, err)
	file := os.NewFile(uintptr(network), "the host's network")
	defer file.Close()
	cmd := exec.Command("nsenter", append([]string{"--net=/proc/self/fd/" + fmt.Sprint(hostNetwork), "--", name}, args...)...)
	cmd.Dir = folder
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.CombinedOutput()
	require.NoError(l.t, err, "%s %v\n%s", name, args, out)
}

// Reconfigure gives every node another configuration of the same nodes, and what it is to have of the keys, at its next
// start.
func (l *Lab) Reconfigure(configs string) {
	l.t.Helper()
	// Nodes that run have the former one mounted.
	l.part = l.rebuild(configs, clusterPart)[clusterPart]
	for _, n := range l.nodes {
		n.NewBundle()
	}
}

// Update gives every node another root and another configuration of the same nodes at its next start, as an update does,
// which brings no keys. It returns what a way back does: all nodes have at their next start what they had before.
func (l *Lab) Update(configs string) (back func()) {
	l.t.Helper()
	root, part, shared := l.root, l.part, l.Cluster
	nodes := map[*Node]facts.Node{}
	for _, n := range l.nodes {
		nodes[n] = n.Facts
	}
	got := l.rebuild(configs, rootPart, clusterPart)
	l.root, l.part = got[rootPart], got[clusterPart]
	return func() {
		l.root, l.part, l.Cluster = root, part, shared
		for n, f := range nodes {
			n.Facts = f
		}
	}
}

// rebuild builds the image of another configuration of the same nodes, and returns where partitions of it are unpacked,
// by their numbers. The nodes are those of that configuration from now on.
func (l *Lab) rebuild(configs string, parts ...int) map[int]string {
	l.t.Helper()
	config, report := cluster.LoadDir(configs)
	require.NoError(l.t, report.Err())
	var nodes []facts.Node
	l.Cluster, nodes = cluster.Facts(config)
	require.Len(l.t, nodes, len(l.nodes))
	_, err := l.Keys.Update(&l.Cluster, nodes, pki.Options{Now: time.Now(), Random: crand.Reader})
	require.NoError(l.t, err)
	absolute, err := filepath.Abs(configs)
	require.NoError(l.t, err)
	out, err := os.MkdirTemp(l.dir, "out")
	require.NoError(l.t, err)
	l.onHost(l.options.Source, l.program, "build", absolute, "-o", out, "--pki", filepath.Join(l.dir, "keys"), "--format", "disk")
	into := map[int]string{}
	for _, number := range parts {
		into[number] = filepath.Join(out, fmt.Sprintf("part-%d", number))
	}
	l.unpack(filepath.Join(out, "spore.img"), into)
	for _, f := range nodes {
		l.Node(f.Name).Facts = f
	}
	return into
}

// unpack takes partitions out of a disk image, which is then removed.
func (l *Lab) unpack(image string, into map[int]string) {
	l.t.Helper()
	f, err := os.Open(image)
	require.NoError(l.t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(l.t, err)
	table, err := gpt.Read(f, info.Size(), sectorSize)
	require.NoError(l.t, err)
	for _, p := range table.Partitions {
		if into[p.Number] == "" {
			continue
		}
		out, err := exec.Command("unsquashfs", "-quiet", "-no-progress", "-offset", fmt.Sprint(p.Start), "-dest", into[p.Number], image).CombinedOutput()
		require.NoError(l.t, err, "unpack partition %d of the image (run make deps)\n%s", p.Number, out)
	}
	for _, dir := range into {
		require.DirExists(l.t, dir)
	}
	if !l.options.Image {
		require.NoError(l.t, os.Remove(image))
	}
}

// plugIn makes the bridge, with the test's own address on it.
func (l *Lab) plugIn() {
	l.t.Helper()
	subnet, err := netip.ParsePrefix(l.Cluster.Network.NodeSubnets[0])
	require.NoError(l.t, err)
	require.NotEmpty(l.t, l.Cluster.Network.Gateways, "the test takes the address of the cluster's first gateway")
	lo, err := netlink.LinkByName("lo")
	require.NoError(l.t, err)
	require.NoError(l.t, netlink.LinkSetUp(lo))
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
	require.NoError(l.t, netlink.LinkAdd(br))
	l.t.Cleanup(func() { require.NoError(l.t, netlink.LinkDel(br)) })
	address, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", l.Cluster.Network.Gateways[0], subnet.Bits()))
	require.NoError(l.t, err)
	require.NoError(l.t, netlink.AddrAdd(br, address))
	require.NoError(l.t, netlink.LinkSetUp(br))
}

// cable makes a network card with a MAC and plugs it into the bridge.
func (l *Lab) cable(card, port, mac string) error {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: card, HardwareAddr: hw}, PeerName: port}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make the network card of a node: %w", err)
	}
	return plug(port)
}

// plug plugs the end of a cable into the bridge.
func plug(port string) error {
	end, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	br, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(end, br); err != nil {
		return err
	}
	return netlink.LinkSetUp(end)
}

// cut removes a cable, if there is one. A card would otherwise live until the kernel has taken down its container's
// network.
func cut(port string) {
	if end, err := netlink.LinkByName(port); err == nil {
		_ = netlink.LinkDel(end)
	}
}

// Step is a subtest in which what cannot be done ends the subtest. Those that follow stand on it, so that the test ends
// with it.
func (l *Lab) Step(name string, step func(t *testing.T)) {
	l.t.Helper()
	outer := l.t
	passed := outer.Run(name, func(t *testing.T) {
		l.t = t
		defer func() { l.t = outer }()
		step(t)
	})
	if !passed {
		outer.FailNow()
	}
}

// Nodes are all nodes, as cluster.yaml has them.
func (l *Lab) Nodes() []*Node { return l.nodes }

// Node is a node by its name.
func (l *Lab) Node(name string) *Node {
	l.t.Helper()
	for _, n := range l.nodes {
		if n.Facts.Name == name {
			return n
		}
	}
	require.FailNow(l.t, "no node "+name)
	return nil
}

// StartAll starts nodes at once, all that there are when none is named, and waits until each runs.
func (l *Lab) StartAll(names ...string) {
	l.t.Helper()
	which := l.nodes
	if len(names) > 0 {
		which = nil
		for _, name := range names {
			which = append(which, l.Node(name))
		}
	}
	for _, n := range which {
		n.Start()
	}
	for _, n := range which {
		n.Running()
	}
}

// Authority is what a client trusts that knows one authority of the cluster.
func (l *Lab) Authority(name string) *x509.CertPool {
	l.t.Helper()
	pool := x509.NewCertPool()
	require.True(l.t, pool.AppendCertsFromPEM(l.Keys.Public().Files()[pki.PublicDir+"/"+name+".crt"]), name)
	return pool
}
