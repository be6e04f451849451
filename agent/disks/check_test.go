package disks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/datadisk"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestAStoreWaitsForTheDiskThatTheFileOfItsNodeNames(t *testing.T) {
	root := paths.Root(t.TempDir())
	n := &facts.Node{Name: "observer-01", Disks: []spec.Disk{{Use: "state"}, {Use: "kafka"}}}
	require.NoError(t, check(root, n, datadisk.Metrics), "the file gives it none: the state has the data")

	n.Disks = append(n.Disks, spec.Disk{Use: "metrics"})
	const waits = "the file of node observer-01 gives it a disk (use: metrics), and it keeps nothing elsewhere. It waits for " +
		"the disk, and starts when metrics-disks.service has it; attach it, or correct the file: "
	require.ErrorContains(t, check(root, n, datadisk.Metrics), waits+"read what became of the disks (has metrics-disks.service run?): ")

	for name, tt := range map[string]struct {
		infos []datadisk.Info
		want  string
	}{
		"missing":               {[]datadisk.Info{{Number: 1, Problem: `metrics disk 1: no disk has the serial "S1"`}}, `metrics disk 1: no disk has the serial "S1"`},
		"named after the start": {nil, "they were prepared for another configuration; restart the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, datadisk.Write(root, datadisk.Metrics, tt.infos))
			require.EqualError(t, check(root, n, datadisk.Metrics), waits+tt.want)
		})
	}
	for mount, want := range map[string]string{
		"/proc": "", t.TempDir(): "is mounted at ", "/nonexistent/1": "nothing is mounted at /nonexistent/1 any more; restart the machine",
	} {
		require.NoError(t, datadisk.Write(root, datadisk.Metrics, []datadisk.Info{{Number: 1, Mount: mount}}))
		err := check(root, n, datadisk.Metrics)
		if want == "" {
			require.NoError(t, err, "another file system than that of /")
			continue
		}
		require.ErrorContains(t, err, want, "it was pulled out while the node ran")
	}
}

func TestAMachineThatIsNoNodeWaitsForNoDisk(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	nodetest.Is(t, m, "")
	require.NoError(t, Check(m, datadisk.Metrics))
	nodetest.Is(t, m, "node-00001")
	require.NoError(t, Check(m, datadisk.Metrics), "its file names none")
}
