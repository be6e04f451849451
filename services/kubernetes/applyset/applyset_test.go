package applyset

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

// lab is masters with one API server, and their clock.
type lab struct {
	t      *testing.T
	server *server
	now    time.Time
	told   map[string]State
	said   []string
}

func newLab(t *testing.T) *lab {
	return &lab{t: t, server: newServer(t), now: time.Unix(1_000_000, 0), told: map[string]State{}}
}

func (l *lab) master(name, hash string, serial uint64, objects ...facts.Manifest) *Keeper {
	k := &Keeper{
		API: l.server, Node: name, Objects: objects, Configuration: Configuration{Hash: hash, Serial: serial},
		Say: func(s string) { l.said = append(l.said, s) }, Tell: func(s State) { l.told[name] = s }, now: func() time.Time { return l.now },
	}
	k.prepare()
	return k
}

// step is one step of a master, a while after the last one.
func (l *lab) step(k *Keeper, after time.Duration) (time.Duration, bool) {
	l.now = l.now.Add(after)
	return k.step(context.Background())
}

func manifest(version, kind, namespace, name string) facts.Manifest {
	m := map[string]any{"name": name}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return facts.Manifest{File: "manifests/" + name + ".yaml", Line: 1, Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": m}}
}

var (
	web      = manifest("v1", "Namespace", "", "web")
	settings = manifest("v1", "ConfigMap", "web", "settings")
	shop     = manifest("apps/v1", "Deployment", "web", "shop")
	pumps    = manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "pumps.plant.example")
	pump     = manifest("plant.example/v1", "Pump", "web", "north")
)

const (
	webPath      = "/api/v1/namespaces/web"
	settingsPath = "/api/v1/namespaces/web/configmaps/settings"
	shopPath     = "/apis/apps/v1/namespaces/web/deployments/shop"
)

func TestTheIDIsThatOfTheSpecification(t *testing.T) {
	// printf spore-manifests.kube-system.ConfigMap. | sha256sum | xxd -r -p | basenc --base64url
	require.Equal(t, "applyset-QgjTxlRDj72_lFdeoxAzr7ksNNviTUDMx-VJE31x4Kk-v1", ID())
	require.LessOrEqual(t, len(ID()), 63, "a label")
}

func TestObjectsAreAppliedInOrderAndMarked(t *testing.T) {
	l := newLab(t)
	k := l.master("a", "1", 0, pump, shop, settings, pumps, web)
	wait, done := l.step(k, 0)
	require.False(t, done)
	require.Equal(t, beat, wait)
	require.Equal(t, []string{
		"PATCH " + webPath, "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/pumps.plant.example", "PATCH " + settingsPath,
		"PATCH /apis/plant.example/v1/namespaces/web/pumps/north", "PATCH " + shopPath,
	}, l.server.changed())
	require.Equal(t, State{Holder: "a", Here: true, Objects: 5}, l.told["a"])
	m := metadata(l.server.objects[settingsPath])
	require.Equal(t, map[string]any{partOfLabel: ID()}, m["labels"])
	require.Equal(t, map[string]any{fileAnnotation: "manifests/settings.yaml"}, m["annotations"])
	require.NotContains(t, settings.Object["metadata"], "labels", "what the configuration has stays as it is")

	parent := metadata(l.server.objects[parentPath])
	require.Equal(t, map[string]any{idLabel: ID()}, parent["labels"])
	require.Equal(t, map[string]any{
		toolingAnnotation: "spore/v1", namespacesAnnotation: "web",
		kindsAnnotation: "ConfigMap,CustomResourceDefinition.apiextensions.k8s.io,Deployment.apps,Namespace,Pump.plant.example",
	}, parent["annotations"])

	l.step(k, every)
	require.Empty(t, l.server.changed(), "what is as it was is left alone")
}

func TestWhatDriftsIsPutRight(t *testing.T) {
	l := newLab(t)
	k := l.master("a", "1", 0, web, settings, shop)
	l.step(k, 0)
	l.server.changed()
	l.server.touch(settingsPath)
	delete(l.server.objects, shopPath)
	l.step(k, beat)
	require.Empty(t, l.server.changed(), "it looks every five minutes")
	l.step(k, every)
	require.Equal(t, []string{"PATCH " + settingsPath, "PATCH " + shopPath}, l.server.changed())
	l.step(k, every)
	require.Empty(t, l.server.changed())
}

