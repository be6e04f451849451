//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// masterMemory is the most that a master may take with all that runs on it but pods and what brings them volumes, in MB. It took 879 before nodes had an API,
// snapshots and a shared address, and 922 with them; one that was asked by others at the same time took 20 more. Without huge
// pages for everybody it takes 89 less.
const masterMemory = 880

// ofPods are the programs that are there because of a pod: runc begins it, and each program that is run in it.
var ofPods = []string{"hello", "pause", "containerd-shim-runc-v2", "runc"}

// ofVolumes are the programs that a master has beside those because pods have volumes of Ceph.
var ofVolumes = []string{"csi-provisioner", "spore-rbd"}

// memory is the proportional set size of a program in kB, and how much of it is no file's.
type memory struct{ All, Anonymous int }

func (m memory) and(o memory) memory { return memory{m.All + o.All, m.Anonymous + o.Anonymous} }

// row is one of the table, in MB.
func (m memory) row(name string) string {
	mb := func(kb int) float64 { return float64(kb) * 1024 / 1e6 }
	return fmt.Sprintf("| %s | %.0f | %.0f |\n", name, mb(m.All), mb(m.Anonymous))
}

// fitsIntoMemory prints what the programs of both nodes take, and bounds what those of the master do.
func (l *lab) fitsIntoMemory(t *testing.T) {
	master := l.memory(masterName, lookMaster)
	l.memory(workerName, lookWorker)
	require.Less(t, float64(master.All)*1024/1e6, float64(masterMemory), "MB of a master")
}

// memory is what all programs of a node take but those of pods and of volumes.
func (l *lab) memory(node, pod string) memory {
	l.t.Helper()
	out, err := l.in(pod, "node", "/host")
	require.NoError(l.t, err)
	var n struct{ Memory map[string]memory }
	require.NoError(l.t, json.Unmarshal([]byte(out), &n))
	var b strings.Builder
	fmt.Fprintf(&b, "\nMemory of the programs of %s in MB (PSS)\n\n| program | all | of it no file's |\n|---|---|---|\n", node)
	var own, pods, volumes memory
	for _, name := range slices.Sorted(maps.Keys(n.Memory)) {
		m := n.Memory[name]
		b.WriteString(m.row(name))
		switch {
		case slices.Contains(ofPods, name):
			pods = pods.and(m)
		case slices.Contains(ofVolumes, name):
			volumes = volumes.and(m)
		default:
			own = own.and(m)
		}
	}
	b.WriteString(own.row("all but those of pods and of volumes") + own.and(volumes).row("all but those of pods") + own.and(volumes).and(pods).row("all"))
	fmt.Print(b.String())
	writeResult("memory-"+node+".md", b.String())
	return own
}
