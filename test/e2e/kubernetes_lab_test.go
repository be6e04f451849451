//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/oci"
	plan "spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/test/kubecluster"
)

const (
	// The machines are those of configs/: the worker keeps a part of Ceph's data, storage-01 the other.
	masterMAC, masterIP = "52:54:00:77:00:11", "10.77.0.11"
	workerMAC, workerIP = "52:54:00:77:00:13", "10.77.0.13"
	keeperMAC, keeperIP = "52:54:00:77:00:15", "10.77.0.15"
	masterName          = "master-01"
	workerName          = "worker-02"
	keeperName          = "storage-01"
	// apiEnd is the master's API.
	apiEnd = masterIP + ":6443"
	// labDomain is the domain of the nodes.
	labDomain = "plant.example."
	// helloImage is the image of test/hello.
	helloImage = "spore.local/hello:1"
	// kubeLimit is how long what Kubernetes does may take in emulation, from the power-on of both machines: five times of
	// what it takes on a host that does nothing else.
	kubeLimit = 25 * time.Minute
	// kubeStep bounds one thing that it does when it runs.
	kubeStep = 10 * time.Minute
	// kubeDisk is the size of a node's disk in bytes.
	kubeDisk = 16 << 30
)

// lab is the shipped cluster with keys, an image of it and three of its machines on one network.
type lab struct {
	// t is the test or the step that runs, outer the whole test, which the machines belong to.
	t, outer *testing.T
	dir, bin string
	// disks is the folder of Ceph's disks.
	disks string
	// image is what the disks are written with, next the folder of the image that the nodes are updated to.
	image, next, config string
	// nextRoot is the root hash of that image, as the nodes say it.
	nextRoot string
	// volumeFile is what a pod has written into a volume before the power cut.
	volumeFile     struct{ path, sum string }
	observer       *observer
	master, worker *guest
	// storage is the machine with Ceph's monitor and the half of its data that the worker has not.
	storage *storage
	// Of each machine the first disk is the one that it is started from; the others are for Ceph.
	masterDisk               vm.Disk
	workerDisks, keeperDisks []vm.Disk
	// shared and nodes are what the configuration says of the cluster and of each node.
	shared facts.Cluster
	nodes  []facts.Node
	// gateway is the cable between the network and the user-mode network of the host, by which the operator comes in.
	masterLink, workerLink, keeperLink, gateway vm.Link
	// rtc is the time of the master's clock at power-on; the host's when empty.
	rtc string
}

// newLab makes keys and images. SPORE_LAB names a folder that is kept and used again: for work on the tests themselves.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, outer: t, dir: os.Getenv("SPORE_LAB")}
	if l.dir == "" {
		l.dir = t.TempDir()
	}
	l.image, l.next = filepath.Join(l.dir, "older", "spore.img"), filepath.Join(l.dir, "out")
	l.config = filepath.Join(l.dir, "kubeconfig")
	if _, err := os.Stat(l.image); err != nil {
		l.build()
	}
	l.bin, l.disks = t.TempDir(), t.TempDir()
	require.NoError(t, kubecluster.Programs(context.Background(), sourceTree, l.bin, "kubernetes"))
	l.observer = newObserver()
	l.masterLink, l.workerLink = l.observer.plug(t), l.observer.plug(t)
	l.keeperLink, l.gateway = l.observer.plug(t), l.observer.plug(t)
	config, report := cluster.LoadDir(filepath.Join(l.dir, "plant"))
	require.NoError(t, report.Err())
	l.shared, l.nodes = cluster.Facts(config)
	return l
}

// build is what a user does, with an image of the test's, the observer as nameserver, the factor of emulated machines,
// and a short trial. The machines begin with an older image, as somebody built it some weeks before.
func (l *lab) build() {
	plant := filepath.Join(l.dir, "plant")
	require.NoError(l.t, os.CopyFS(plant, os.DirFS(filepath.Join(sourceTree, "configs"))))
	l.edit(filepath.Join(plant, "cluster.yaml"), "nameservers: [10.77.0.16]", "nameservers: ["+observerIP.String()+"]")
	l.edit(filepath.Join(plant, "cluster.yaml"), "domain: plant.example\n", "domain: plant.example\n\ntrialSettle: 1\n")
	l.edit(filepath.Join(plant, "services", "kubernetes.yaml"), "# slowMachine: 5", "slowMachine: 5")
	l.edit(filepath.Join(plant, "services", "ceph.yaml"), "# filesystems:\n#   - name: files\n#     kubernetes: true", "filesystems:\n  - name: files\n    kubernetes: true")
	l.edit(filepath.Join(plant, "nodes", keeperName+".yaml"), "disks:\n  - use: osd\n    selector: {serial: OSD-STORAGE-01}\n", keeperDisks)
	l.addHello(plant)
	l.addManifest(plant)
	l.spore("pki", "init", plant, "--plain")
	l.spore("pki", "bundle", plant, "--all", "-o", filepath.Join(l.dir, "bundles"))
	l.spore("build", plant, "-o", l.next, "--pki", plant+".pki")
	olderImage(l.t, filepath.Dir(l.image), plant, plant+".pki")
}

