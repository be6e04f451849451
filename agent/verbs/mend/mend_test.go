package mend

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs/majority"
)

func TestWhatAVerbLeftBehindIsMended(t *testing.T) {
	for result, leaves := range map[string]bool{"success": true, "signal": false, "timeout": false, "": false} {
		t.Run(result, func(t *testing.T) {
			m := node.New("test", paths.Root(t.TempDir()))
			var said []string
			m.Say = func(text string) { said = append(said, text) }
			m.Mark(paths.Leaving, true)
			require.NoError(t, os.MkdirAll(m.Root.At(paths.Paused), 0o700))
			require.NoError(t, os.WriteFile(m.Root.At(paths.Paused)+"/units-1", []byte(`{"units": ["etcd.service"]}`), 0o600))
			var started []string
			start := func(_ context.Context, unit string) error { started = append(started, unit); return nil }
			require.NoError(t, after(t.Context(), m, result, start))
			require.Equal(t, []string{"etcd.service"}, started)
			require.Equal(t, []string{"etcd.service is started again: a verb that had stopped it was cut off"}, said)
			require.Equal(t, leaves, majority.Leaves(m), "only a machine that is about to go is still leaving")
			require.NoError(t, after(t.Context(), m, result, start))
			require.Len(t, started, 1)
		})
	}
}
