package staged_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/config/staged"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
)

func TestWhoTakesNoConfiguration(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	update := filepath.Join(t.TempDir(), "update")
	require.ErrorContains(t, staged.File(t.Context(), m, update, slot.Wish{}, io.Discard), "no such file")
	require.NoError(t, os.WriteFile(update, []byte("text"), 0o600))
	require.ErrorContains(t, staged.File(t.Context(), m, update, slot.Wish{}, io.Discard), "read which node this is")
	nodetest.Is(t, m, "")
	require.ErrorContains(t, staged.File(t.Context(), m, update, slot.Wish{}, io.Discard), "this machine does not match any node, and takes no update")
	nodetest.Is(t, m, "node-00000")
	err := staged.File(t.Context(), m, update, slot.Wish{}, io.Discard)
	require.ErrorContains(t, err, "the update is refused: ")
	require.ErrorContains(t, err, "nothing was changed")
	require.NoError(t, staged.Spool(t.Context(), m), "nothing lies there")
}

func TestTheStatusLineTellsWhichConfigurationRuns(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.Nil(t, staged.Now(m), "stage1 said nothing")
	m.Boot = bootinfo.Info{RootHash: "aa", ClusterHash: "bb"}
	require.Equal(t, "bb", staged.Now(m).ClusterHash)
	require.False(t, staged.Now(m).Trial)
	require.NoError(t, slot.Record{Serial: 7, RootHash: "aa", ClusterHash: "cc", Previous: "bb", State: slot.Staged, BootID: "this"}.Write(m.Root.At(paths.Update)))
	nodetest.Put(t, m, paths.BootID, "this\n")
	require.Equal(t, "cc", staged.Now(m).Staged)
	nodetest.Put(t, m, paths.Update, "no JSON")
	require.Contains(t, staged.Now(m).Problem, "record of what was pushed to it last is damaged: ")
	require.Contains(t, staged.Now(m).Problem, "a push with --force begins a new one")
}
