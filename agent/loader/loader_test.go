package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootloader"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/slot"
)

func TestAMachineWithoutANewLoaderDoesNothing(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.NoError(t, Step(t.Context(), m))
	require.NoError(t, Run(t.Context(), m))
	nodetest.Put(t, m, filepath.Join(paths.Loader, "loader.json"), "{")
	require.ErrorContains(t, Step(t.Context(), m), "read what is known of a new boot loader")
}

func TestALoaderNeedsToKnowItsESP(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	require.NoError(t, bootloader.Keep(m.Root.At(paths.Loader), []byte("x"), "aa", "01", false))
	m.Boot.ESP = ""
	require.ErrorContains(t, Step(t.Context(), m), "it is not known which ESP")
}

func TestALoaderIsTriedWhenTheSystemThatBroughtItStays(t *testing.T) {
	of := bootloader.Record{SHA256: "x", RootHash: "aa", ClusterHash: "01"}
	for name, tt := range map[string]struct {
		record  slot.Record
		counted bool
		other   bool
		want    bool
	}{
		"nothing was pushed":               {slot.Record{}, false, false, true},
		"another system runs":              {slot.Record{}, false, true, false},
		"it is on trial, the first status": {slot.Record{}, true, false, false},
		"it is on trial":                   {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.OnTrial}, true, false, false},
		"it was kept in this boot":         {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.Kept}, true, false, true},
		"it was kept before":               {slot.Record{ClusterHash: "01", RootHash: "aa", State: slot.Kept}, false, false, true},
		"another is staged":                {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staged, BootID: "now"}, false, false, false},
		"another is being staged":          {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staging, BootID: "now"}, false, false, false},
		"another was not started":          {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Staged, BootID: "before"}, false, false, true},
		"another failed":                   {slot.Record{ClusterHash: "02", RootHash: "aa", State: slot.Failed, BootID: "before"}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := nodetest.New(t, 1)
			m.Boot.RootHash, m.Boot.ClusterHash = "aa", "01"
			if tt.other {
				m.Boot.RootHash = "bb"
			}
			nodetest.Put(t, m, paths.BootID, "now\n")
			require.NoError(t, os.MkdirAll(filepath.Dir(m.Root.At(paths.Update)), 0o755))
			require.NoError(t, tt.record.Write(m.Root.At(paths.Update)))
			if tt.counted {
				nodetest.Put(t, m, filepath.Join(paths.EFIVars, "LoaderBootCountPath-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"), "x")
			}
			got, err := settled(m, of)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	m, _ := nodetest.New(t, 1)
	m.Boot.RootHash, m.Boot.ClusterHash = "aa", "01"
	nodetest.Put(t, m, paths.Update, "{")
	_, err := settled(m, of)
	require.ErrorContains(t, err, "record of what was pushed to it last is damaged")
}
