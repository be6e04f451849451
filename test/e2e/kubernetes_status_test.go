//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nowhere is a pod that no node may take.
const nowhere = `
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: lab}
spec:
  nodeSelector: {spore.example/hall: "9"}
  containers: [{name: hello, image: spore.local/hello:1, imagePullPolicy: IfNotPresent}]
`

// tellsHowKubernetesIs compares what a master says of the cluster, for people without a kubeconfig, with what kubectl says.
func (l *lab) tellsHowKubernetesIs(t *testing.T) {
	l.apply(nowhere)
	var text string
	l.within(kubeStep, "the master tells how Kubernetes is", func() (err error) {
		if text, err = l.asksMaster("kubernetes", "status"); err == nil && !strings.Contains(text, "lab/nowhere") {
			err = fmt.Errorf("the pod that no node may take is not among those that are not well:\n%s", text)
		}
		return err
	})
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Fields(line); len(cells) > 0 {
			rows[cells[0]] = cells
		}
	}
	version := l.must("get", "nodes", masterName, "-o", "jsonpath={.status.nodeInfo.kubeletVersion}")
	for _, node := range []string{masterName, workerName} {
		require.Equal(t, []string{node, "True", version}, rows[node][:3], text)
	}
	deployments := fmt.Sprint(len(strings.Fields(l.must("get", "deployments", "-A", "-o", "name"))))
	require.Equal(t, deployments, rows["Deployment"][1], text)
	require.NotContains(t, rows, "lab/"+strings.TrimPrefix(helloPod, "lab/deployment/"), "what is well has no row")
	require.Contains(t, strings.Join(rows["lab/nowhere"], " "), "Pending", text)
	require.Contains(t, strings.Join(rows["lab/nowhere"], " "), "didn't match Pod's node affinity/selector", text)
	l.must("delete", "pod", "-n", "lab", "nowhere", "--wait=false")
}

// asksMaster runs a command of spore that asks the master.
func (l *lab) asksMaster(command ...string) (string, error) {
	l.t.Helper()
	at, err := l.master.Address("tcp", nodeEnds[masterName])
	require.NoError(l.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), kubeLimit)
	defer cancel()
	args := append(command, filepath.Join(l.dir, "plant"), "--timeout", "2m", "--node", masterName, "--address", masterName+"="+at)
	var said strings.Builder
	cmd := exec.CommandContext(ctx, flashTool(l.t), args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("spore %s: %w\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out), err
}