// addHello has the nodes of a configuration bring the image of test/hello.
func (l *lab) addHello(plant string) {
	l.t.Helper()
	l.edit(filepath.Join(plant, "services", "kubernetes.yaml"), "images: []", "images: [images/hello.tar]")
	hello := filepath.Join(l.dir, "hello")
	l.run(exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", hello, "../hello"), "CGO_ENABLED=0")
	program, err := os.ReadFile(hello)
	require.NoError(l.t, err)
	var archive bytes.Buffer
	_, err = oci.Program(&archive, program, oci.ProgramOptions{Image: helloImage, Name: "hello"})
	require.NoError(l.t, err)
	require.NoError(l.t, os.Mkdir(filepath.Join(plant, "images"), 0o755))
	require.NoError(l.t, os.WriteFile(filepath.Join(plant, "images", "hello.tar"), archive.Bytes(), 0o644))
}

// edit replaces what is in a file once.
func (l *lab) edit(path, old, with string) {
	l.t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(l.t, err)
	require.Equal(l.t, 1, strings.Count(string(data), old), "%q in %s", old, path)
	require.NoError(l.t, os.WriteFile(path, []byte(strings.Replace(string(data), old, with, 1)), 0o644))
}

func (l *lab) spore(args ...string) {
	l.t.Helper()
	require.NoError(l.t, spore(args...))
}

func (l *lab) run(cmd *exec.Cmd, env ...string) {
	l.t.Helper()
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(l.t, err, "%s\n%s", strings.Join(cmd.Args, " "), out)
}

// smbios is a machine that has the bundle of a node.
func (l *lab) smbios(node string) vm.SMBIOS {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, "bundles", node+".bundle"))
	require.NoError(l.t, err)
	return vm.SMBIOS{Serial: "SPORE-" + node, Credentials: map[string][]byte{"spore.bundle": data}}
}

// bootMaster starts the master from its disk and points the operator's kubeconfig at it.
func (l *lab) bootMaster() {
	l.t.Helper()
	l.master = boot(l.t, vm.Config{
		Name: masterName, Memory: 3072, RTC: l.rtc, Disks: []vm.Disk{l.masterDisk}, SMBIOS: l.smbios(masterName),
		NICs: []vm.NIC{
			{MAC: masterMAC, Links: []vm.Link{l.masterLink}},
			{Net: network, Hub: 1, Links: []vm.Link{l.gateway}, Forwards: []vm.Forward{
				{Protocol: "tcp", Guest: apiEnd},
				{Protocol: "tcp", Guest: nodeEnds[masterName]}, {Protocol: "tcp", Guest: nodeEnds[workerName]},
				{Protocol: "tcp", Guest: keeperEnd},
			}},
		},
	})
	api, err := l.master.Address("tcp", apiEnd)
	require.NoError(l.t, err)
	require.NoError(l.t, os.RemoveAll(l.config))
	l.spore("kubeconfig", filepath.Join(l.dir, "plant"), "--server", "https://"+api, "--lifetime", "4h", "-o", l.config)
}

// bootWorker starts the worker from its first disk.
func (l *lab) bootWorker() {
	l.t.Helper()
	l.worker = boot(l.t, vm.Config{
		Name: workerName, Memory: l.memoryOf(workerName), Disks: l.workerDisks, SMBIOS: l.smbios(workerName),
		NICs: []vm.NIC{{MAC: workerMAC, Links: []vm.Link{l.workerLink}}},
	})
}

// memoryOf is what spore boot gives a node.
func (l *lab) memoryOf(node string) int {
	l.t.Helper()
	i := slices.IndexFunc(l.nodes, func(n facts.Node) bool { return n.Name == node })
	require.GreaterOrEqual(l.t, i, 0, node)
	return plan.Memory(&l.shared, &l.nodes[i])
}

