package cis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheWorkerIsTheOneThatIsNamed(t *testing.T) {
	const configs, units = "../../configs", "../../units"
	e, err := RenderedWith("worker-02", configs, units)
	require.NoError(t, err)
	require.Contains(t, e.Worker.Arguments["kubelet"], "--hostname-override=worker-02")
	require.Contains(t, e.Master.Arguments["kubelet"], "--hostname-override=master-01")
	for path := range e.Worker.Files {
		require.NotContains(t, path, "ceph-osd", "of its other role")
	}
	_, err = RenderedWith("edge-01", configs, units)
	require.EqualError(t, err, "no node edge-01 has the role worker")
}
