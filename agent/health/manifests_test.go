package health

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/kubernetes/applyset"
	"spore/wire/nodeapi"
)

func TestHowTheManifestsAre(t *testing.T) {
	problem := applyset.Problem{File: "manifests/web.yaml", Line: 3, Object: "Deployment.apps web/shop", Reason: "the API server answers 422: no"}
	for _, tt := range []struct {
		name   string
		in     *Manifests
		want   nodeapi.State
		reason string
	}{
		{"none", nil, "", ""},
		{"nothing is known yet", &Manifests{Unknown: "nothing said"}, nodeapi.Warning, "nothing said"},
		{"this master acts", &Manifests{State: applyset.State{Holder: "a", Here: true, Objects: 3}}, nodeapi.OK, "this master keeps 3 objects"},
		{"another", &Manifests{State: applyset.State{Holder: "b", Objects: 3}}, nodeapi.OK, "b keeps 3 objects"},
		{"another, with a newer one", &Manifests{State: applyset.State{Holder: "b", Objects: 3, Newer: true}}, nodeapi.OK, "b keeps those of another configuration"},
		{
			"one cannot be applied", &Manifests{State: applyset.State{Holder: "a", Here: true, Objects: 3, Count: 2, Problems: []applyset.Problem{problem}}}, nodeapi.Warning,
			"manifests/web.yaml:3: Deployment.apps web/shop: the API server answers 422: no; and 1 more",
		},
		{"they cannot be read", &Manifests{State: applyset.State{Count: 1, Problems: []applyset.Problem{{Reason: "unexpected EOF"}}}}, nodeapi.Warning, "unexpected EOF"},
	} {
		got, reason := manifests(Input{Manifests: tt.in})
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, tt.reason, reason, tt.name)
	}
}

func TestOnlyMastersKnowOfManifests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	master := &facts.Node{Name: "a", Roles: []string{"control-plane"}}
	require.Nil(t, ManifestsOf(path, master, false))
	require.Contains(t, ManifestsOf(path, master, true).Unknown, "has not applied anything yet")
	require.Nil(t, ManifestsOf(path, &facts.Node{Name: "w", Roles: []string{"worker"}}, true))
	require.NoError(t, applyset.Write(path, applyset.State{Holder: "a", Here: true, Objects: 1}))
	require.True(t, ManifestsOf(path, master, true).Here)
	require.NoError(t, applyset.Write(path, applyset.State{Holder: "a", Here: true}))
	require.Nil(t, ManifestsOf(path, master, false), "the former ones are gone")
	require.NoError(t, os.WriteFile(path, []byte("?"), 0o644))
	require.NotEmpty(t, ManifestsOf(path, master, true).Unknown)
}
