//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keeping is a claim that names no class, and a pod with its volume.
const keeping = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch}
  containers:
    - name: hello
      image: spore.local/hello:1
      imagePullPolicy: IfNotPresent
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// fillsAVolume has a pod write into a new volume.
func (l *lab) fillsAVolume(*testing.T) {
	l.apply(keeping)
	l.must("wait", "--for=condition=Ready", "pod/keeper", "--timeout="+kubeLimit.String())
	l.volumeFile.path, l.volumeFile.sum = l.fill("/data/first")
}

// fill writes a file into the volume. It returns its name and the hash of what it has.
func (l *lab) fill(path string) (name, sum string) {
	l.t.Helper()
	l.within(kubeStep, "a file is written", func() (err error) {
		sum, err = l.in("default/keeper", "fill", path, "8388608")
		if err != nil && strings.Contains(err.Error(), "file exists") {
			path += "-again" // A try before was cut short: the file was not acknowledged.
		}
		return err
	})
	return path, sum
}

// has reads a file of the volume.
func (l *lab) has(path, sum string) {
	l.t.Helper()
	l.within(kubeLimit, "the file is read", func() error {
		got, err := l.in("default/keeper", "sum", path)
		if err == nil {
			require.Equal(l.t, sum, got, path)
		}
		return err
	})
}

// keepsItsVolume has the pod read what it wrote before the power cut and the update, and write again. The volume has
// two copies, on the worker and on storage-01: the worker's part of Ceph has outlived both.
func (l *lab) keepsItsVolume(t *testing.T) {
	require.NotEmpty(t, l.volumeFile.sum, "it was written")
	l.has(l.volumeFile.path, l.volumeFile.sum)
	path, sum := l.fill("/data/second")
	defer l.storage.within(t)()
	sh := func(command string) string { return strings.Join(l.storage.g.shell(command), "") }
	object := sh("rados -p rbd ls | grep ^rbd_data | head -n 1")
	require.Regexp(t, `^rbd_data\.`, object)
	var on []string
	l.within(kubeStep, "the object has two copies", func() error {
		mapped := sh("ceph osd map rbd " + object)
		m := regexp.MustCompile(`acting \(\[(\d+),(\d+)\]`).FindStringSubmatch(mapped)
		if m == nil {
			return fmt.Errorf("it is %s", mapped)
		}
		on = m[1:]
		return nil
	})
	var hosts []string
	for _, osd := range on {
		text := sh("ceph osd find " + osd + " -f json; echo") // which ends without a newline
		var found struct{ Host string }
		require.NoError(t, json.Unmarshal([]byte(text), &found), text)
		hosts = append(hosts, found.Host)
	}
	slices.Sort(hosts)
	require.Equal(t, []string{keeperName, workerName}, hosts)
	l.has(path, sum)
	t.Logf("CPU-s at the end: %.0f, %.0f and %.0f", l.master.CPU().Seconds(), l.worker.CPU().Seconds(), l.storage.g.CPU().Seconds())
}