func TestWhatTheFolderDoesNotHaveAnyMoreIsPruned(t *testing.T) {
	l := newLab(t)
	kept := manifest("v1", "ConfigMap", "default", "kept")
	metadata(kept.Object)["annotations"] = map[string]any{pruneAnnotation: pruneNever}
	l.step(l.master("a", "1", 0, web, settings, shop, kept, pumps, pump), 0)
	// A controller copies the label, and a person applies a copy of an object.
	l.server.store("/api/v1/namespaces/web/configmaps/copy", map[string]any{"metadata": map[string]any{
		"name": "copy", "namespace": "web", "labels": map[string]any{partOfLabel: ID()},
	}}, "kubectl", "Apply")
	l.server.changed()

	k := l.master("a", "2", 1)
	wait, done := l.step(k, 0)
	require.False(t, done)
	require.Equal(t, firstRetry, wait, "it looks soon whether they are gone")
	require.Equal(t, []string{
		"DELETE " + shopPath, "DELETE /apis/plant.example/v1/namespaces/web/pumps/north", "PATCH /api/v1/namespaces/default/configmaps/kept", "DELETE " + settingsPath,
		"DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/pumps.plant.example", "DELETE " + webPath,
	}, l.server.changed(), "what lies in others goes before them")
	require.NotContains(t, metadata(l.server.objects["/api/v1/namespaces/default/configmaps/kept"])["labels"], partOfLabel)
	require.Contains(t, l.server.objects, "/api/v1/namespaces/web/configmaps/copy", "not ours")
	require.Contains(t, strings.Join(l.said, "\n"), "manifests: removed Deployment.apps web/shop, which the folder does not have any more")
	require.Contains(t, strings.Join(l.said, "\n"), "the folder does not have ConfigMap default/kept any more, which stays, since it says spore/prune: never")

	_, done = l.step(k, wait)
	require.False(t, done)
	_, done = l.step(k, wait)
	require.True(t, done, "nothing is left to be kept")
	require.Empty(t, l.server.changed())
	require.Empty(t, metadata(l.server.objects[parentPath])["annotations"].(map[string]any)[kindsAnnotation])
}

func TestAFolderWithoutManifestsCostsOneQuestion(t *testing.T) {
	l := newLab(t)
	_, done := l.step(l.master("a", "0", 0), 0)
	require.True(t, done)
	require.Equal(t, 1, l.server.asked)
	require.Empty(t, l.server.objects)
	require.Empty(t, l.told)
}

func TestAnObjectThatCannotBeAppliedKeepsNoOtherFromIt(t *testing.T) {
	l := newLab(t)
	l.server.refuse[settingsPath] = `ConfigMap "settings" is invalid: data: no`
	k := l.master("a", "1", 0, web, settings, pump, shop, manifest("v1", "ConfigMap", "", "lost"), manifest("v1", "Namespace", "web", "inside"))
	wait, _ := l.step(k, 0)
	require.Equal(t, firstRetry, wait)
	require.Equal(t, []string{"PATCH " + webPath, "PATCH " + shopPath}, l.server.changed())
	require.Equal(t, State{Holder: "a", Here: true, Objects: 6, Count: 4, Problems: []Problem{
		{File: "manifests/inside.yaml", Line: 1, Object: "Namespace web/inside", Reason: "a Namespace lies in no namespace; remove metadata.namespace"},
		{File: "manifests/settings.yaml", Line: 1, Object: "ConfigMap web/settings", Reason: `the API server answers 422: ConfigMap "settings" is invalid: data: no`},
		{File: "manifests/lost.yaml", Line: 1, Object: "ConfigMap lost", Reason: "a ConfigMap lies in a namespace; add metadata.namespace"},
		{File: "manifests/north.yaml", Line: 1, Object: "Pump.plant.example web/north", Reason: "the API server does not serve the kind Pump of plant.example/v1"},
	}}, l.told["a"])
	wait, _ = l.step(k, wait)
	require.Equal(t, 2*firstRetry, wait)

	delete(l.server.refuse, settingsPath)
	l.server.kinds["plant.example/v1"] = []string{"Pump pumps"}
	l.step(k, wait)
	require.Equal(t, []string{"PATCH " + settingsPath, "PATCH /apis/plant.example/v1/namespaces/web/pumps/north"}, l.server.changed())
	require.Equal(t, 2, l.told["a"].Count)
}

func TestAnObjectThatCannotBeRemovedIsTold(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "1", 0, web, settings, shop), 0)
	l.server.refuse[shopPath] = "denied by a webhook"
	l.server.changed()
	l.step(l.master("a", "2", 0, web), 0)
	require.Equal(t, []string{"PATCH " + webPath, "DELETE " + settingsPath}, l.server.changed())
	require.Equal(t, "Deployment.apps web/shop: it was taken out of manifests/ and cannot be removed: the API server answers 422: denied by a webhook", l.told["a"].Problems[0].String())
	require.Contains(t, metadata(l.server.objects[parentPath])["annotations"].(map[string]any)[kindsAnnotation], "Deployment.apps", "it is not forgotten")
}