// osdDisk is an empty disk for Ceph, whose writes are recorded.
func (l *lab) osdDisk(serial string) vm.Disk {
	l.t.Helper()
	path := filepath.Join(l.disks, serial+".img")
	require.NoError(l.t, os.WriteFile(path, nil, 0o600))
	require.NoError(l.t, os.Truncate(path, osdDisk))
	return vm.Disk{Path: path, Serial: serial, WriteLog: path + ".writes"}
}

// newDisk is a disk over the image.
func (l *lab) newDisk(serial string) vm.Disk {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), serial+".qcow2")
	require.NoError(l.t, vm.Overlay(context.Background(), l.image, path, kubeDisk))
	return vm.Disk{Path: path, Format: "qcow2", Serial: serial, BootIndex: 1}
}

// kubectl runs our own kubectl as the operator.
func (l *lab) kubectl(args ...string) (string, error) { return l.kubectlWith("", args...) }

// kubectlWith asks again when its question never reached the server: kubectl gives a handshake ten seconds, which a
// busy emulated master does not always keep, and that says nothing of what is asked.
func (l *lab) kubectlWith(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), kubeStep)
	defer cancel()
	for {
		cmd := l.command(ctx, args...)
		cmd.Stdin = strings.NewReader(input)
		var out, bad bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &bad
		err := cmd.Run()
		if err == nil {
			return out.String(), nil
		}
		if ctx.Err() != nil || !strings.Contains(bad.String(), "TLS handshake timeout") {
			return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(bad.String()))
		}
	}
}

func (l *lab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "usr", "bin", "kubectl"), append([]string{"--kubeconfig", l.config}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// must is kubectl that has to work.
func (l *lab) must(args ...string) string {
	l.t.Helper()
	out, err := l.kubectl(args...)
	require.NoError(l.t, err)
	return strings.TrimSpace(out)
}

// apply makes objects.
func (l *lab) apply(objects string) {
	l.t.Helper()
	_, err := l.kubectlWith(objects, "apply", "-f", "-")
	require.NoError(l.t, err)
}

// within tries until there is no error any more.
func (l *lab) within(limit time.Duration, what string, try func() error) {
	l.t.Helper()
	end := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			require.NoError(l.t, err, "%s, after %s", what, limit)
		}
		time.Sleep(2 * time.Second)
	}
}

// await asks kubectl until the answer is the wanted one.
func (l *lab) await(limit time.Duration, what, want string, args ...string) {
	l.t.Helper()
	l.within(limit, what, func() error {
		got, err := l.kubectl(args...)
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("want %q, got %q", want, got)
		}
		return err
	})
}

// ready waits for both nodes.
func (l *lab) ready() {
	l.t.Helper()
	l.await(kubeLimit, "both nodes are ready", masterName+"=True "+workerName+"=True", "get", "nodes", "-o",
		`jsonpath={.items[0].metadata.name}={.items[0].status.conditions[?(@.type=="Ready")].status} {.items[1].metadata.name}={.items[1].status.conditions[?(@.type=="Ready")].status}`)
}

// in runs hello in a pod.
func (l *lab) in(pod string, args ...string) (string, error) {
	namespace, name, _ := strings.Cut(pod, "/")
	out, err := l.kubectl(append([]string{"exec", "-n", namespace, name, "--", "/hello"}, args...)...)
	return strings.TrimSpace(out), err
}

// fetches asks for a URL in a pod and holds the answer against the wanted beginning.
func (l *lab) fetches(pod, url, want string) error {
	got, err := l.in(pod, "fetch", url)
	if err == nil && !strings.HasPrefix(got, want) {
		err = fmt.Errorf("%s gives %q in %s", url, got, pod)
	}
	return err
}

// noRegistryWasAsked holds what the observer saw.
func (l *lab) noRegistryWasAsked() {
	l.t.Helper()
	require.Empty(l.t, l.observer.connections(), "connections to what every foreign name resolves to; names asked for: %v", l.observer.names())
}

// background runs hello in a pod until stop, which returns its lines.
func (l *lab) background(pod string, args ...string) (stop func() []string) {
	l.t.Helper()
	namespace, name, _ := strings.Cut(pod, "/")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := l.command(ctx, append([]string{"exec", "-n", namespace, name, "--", "/hello"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(l.t, cmd.Start())
	l.t.Cleanup(cancel)
	return func() []string {
		cancel()
		err := cmd.Wait()
		var exit *exec.ExitError
		require.True(l.t, err == nil || errors.As(err, &exit) || errors.Is(err, context.Canceled), "%v", err)
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
}
