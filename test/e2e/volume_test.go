//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/chance"
	"spore/test/kubecluster"
)

const (
	volumesMAC, volumesIP = "52:54:00:77:00:51", "10.77.0.51"
	volumesName           = "volumes-01"
	// volumesMemory is the machine's, in MiB: a control plane and a worker, a monitor, a manager and an OSD.
	volumesMemory = 5120
	// fileSize is that of the file that pods write and read, in bytes.
	fileSize = 32 << 20
	// appending is how long a pod writes before the power goes.
	appending = 20 * time.Second
)

// claims are one that names no class, since that of Ceph's images is the default, and one of a volume for many.
const claims = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec:
  storageClassName: cephfs
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 64Mi}}
`

// claimant has the volumes at /data and /shared and is nobody: what it may write there, it may by the group that kubelet gives the
// volumes.
const claimant = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch}
  containers:
    - name: hello
      image: %s
      imagePullPolicy: IfNotPresent
      volumeMounts: [{name: data, mountPath: /data}, {name: shared, mountPath: /shared}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: data}}
    - {name: shared, persistentVolumeClaim: {claimName: shared}}
`

// volumes is a machine with all of Kubernetes and all of Ceph.
type volumes struct {
	*lab
	// disks are the boot disk and that of the OSD, with logs of what is written to them.
	disks []vm.Disk
	g     *guest
	// hash and shared are those of the files that a pod has written into its own volume and into that for many.
	hash, shared string
	// marks are what was reached after how many CPU seconds of QEMU since power-on.
	marks strings.Builder
}

// One boot proves many things: it is the most of what this costs.
func TestPodsHaveVolumesOfCeph(t *testing.T) {
	v := newVolumes(t)
	v.disks = v.emptyDisks("first")
	for i := range v.disks {
		v.disks[i].WriteLog = v.disks[i].Path + ".writes"
	}
	v.boot("volumes")
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the node is ready and Ceph is up", v.becomesReady},
		{"claims are bound when a pod wants the volumes", v.binds},
		{"the pod writes files", v.writesAFile},
		{"another pod reads them from Ceph", v.readsItElsewhere},
		{"what was synced outlives a power cut", v.outlivesACut},
		{"image and folder go with the claims", v.removes},
	} {
		passed := t.Run(step.name, func(t *testing.T) {
			defer func(outer *testing.T) { v.t, v.g.t = outer, outer }(v.t)
			v.t, v.g.t = t, t
			step.run(t)
		})
		if !passed {
			out, err := v.kubectl("describe", "pods,pvc")
			t.Log(out, err)
			t.Log(v.sh("systemctl --failed; findmnt -o TARGET,SOURCE,OPTIONS | grep /dev/rbd; journalctl -q -b --no-pager -u 'rbd-*' -u 'cephfs-*' | cut -c1-300 | tail -n 60"))
			t.Fatal("the rest stands on this")
		}
	}
	text := fmt.Sprintf("\nOne machine with Kubernetes and Ceph (%s, %d MiB), by QEMU's CPU seconds since power-on\n\n| boot | reached | CPU-s |\n|---|---|---|\n%s", suite.accel.Name, volumesMemory, v.marks.String())
	t.Log(text)
	writeResult("volumes.md", text)
}

// newVolumes makes keys and an image of testdata/volumes.
func newVolumes(t *testing.T) *volumes {
	t.Helper()
	l := &lab{t: t, outer: t, dir: t.TempDir(), bin: t.TempDir()}
	l.image, l.config = filepath.Join(l.dir, "out", "spore.img"), filepath.Join(l.dir, "kubeconfig")
	plant := filepath.Join(l.dir, "plant")
	require.NoError(t, os.CopyFS(plant, os.DirFS("testdata/volumes")))
	l.addHello(plant)
	l.spore("pki", "init", plant, "--plain")
	l.spore("pki", "bundle", plant, "--all", "-o", filepath.Join(l.dir, "bundles"))
	l.spore("build", plant, "-o", filepath.Join(l.dir, "out"), "--pki", plant+".pki")
	require.NoError(t, kubecluster.Programs(context.Background(), sourceTree, l.bin, "kubernetes"))
	return &volumes{lab: l}
}

