package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheExampleOfOwnProgramsIsValidAndPinned(t *testing.T) {
	const dir = "../examples/own-programs"
	c, report := Check(os.DirFS(dir), Options{})
	require.Empty(t, report.String())
	require.Equal(t, []string{"recorder", "report"}, c.List().OwnNames())
	script, err := os.ReadFile(dir + "/programs/report.sh")
	require.NoError(t, err)
	sum := sha256.Sum256(script)
	require.Equal(t, hex.EncodeToString(sum[:]), c.Programs[0].File.SHA256, "write it into programs/report.yaml")
	require.Equal(t, []string{"recorder.service", "report.service", "report.timer"}, c.RoleUnits())
}
