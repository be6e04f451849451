package staged_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/config/staged"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
	"spore/agent/spare"
	"spore/agent/state"
	"spore/services/dataversion"
	"spore/storage/atomicfile"
)

var (
	runningRoot = strings.Repeat("a", 64)
	otherRoot   = strings.Repeat("b", 64)
	runningPart = strings.Repeat("c", 64)
)

// noting is a node with state that UEFI firmware started, and what it says.
func noting(t *testing.T) (*node.Machine, *[]string) {
	t.Helper()
	machines, _, _ := nodetest.BrokersWithKeys(t, "10.77.0.11")
	m := machines["kafka-1"]
	m.Boot = bootinfo.Info{EFI: true, RootHash: runningRoot, ClusterHash: runningPart}
	for _, dir := range []string{paths.EFIVars, "/run/spore", "/var/lib/spore", "/sys/block"} {
		require.NoError(t, os.MkdirAll(m.Root.At(dir), 0o755))
	}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Partition}))
	nodetest.Put(t, m, dataversion.ManifestPath, "{}")
	said := &[]string{}
	m.Say = func(s string) { *said = append(*said, s) }
	return m, said
}

func note(t *testing.T, m *node.Machine, root string) {
	t.Helper()
	_, err := spare.Keep(m.Root.At(paths.EFIVars), root, runningPart, "spore_1.efi")
	require.NoError(t, err)
}

func noted(t *testing.T, m *node.Machine) spare.Note {
	t.Helper()
	n, err := spare.Read(m.Root.At(paths.EFIVars))
	require.NoError(t, err)
	return n
}

func TestASystemWithoutAWayBackNotesNone(t *testing.T) {
	m, said := noting(t)
	note(t, m, runningRoot)
	require.NoError(t, staged.NoteWayBack(t.Context(), m))
	require.Equal(t, spare.Note{}, noted(t, m), "an earlier note goes: push --back would be refused")
	require.Empty(t, *said)
}

func TestTheNoteOfASystemThatCannotBeStartedStaysAndIsToldOf(t *testing.T) {
	m, said := noting(t)
	note(t, m, otherRoot)
	for range spare.Tries {
		_, _, err := spare.Begin(m.Root.At(paths.EFIVars), otherRoot, runningPart)
		require.NoError(t, err)
	}
	require.NoError(t, staged.NoteWayBack(t.Context(), m))
	require.True(t, noted(t, m).Is(otherRoot, runningPart), "each restart takes the damaged one first")
	require.Len(t, *said, 1)
	require.Contains(t, (*said)[0], "the root bbbbbbbbbbbbbbbb… and the configuration cccccccccccccccc… could not be started 3 times")
}

// A trial ends in the start that the boot loader has counted; what it says of that start stays until the next one.
func TestASystemNotesWhenItsTrialHasEnded(t *testing.T) {
	m, _ := noting(t)
	note(t, m, runningRoot)
	name := filepath.Join(m.Root.At(paths.EFIVars), "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
	require.NoError(t, os.WriteFile(name, []byte("\x06\x00\x00\x00x\x00\x00\x00"), 0o600))
	record := slot.Record{RootHash: runningRoot, ClusterHash: runningPart, State: slot.OnTrial}
	require.NoError(t, record.Write(m.Root.At(paths.Update)))
	require.NoError(t, staged.NoteWayBack(t.Context(), m))
	require.True(t, noted(t, m).Is(runningRoot, runningPart), "it is on trial")

	record.State = slot.Kept
	require.NoError(t, record.Write(m.Root.At(paths.Update)))
	require.NoError(t, staged.NoteWayBack(t.Context(), m))
	require.Equal(t, spare.Note{}, noted(t, m), "it stays, and has no way back")
}

func TestWhoNotesNothing(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *node.Machine){
		"a machine without UEFI":     func(_ *testing.T, m *node.Machine) { m.Boot.EFI = false },
		"a machine from the network": func(_ *testing.T, m *node.Machine) { m.Boot.NetworkURL = "http://x/" },
		"a machine without state": func(t *testing.T, m *node.Machine) {
			require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.State), state.Info{Kind: state.Tmpfs}))
		},
		"a system on trial": func(t *testing.T, m *node.Machine) {
			name := filepath.Join(m.Root.At(paths.EFIVars), "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
			require.NoError(t, os.WriteFile(name, []byte("\x06\x00\x00\x00x\x00\x00\x00"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, said := noting(t)
			note(t, m, runningRoot)
			if name == "a system on trial" || name == "a machine without state" {
				_, _, err := spare.Begin(m.Root.At(paths.EFIVars), runningRoot, runningPart)
				require.NoError(t, err)
			}
			change(t, m)
			require.NoError(t, staged.NoteWayBack(t.Context(), m))
			require.True(t, noted(t, m).Is(runningRoot, runningPart), "nothing is touched")
			require.Zero(t, noted(t, m).Failed, "but failures of before count no more")
			require.Empty(t, *said)
		})
	}
}
