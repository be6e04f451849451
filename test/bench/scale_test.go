package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
)

func TestAGeneratedClusterIsValidAndItsNodesAreFound(t *testing.T) {
	for _, n := range []int{1, 10, 700} {
		dir := filepath.Join(t.TempDir(), "config")
		require.NoError(t, scaleFolder("../../examples/edge", dir, n))
		c, report := cluster.Check(os.DirFS(dir), cluster.Options{})
		require.NoError(t, report.Err())
		require.Len(t, c.Cluster.Nodes, n)

		part := filepath.Join(t.TempDir(), "part")
		size, err := writePart(dir, part)
		require.NoError(t, err)
		require.Greater(t, size, int64(n)*100)
		d, err := detect(part, n)
		require.NoError(t, err)
		require.Positive(t, d)
		_, err = detect(part, n+1)
		require.ErrorContains(t, err, ` is "", not `, "a node that the part has not")
	}
}

func TestScaleNodesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for i := 1; i <= 10_000; i++ {
		name, mac, ip := scaleNode(i)
		for _, s := range []string{name, mac, ip} {
			require.False(t, seen[s], s)
			seen[s] = true
		}
	}
	require.NotContains(t, seen, "10.64.254.2", "the nameserver is nobody's address")
	require.NotContains(t, seen, "10.64.255.1", "nor is the gateway")
}

func TestScaleTable(t *testing.T) {
	got := scaleTable([]Scale{{Nodes: 10, YAML: 2048, Validate: *seconds2(0.01, 0), Build: *seconds2(0.25, 0), Explain: *seconds2(0.02, 0), Detect: 150 * time.Microsecond}})
	require.Contains(t, got, "| 10 | 2 | 0.01 | 0.25 | 0.02 | 150 | 64 |\n")
}
