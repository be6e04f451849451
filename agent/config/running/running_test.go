package running

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProgramThatSetsTheClockIsRestarted(t *testing.T) {
	plan, chrony := []string{"coredns.service", "systemd-timesyncd.service"}, t.TempDir()
	require.Equal(t, plan, present(plan, filepath.Join(chrony, "gone")))
	require.Equal(t, []string{"coredns.service", "chrony.service"}, present(plan, chrony))
	require.Equal(t, "systemd-timesyncd.service", plan[1], "the plan of the push stays as it is")
	require.Empty(t, present(nil, chrony))
}
