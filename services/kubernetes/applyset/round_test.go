package applyset

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

const (
	pumpsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pumps.plant.example"
	pumpPath  = "/apis/plant.example/v1/namespaces/web/pumps/north"
)

// staying is an object that stays when the folder does not have it any more.
func staying(o facts.Manifest) facts.Manifest {
	out := manifest("", "", "", "")
	out.File = o.File
	for key, v := range o.Object {
		out.Object[key] = v
	}
	m := map[string]any{"annotations": map[string]any{pruneAnnotation: pruneNever}}
	for key, v := range metadata(o.Object) {
		m[key] = v
	}
	out.Object["metadata"] = m
	return out
}

// definition is that of pumps, as far as it says of what kind they are.
func definition() facts.Manifest {
	out := manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "pumps.plant.example")
	out.Object["spec"] = map[string]any{"group": "plant.example", "names": map[string]any{"kind": "Pump"}}
	return out
}

func TestWhatOthersLieInStaysWithThem(t *testing.T) {
	all := []facts.Manifest{web, settings, definition(), pump}
	for name, tt := range map[string]struct {
		before, after []facts.Manifest
		removed       []string
		problems      []string
	}{
		"a namespace with a wanted object": {
			before: all, after: []facts.Manifest{settings, definition(), pump},
			problems: []string{"Namespace web: it was taken out of manifests/ and stays, since ConfigMap web/settings lies in it, which manifests/ has"},
		},
		"a namespace with an object that is to stay": {
			before: []facts.Manifest{web, shop, staying(settings)}, removed: []string{"DELETE " + shopPath},
			problems: []string{"Namespace web: it was taken out of manifests/ and stays, since ConfigMap web/settings lies in it, which says spore/prune: never"},
		},
		"a definition with a wanted object": {
			before: all, after: []facts.Manifest{web, pump}, removed: []string{"DELETE " + settingsPath},
			problems: []string{"CustomResourceDefinition.apiextensions.k8s.io pumps.plant.example: it was taken out of manifests/ and stays, since Pump.plant.example web/north is of it, which manifests/ has"},
		},
		"a definition with an object that is to stay": {
			before: []facts.Manifest{web, definition(), staying(pump)}, after: []facts.Manifest{web},
			problems: []string{"CustomResourceDefinition.apiextensions.k8s.io pumps.plant.example: it was taken out of manifests/ and stays, since Pump.plant.example web/north is of it, which says spore/prune: never"},
		},
		"a namespace that stays itself": {
			before: []facts.Manifest{staying(web), staying(settings)},
		},
		"nothing": {
			before: all, after: []facts.Manifest{manifest("v1", "ConfigMap", "default", "web")},
			removed: []string{"DELETE " + pumpPath, "DELETE " + settingsPath, "DELETE " + pumpsPath, "DELETE " + webPath},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("a", "1", 1, tt.before...), 0)
			k := l.master("a", "2", 2, tt.after...)
			var removed []string
			for range 3 { // and it stays
				l.server.changed()
				l.step(k, every)
				for _, call := range l.server.changed() {
					if call[:6] == "DELETE" {
						removed = append(removed, call)
					}
				}
				var problems []string
				for _, p := range l.told["a"].Problems {
					problems = append(problems, p.String())
				}
				require.Len(t, problems, len(tt.problems), problems)
				for i := range problems {
					require.Contains(t, problems[i], tt.problems[i])
				}
			}
			require.Equal(t, tt.removed, removed)
		})
	}
}

func TestADefinitionIsReadAsFarAsItCanBe(t *testing.T) {
	for text, want := range map[string]string{
		`{"spec":{"group":"plant.example","names":{"kind":"Pump"}}}`: "Pump.plant.example",
		`{"spec":{"group":"plant.example"}}`:                         "",
		`{"spec":{"group":7}}`:                                       "",
		`{}`:                                                         "",
	} {
		require.Equal(t, want, kindOf([]byte(text)), text)
	}
}

// What cannot be listed may be to stay.
func TestNoNamespaceIsRemovedWhileAKindCannotBeListed(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "1", 1, web, staying(shop)), 0)
	l.server.refuse["/apis/apps/v1/deployments"] = "the server behind it is away"
	l.server.changed()
	k := l.master("a", "2", 2)
	l.step(k, 0)
	require.Empty(t, l.server.changed())
	delete(l.server.refuse, "/apis/apps/v1/deployments")
	l.step(k, every)
	require.Empty(t, l.server.changed())
	require.Contains(t, l.told["a"].Problems[0].Reason, "since Deployment.apps web/shop lies in it")
}

