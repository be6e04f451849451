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

// hasAVolume has a pod write into a new volume, whose two copies are on the worker and on storage-01, and read it again. It comes
// after the power cut: the worker's part of Ceph has outlived that.
func (l *lab) hasAVolume(t *testing.T) {
	l.apply(keeping)
	l.must("wait", "--for=condition=Ready", "pod/keeper", "--timeout="+kubeLimit.String())
	path, want := "/data/first", ""
	l.within(kubeStep, "a file is written", func() (err error) {
		want, err = l.in("default/keeper", "fill", path, "8388608")
		if err != nil && strings.Contains(err.Error(), "file exists") {
			path += "-again" // A try before was cut short: the file was not acknowledged.
		}
		return err
	})
	l.keeper.t = t
	l.keeper.awaitShell()
	// Each ceph is a Python that compiles its modules; emulated, that is most of what it does.
	require.NoError(t, l.keeper.Type("export PYTHONPYCACHEPREFIX=/run/console-python\r"))
	sh := func(command string) string { return strings.Join(l.keeper.shell(command), "") }
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
	l.within(kubeStep, "the file is read", func() error {
		got, err := l.in("default/keeper", "sum", path)
		if err == nil {
			require.Equal(t, want, got, path)
		}
		return err
	})
	t.Logf("CPU-s at the end: %.0f, %.0f and %.0f", l.master.CPU().Seconds(), l.worker.CPU().Seconds(), l.keeper.CPU().Seconds())
}
