package unit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/services/kubernetes/etcd/origin"
)

// start runs the command as etcd.service does, and tells whether the others may be there.
func start(t *testing.T, m *node.Machine) bool {
	t.Helper()
	runtime, state := filepath.Join(t.TempDir(), "etcd"), m.Root.At(origin.Home)
	require.NoError(t, os.MkdirAll(runtime, 0o755))
	require.NoError(t, os.MkdirAll(state, 0o700))
	t.Setenv("RUNTIME_DIRECTORY", runtime)
	t.Setenv("STATE_DIRECTORY", state)
	require.NoError(t, Member(t.Context(), m))
	_, err := os.Stat(filepath.Join(runtime, several))
	return err == nil
}

// started does what etcd does at its first start: a log with an entry (see package origin).
func started(t *testing.T, dir origin.Dir) {
	t.Helper()
	wal := filepath.Join(string(dir), "wal")
	require.NoError(t, os.MkdirAll(wal, 0o700))
	entry := append([]byte{4, 0, 0, 0, 0, 0, 0, 0x84}, 0x08, 2, 0x10, 7, 0, 0, 0, 0)
	require.NoError(t, os.WriteFile(filepath.Join(wal, "0000000000000000-0000000000000000.wal"), entry, 0o600))
}

func TestALonelyMasterFormsAtOnceAndNeedsNoOther(t *testing.T) {
	m := nodetest.Master(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.Root.At(origin.Data))
	require.False(t, start(t, m))
	first, err := dir.Read()
	require.NoError(t, err)
	require.Equal(t, formation.Form, first.Kind)
	require.True(t, first.Alone)
	require.Equal(t, "master-1=https://10.77.0.1:2380", first.InitialCluster())

	// A power cut before etcd has written anything, and others after that.
	require.False(t, start(t, m))
	again, err := dir.Read()
	require.NoError(t, err)
	require.Equal(t, first, again, "it begins the same")
	started(t, dir)
	for range 2 {
		require.False(t, start(t, m))
	}
	again, err = dir.Read()
	require.NoError(t, err)
	require.True(t, again.Ran)
	require.Equal(t, first.Token, again.Token)
}

func TestDataOfAnOlderReleaseJustRuns(t *testing.T) {
	m := nodetest.Master(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.Root.At(origin.Data))
	started(t, dir)
	require.True(t, start(t, m), "nobody knows whether there were other members")
	require.DirExists(t, filepath.Join(string(dir), "wal"))
	o, err := dir.Read()
	require.NoError(t, err)
	require.Nil(t, o)
	file, err := formation.Read(m.Root.At(paths.Formation), "etcd")
	require.NoError(t, err)
	require.True(t, file.Made)
}

func TestAMasterThatGetsCompanyIsNotAloneAnyMore(t *testing.T) {
	root := paths.Root(t.TempDir())
	m := nodetest.Master(t, root, "master-1")
	require.False(t, start(t, m))
	started(t, origin.Dir(m.Root.At(origin.Data)))
	require.True(t, start(t, nodetest.Master(t, root, "master-1", "master-2")))
	// And is never again taken for one that was: the other may be a member still.
	require.NoError(t, os.Remove(m.Root.At(tried)))
	require.True(t, start(t, nodetest.Master(t, root, "master-1")))
}

func TestALonelyMasterThatLostItsDataWaits(t *testing.T) {
	m := nodetest.Master(t, paths.Root(t.TempDir()), "master-1")
	dir := origin.Dir(m.Root.At(origin.Data))
	require.False(t, start(t, m))
	started(t, dir)
	require.False(t, start(t, m))
	require.NoError(t, os.RemoveAll(string(dir)))
	empty, err := dir.Settle()
	require.NoError(t, err)
	require.True(t, empty)
	// What it begins is to join others, which it waits for as spore-etcd, and never to form.
	c, n, err := m.Self()
	require.NoError(t, err)
	o, err := enter(t.Context(), m, c, n, []string{"master-1"}, dir)
	require.NoError(t, err)
	require.Equal(t, formation.Join, o.Kind)
	require.False(t, o.Ran)
}
