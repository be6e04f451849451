package applyset

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/wire/update"
)

func TestTheActingMasterTellsWhatStays(t *testing.T) {
	l := newLab(t)
	kept := manifest("v1", "ConfigMap", "default", "kept")
	metadata(kept.Object)["annotations"] = map[string]any{pruneAnnotation: pruneNever}
	l.server.store(settingsPath, map[string]any{"metadata": map[string]any{"name": "settings", "namespace": "web"}}, "kubectl", "Apply")
	k := l.master("a", "1", 0, web, settings, kept)
	want := map[string]string{
		"ConfigMap default/kept": "says spore/prune: never", "ConfigMap web/settings": "was there before the folder had it",
	}
	l.step(k, 0)
	require.Equal(t, want, l.told["a"].Stays, "in the first round already")
	l.step(k, every)
	require.Equal(t, want, l.told["a"].Stays)
}

func TestWhatIsKnownOfObjectsBesideTheirHashes(t *testing.T) {
	never := manifest("v1", "ConfigMap", "default", "kept")
	metadata(never.Object)["annotations"] = map[string]any{pruneAnnotation: pruneNever}
	defines := manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "pumps.plant.example")
	defines.Object["spec"] = map[string]any{"group": "plant.example", "names": map[string]any{"kind": "Pump"}}
	require.Nil(t, KeptOf([]facts.Manifest{web, settings}, State{}))
	require.Equal(t, map[string]update.Kept{
		"ConfigMap default/kept": {Why: "says spore/prune: never"},
		"ConfigMap web/settings": {Why: "was there before the folder had it"},
		"CustomResourceDefinition.apiextensions.k8s.io pumps.plant.example": {Defines: "Pump.plant.example"},
	}, KeptOf([]facts.Manifest{web, settings, defines, never}, State{Stays: map[string]string{"ConfigMap web/settings": "was there before the folder had it"}}))
}

func TestWhatStaysIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	s := State{Holder: "a", Here: true, Objects: 1, Stays: map[string]string{"ConfigMap default/kept": "says spore/prune: never"}}
	require.NoError(t, Write(file, s))
	read, err := Read(file)
	require.NoError(t, err)
	require.Equal(t, s, read)
}

func TestOfManyThatStayTheFirstAreTold(t *testing.T) {
	stays := map[string]string{}
	for i := range maxStays {
		stays[fmt.Sprintf("ConfigMap web/%04d", i)] = "says spore/prune: never"
	}
	told, more := firstStays(stays)
	require.Equal(t, stays, told)
	require.False(t, more)
	stays["ConfigMap a/first"] = "was there before the folder had it"
	for range 3 {
		told, more = firstStays(stays)
		require.True(t, more)
		require.Len(t, told, maxStays)
		require.Contains(t, told, "ConfigMap a/first")
		require.NotContains(t, told, fmt.Sprintf("ConfigMap web/%04d", maxStays-1))
	}

	l := newLab(t)
	k := l.master("a", "1", 0, web)
	k.tell(outcome{stays: stays})
	require.True(t, l.told["a"].MoreStay)
	k.tell(outcome{stays: map[string]string{"ConfigMap web/a": "says spore/prune: never"}})
	require.False(t, l.told["a"].MoreStay)
}