// emptyDisks are the image on a disk of its own and an empty one for the OSD.
func (v *volumes) emptyDisks(name string) []vm.Disk {
	v.t.Helper()
	system, osd := filepath.Join(v.dir, name+"-system.img"), filepath.Join(v.dir, name+"-osd.img")
	require.NoError(v.t, vm.Copy(v.image, system, kubeDisk))
	require.NoError(v.t, os.WriteFile(osd, nil, 0o600))
	require.NoError(v.t, os.Truncate(osd, osdDisk))
	return []vm.Disk{{Path: system, Serial: "SYSTEM", BootIndex: 1}, {Path: osd, Serial: "OSD-A"}}
}

// boot starts the machine, which belongs to the whole test, and points the operator's kubeconfig at it.
func (v *volumes) boot(name string) {
	v.t.Helper()
	machine := v.smbios(volumesName)
	machine.KernelArguments = []string{"spore.console"}
	v.g = boot(v.outer, vm.Config{
		Name: name, Memory: volumesMemory, CPUs: 2, SMBIOS: machine, Disks: v.disks,
		NICs: []vm.NIC{{MAC: volumesMAC, Net: network, Forwards: []vm.Forward{{Protocol: "tcp", Guest: volumesIP + ":6443"}}}},
	})
	v.g.t = v.t
	api, err := v.g.Address("tcp", volumesIP+":6443")
	require.NoError(v.t, err)
	require.NoError(v.t, os.RemoveAll(v.config))
	v.spore("kubeconfig", filepath.Join(v.dir, "plant"), "--server", "https://"+api, "--lifetime", "4h", "-o", v.config)
	v.g.awaitLine(`login: root \(automatic login\)`)
	v.g.awaitShell()
}

// sh runs a command on the console.
func (v *volumes) sh(command string) string {
	v.t.Helper()
	return strings.Join(v.g.shell(command), "\n")
}

// reached writes down what it took until now.
func (v *volumes) reached(what string) {
	fmt.Fprintf(&v.marks, "| %s | %s | %.0f |\n", v.g.Config.Name, what, v.g.CPU().Seconds())
}