// A person had it first: the folder gives it fields, and does not have it to remove.
func TestAnObjectThatWasThereBeforeStays(t *testing.T) {
	l := newLab(t)
	l.server.store(settingsPath, map[string]any{"metadata": map[string]any{"name": "settings", "namespace": "web"}}, "kubectl", "Update")
	l.server.store(webPath, map[string]any{"metadata": map[string]any{"name": "web"}}, "kubectl", "Update")
	k := l.master("a", "1", 1, web, settings, shop)
	l.step(k, 0)
	require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath, "PATCH " + shopPath}, l.server.changed())
	marks := func(path string) any { return metadata(l.server.objects[path])["annotations"] }
	before := map[string]any{fileAnnotation: "manifests/settings.yaml", foundAnnotation: "true"}
	require.Equal(t, before, marks(settingsPath))
	require.Equal(t, map[string]any{fileAnnotation: "manifests/shop.yaml"}, marks(shopPath))
	l.step(k, every)
	require.Empty(t, l.server.changed())
	l.server.touch(settingsPath)
	l.step(k, every)
	require.Equal(t, before, marks(settingsPath), "the mark stays when it is applied again")
	l.step(l.master("a", "1", 1, web, settings, shop), every)
	require.Equal(t, before, marks(settingsPath), "and by a master that has not seen it before")
	l.server.changed()

	k = l.master("a", "2", 2)
	l.step(k, beat)
	require.Equal(t, []string{"DELETE " + shopPath, "PATCH " + settingsPath, "PATCH " + webPath}, l.server.changed())
	require.NotContains(t, metadata(l.server.objects[settingsPath])["labels"], partOfLabel)
	require.Contains(t, l.said, "manifests: the folder does not have ConfigMap web/settings any more, which stays, since it was there before the folder had it")
	l.step(k, every)
	_, done := l.step(k, every)
	require.True(t, done)

	k = l.master("a", "3", 3, settings)
	l.step(k, beat)
	require.Equal(t, before, marks(settingsPath), "the folder has it once more, and it is still a person's")
	delete(marks(settingsPath).(map[string]any), foundAnnotation)
	l.server.touch(settingsPath)
	l.step(k, every)
	require.Equal(t, map[string]any{fileAnnotation: "manifests/settings.yaml"}, marks(settingsPath), "a person gives it to the folder")
}

// What has our label and no field of ours is another's copy.
func TestACopyOfAMemberThatTheFolderWantsStays(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "1", 1, manifest("v1", "ConfigMap", "default", "other")), 0)
	l.server.store(settingsPath, map[string]any{"metadata": map[string]any{
		"name": "settings", "namespace": "web", "labels": map[string]any{partOfLabel: ID()},
	}}, "kubectl", "Update")
	l.step(l.master("a", "2", 2, settings), beat)
	require.Contains(t, metadata(l.server.objects[settingsPath])["annotations"], foundAnnotation)
}

func TestAnObjectOfAnotherSetIsNotTaken(t *testing.T) {
	l := newLab(t)
	l.server.store(settingsPath, map[string]any{"metadata": map[string]any{
		"name": "settings", "namespace": "web", "labels": map[string]any{partOfLabel: "applyset-other-v1"},
	}}, "kubectl-applyset", "Apply")
	l.step(l.master("a", "1", 1, web, settings), 0)
	require.Equal(t, []string{"PATCH " + webPath}, l.server.changed())
	require.Equal(t, "manifests/settings.yaml:1: ConfigMap web/settings: it belongs to another set (its label applyset.kubernetes.io/part-of is applyset-other-v1); remove it there, or from manifests/", l.told["a"].Problems[0].String())
}

func TestAnObjectThatCannotBeReadIsNotApplied(t *testing.T) {
	l := newLab(t)
	l.server.hide[settingsPath] = "an internal error"
	l.step(l.master("a", "1", 1, web, settings, shop), 0)
	require.Equal(t, []string{"PATCH " + webPath, "PATCH " + shopPath}, l.server.changed())
	require.Contains(t, l.told["a"].Problems[0].Reason, "an internal error")
}

// Between its list and its first removal another master may have brought what this one would remove.
func TestAMasterThatIsOvertakenRemovesNothing(t *testing.T) {
	l := newLab(t)
	l.step(l.master("c", "1", 1, web, settings, staying(shop)), 0)
	a := l.master("a", "2", 2, web)
	acts, _, err := a.turn(context.Background())
	require.NoError(t, err)
	require.True(t, acts)
	acts, _, err = l.master("b", "3", 3, web, settings).turn(context.Background())
	require.NoError(t, err)
	require.True(t, acts)
	l.server.changed()
	_, err = a.round(context.Background())
	require.ErrorIs(t, err, errLost)
	require.Equal(t, []string{"PATCH " + webPath}, l.server.changed())
}

func TestTheParentIsWrittenOnceBeforeWhatIsRemoved(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "1", 1, web, settings, shop), 0)
	k := l.master("a", "2", 2, web)
	_, _, err := k.turn(context.Background())
	require.NoError(t, err)
	l.server.changed()
	_, err = k.round(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"PATCH " + webPath, "PUT " + parentPath, "DELETE " + shopPath, "DELETE " + settingsPath}, l.server.calls)
}

func TestWhatChangedSinceItWasListedIsNotRemoved(t *testing.T) {
	l := newLab(t)
	k := l.master("a", "1", 1, web, settings, staying(shop))
	l.step(k, 0)
	k.Objects = nil
	out := outcome{left: map[member]bool{}, stay: map[member]bool{}}
	there, err := k.members(context.Background(), &out)
	require.NoError(t, err)
	k.parent.record.Instead = nil
	metadata(l.server.objects[settingsPath])["resourceVersion"] = "a later one"
	metadata(l.server.objects[shopPath])["resourceVersion"] = "a later one"
	delete(there, memberOf(web.Object))
	require.NoError(t, k.prune(context.Background(), there, &out))
	require.Contains(t, l.server.objects, settingsPath)
	require.Contains(t, metadata(l.server.objects[shopPath])["labels"], partOfLabel)
	require.Len(t, out.left, 2, "the next round looks")
	require.Empty(t, out.problems)
}