func TestAKindThatCannotBeListedIsNotForgotten(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "1", 0, web, shop), 0)
	l.server.refuse["/apis/apps/v1/deployments"] = "the server behind it is away"
	l.server.changed()
	k := l.master("a", "2", 0, web, settings)
	l.step(k, 0)
	require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath}, l.server.changed())
	require.Equal(t, "Deployment.apps: its objects cannot be listed: the API server answers 503: the server behind it is away", l.told["a"].Problems[0].String())
	delete(l.server.refuse, "/apis/apps/v1/deployments")
	l.step(k, firstRetry)
	require.Equal(t, []string{"DELETE " + shopPath}, l.server.changed())
}

func TestAnAPIServerThatIsAwayIsOneProblem(t *testing.T) {
	l := newLab(t)
	k := l.master("a", "1", 0, web, settings, shop)
	l.server.away = true
	wait, done := l.step(k, 0)
	require.False(t, done)
	require.Equal(t, beat/3, wait)
	require.Equal(t, 1, l.server.asked)
	l.server.away = false
	l.step(k, wait)
	require.Len(t, l.server.changed(), 3)
}

func TestOneMasterActs(t *testing.T) {
	l := newLab(t)
	a, b := l.master("a", "1", 0, web, settings), l.master("b", "1", 0, web, settings)
	l.step(a, 0)
	l.server.changed()
	for range 20 {
		l.step(b, beat)
		l.step(a, 0)
	}
	require.Empty(t, l.server.changed())
	require.Equal(t, State{Holder: "a", Objects: 2}, l.told["b"])

	// The one that acts is gone, and what it did is done again by the other.
	l.step(b, beat)
	l.step(b, silent-time.Second)
	require.Equal(t, "a", l.told["b"].Holder)
	l.step(b, beat)
	require.Equal(t, State{Holder: "b", Here: true, Objects: 2}, l.told["b"])
	require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath}, l.server.changed())

	l.step(a, beat)
	require.Equal(t, State{Holder: "b", Objects: 2}, l.told["a"], "the first one is back and stands by")
}

// While a push goes from master to master the older configuration takes nothing back.
func TestAMasterWithAnOlderConfigurationStandsBy(t *testing.T) {
	for name, tt := range map[string]struct{ old, fresh Configuration }{
		"both were pushed":               {Configuration{"1", 7}, Configuration{"2", 8}},
		"the first came with the image":  {Configuration{"1", 0}, Configuration{"2", 8}},
		"both came with images":          {Configuration{"1", 0}, Configuration{"2", 0}},
		"a former configuration, pushed": {Configuration{"2", 7}, Configuration{"1", 8}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("c", "1", min(tt.old.Serial, 1), web), 0) // was in effect before all
			a, b := l.master("a", tt.old.Hash, tt.old.Serial, web, settings), l.master("b", tt.fresh.Hash, tt.fresh.Serial, web, shop)
			l.step(a, gone)
			l.step(a, gone)
			require.True(t, l.told["a"].Here)
			l.step(b, beat)
			require.Equal(t, State{Holder: "b", Here: true, Objects: 2}, l.told["b"], "the newer one acts at once")
			require.NotContains(t, l.server.objects, settingsPath)
			l.server.changed()
			for range 20 {
				l.step(a, beat)
				l.step(b, 0)
			}
			require.Empty(t, l.server.changed())
			require.Equal(t, State{Holder: "b", Objects: 2, Newer: true}, l.told["a"])

			l.step(a, beat)
			l.step(a, gone-time.Minute)
			require.Contains(t, l.server.objects, shopPath, "the newer one may be starting again")
			l.step(a, 2*time.Minute)
			require.True(t, l.told["a"].Here, "all went back to the older one")
			require.Contains(t, l.server.objects, settingsPath)
		})
	}
}

func TestAMasterThatIsOvertakenStopsInTheMiddle(t *testing.T) {
	l := newLab(t)
	a := l.master("a", "1", 1, web, settings)
	l.step(a, 0)
	l.step(l.master("b", "2", 2, web, shop), 0)
	l.server.touch(webPath)
	l.server.changed()
	a.written = time.Time{}
	require.ErrorIs(t, func() error { _, err := a.round(context.Background()); return err }(), errLost)
	require.Empty(t, l.server.changed())
}

func TestAStateIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := State{Holder: "a", Here: true, Objects: 2, Count: 1, Problems: []Problem{{File: "manifests/a.yaml", Line: 3, Object: "ConfigMap b/a", Reason: strings.Repeat("ä\n", 400)}}}
	require.NoError(t, Write(path, s))
	got, err := Read(path)
	require.NoError(t, err)
	require.LessOrEqual(t, len(got.Problems[0].Reason), maxReason+len("…"))
	require.Contains(t, got.Problems[0].String(), "manifests/a.yaml:3: ConfigMap b/a: ä ä")
	_, err = Read(path + ".none")
	require.Error(t, err)
}
