package disks

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/cluster/spec"
)

func TestResetRefuses(t *testing.T) {
	m, _ := nodetest.New(t, 3)
	require.NoError(t, os.MkdirAll(m.Root.At("/sys/block"), 0o755))
	require.NoError(t, os.MkdirAll(m.Root.At("/run/udev"), 0o755))
	reset := func() error { return Reset(m, spec.DiskSelector{Serial: "S1"}, false) }
	nodetest.Is(t, m, "")
	require.ErrorContains(t, reset(), "this machine is no node")
	nodetest.Is(t, m, "node-00001")
	require.ErrorContains(t, reset(), `no disk has the serial "S1"`)
	require.ErrorContains(t, reset(), "nothing was changed")
}
