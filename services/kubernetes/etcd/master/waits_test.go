package master_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/services/kubernetes/etcd/master/mastertest"
)

func TestAWaitIsSaidOnceAndGoneAtItsEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes the status line")
	}
	m := mastertest.New(t, "master-1")
	var said []string
	m.Say = func(s string) { said = append(said, s) }
	file := filepath.Join(m.Root.At(paths.Waiting), "etcd")
	m.WaitsFor("etcd", "waiting for master-2")
	m.WaitsFor("etcd", "waiting for master-2")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "waiting for master-2", string(data))
	require.Equal(t, []string{"waiting for master-2"}, said)
	m.WaitsFor("etcd", "")
	require.NoFileExists(t, file)
}
