package staged_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/config/staged"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/storage/atomicfile"
	"spore/wire/update"
)

// The message is copied first, and then read from its beginning: what is refused here is what the signed head says.
func TestAMessageOfTheSpoolIsReadFromItsBeginning(t *testing.T) {
	machines, _, tree := nodetest.BrokersWithKeys(t, "10.77.0.11")
	m := machines["kafka-1"]
	hash := func(s string) string { return strings.Repeat(s, 64) }
	index := update.Blob{Size: 12, SHA256: hash("3")}
	head, _, err := tree.SignUpdate(update.Head{
		Nodes: []string{"kafka-2"}, RootHash: hash("a"), ClusterHash: hash("b"), Boot: index,
		Root: update.Root{Size: 4096, Salt: hash("1"), UUID: strings.Repeat("0", 32), Index: index},
		UKI:  update.Blob{Size: 1, SHA256: hash("c")}, Part: update.Blob{Size: 1, SHA256: hash("d")},
	}, time.Now())
	require.NoError(t, err)
	for _, dir := range []string{paths.Push, "/run/spore", "/var/lib/spore", "/sys/block"} {
		require.NoError(t, os.MkdirAll(m.Root.At(dir), 0o755))
	}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Partition}))
	spool := slot.Spool(m.Root.At(paths.Push))
	id, err := spool.Put(bytes.NewReader(head), update.MaxMessage, slot.Wish{})
	require.NoError(t, err)
	require.NoError(t, staged.Spool(t.Context(), m))
	a, err := spool.Answered(id)
	require.NoError(t, err)
	require.Contains(t, a.Error, "the update has no node kafka-1")
}