// ready waits for the node and for Ceph.
func (v *volumes) ready() {
	v.t.Helper()
	v.await(kubeLimit, "the node is ready", "True", "get", "node", volumesName, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	v.reached("node ready")
	// Its health is what storage-01 of TestAClusterOfKubernetesFromTheImageAlone is for: images need the pool and its OSD,
	// and no manager.
	v.within(cephStep, "Ceph has its pool and its OSD", func() error {
		got := v.sh("systemctl is-active ceph-bootstrap; ceph --connect-timeout 60 osd stat")
		if !strings.HasPrefix(got, "active\n") || !strings.Contains(got, "1 osds: 1 up") {
			return fmt.Errorf("it says %s", got)
		}
		return nil
	})
	v.reached("Ceph has its pool and its OSD")
}

func (v *volumes) becomesReady(t *testing.T) {
	v.ready()
	require.Equal(t, "ceph-rbd", v.must("get", "storageclass", "-o", `jsonpath={.items[?(@.metadata.annotations.storageclass\.kubernetes\.io/is-default-class=="true")].metadata.name}`))
	v.within(kubeStep, "kubelet has registered both drivers", func() error {
		got, err := v.kubectl("get", "csinode", volumesName, "-o", "jsonpath={.spec.drivers[*].name}")
		if err == nil && len(strings.Fields(got)) != 2 {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})
}

// start makes a pod with the volume and waits for it.
func (v *volumes) start(pod string) {
	v.t.Helper()
	v.apply(fmt.Sprintf(claimant, pod, helloImage))
	v.must("wait", "--for=condition=Ready", "pod/"+pod, "--timeout="+kubeStep.String())
}

func (v *volumes) binds(t *testing.T) {
	v.apply(claims)
	require.Empty(t, v.sh("rbd ls rbd"), "nobody wants the volume yet")
	v.start("writer")
	v.reached("first pod runs with a new volume")
	require.Equal(t, "Bound ceph-rbd", v.must("get", "pvc", "data", "-o", "jsonpath={.status.phase} {.spec.storageClassName}"))
	image := v.must("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	require.Equal(t, image, v.sh("rbd ls rbd"))
	require.Equal(t, "rbd/"+image, v.must("get", "pv", image, "-o", "jsonpath={.spec.csi.volumeHandle}"))
	require.Equal(t, "Bound cephfs", v.must("get", "pvc", "shared", "-o", "jsonpath={.status.phase} {.spec.storageClassName}"))
}

func (v *volumes) writesAFile(t *testing.T) {
	var err error
	v.hash, err = v.in("default/writer", "fill", "/data/object", strconv.Itoa(fileSize))
	require.NoError(t, err)
	require.Regexp(t, `^[0-9a-f]{64}$`, v.hash)
	v.shared, err = v.in("default/writer", "fill", "/shared/object", strconv.Itoa(fileSize))
	require.NoError(t, err)
	_, err = v.in("default/writer", "fill", "/object", "1")
	require.ErrorContains(t, err, "permission denied", "it is nobody elsewhere")
}

func (v *volumes) readsItElsewhere(t *testing.T) {
	require.NotEmpty(t, v.sh("ls /sys/bus/rbd/devices"))
	v.must("delete", "pod", "writer")
	v.within(kubeStep, "the device is given back", func() error {
		if got := v.sh("ls /sys/bus/rbd/devices; findmnt -n -o SOURCE | grep /dev/rbd"); got != "" {
			return fmt.Errorf("there is still %s", got)
		}
		return nil
	})
	v.start("reader")
	v.reached("second pod runs with the volume")
	v.readsBoth()
}

// readsBoth makes sure that the files are as they were written.
func (v *volumes) readsBoth() {
	v.t.Helper()
	for path, want := range map[string]string{"/data/object": v.hash, "/shared/object": v.shared} {
		got, err := v.in("default/reader", "sum", path)
		require.NoError(v.t, err, path)
		require.Equal(v.t, want, got, path)
	}
}

func (v *volumes) outlivesACut(t *testing.T) {
	stop := v.background("default/reader", "append", "/data/lines")
	time.Sleep(appending)
	v.g.off()
	last := -1
	said := stop()
	for _, line := range said {
		if n, err := strconv.Atoi(line); err == nil { // What else is there is kubectl's complaint.
			last = max(last, n)
		}
	}
	require.Greater(t, last, 5, "%v", said)

	after := v.emptyDisks("after")
	seed := chance.Seed(t)
	for i, d := range v.disks {
		log := readLog(t, d.WriteLog)
		cut, err := log.Cut(log.Writes(), seed+uint64(i))
		require.NoError(t, err)
		t.Log(d.Serial, cut)
		replay(t, log, cut, after[i].Path)
		require.NoError(t, os.Remove(d.WriteLog))
	}
	v.disks = after
	v.boot("volumes-after")
	// The pod that had the volume comes back by itself.
	v.within(kubeLimit, "the pod reads its volume again", func() error {
		_, err := v.in("default/reader", "sum", "/data/object")
		return err
	})
	v.reached("the pod reads its volume again")
	v.readsBoth()
	lines, err := v.in("default/reader", "cat", "/data/lines")
	require.NoError(t, err)
	have := strings.Split(lines, "\n")
	require.Greater(t, len(have), last, "%d lines were synced", last+1)
	for i := range last + 1 {
		require.Equal(t, strconv.Itoa(i), have[i])
	}
	t.Logf("%d lines were synced, %d are there", last+1, len(have))
}

func (v *volumes) removes(t *testing.T) {
	require.NotEmpty(t, v.sh("rbd ls rbd"))
	v.must("delete", "pod", "reader")
	require.Contains(t, v.sh("ceph fs subvolume ls files kubernetes"), `"name": "pvc-`)
	v.must("delete", "pvc", "data", "shared")
	v.within(kubeStep, "image and folder are removed", func() error {
		if got := v.sh("rbd ls rbd; ceph fs subvolume ls files kubernetes"); got != "[]" {
			return fmt.Errorf("there is still %s", got)
		}
		return nil
	})
	v.await(kubeStep, "no volume is left", "", "get", "pv", "-o", "name")
	v.reached("claims, volumes, image and folder removed")
	v.g.off()
}
