package applyset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhichConfigurationIsNewer(t *testing.T) {
	effect := func(hash string, serial uint64, before ...string) record {
		return record{Holder: "a", Configuration: Configuration{hash, serial}, History: before}
	}
	for name, tt := range map[string]struct {
		c     Configuration
		empty bool
		r     record
		want  bool
	}{
		"a later push":                            {Configuration{"2", 8}, false, effect("1", 7), true},
		"a later push without objects":            {Configuration{"2", 8}, true, effect("1", 7), true},
		"a former folder, pushed again":           {Configuration{"1", 9}, false, effect("2", 8, "1"), true},
		"a former folder, pushed after an image":  {Configuration{"1", 9}, false, effect("2", 0, "1"), true},
		"a push after an image":                   {Configuration{"2", 8}, false, effect("1", 0), true},
		"an image that nobody has seen":           {Configuration{"2", 0}, false, effect("1", 0), true},
		"an earlier push":                         {Configuration{"1", 7}, false, effect("2", 8), false},
		"an image after a push":                   {Configuration{"3", 0}, false, effect("2", 8, "1"), false},
		"the first image, empty, after a push":    {Configuration{"0", 0}, true, effect("2", 8), false},
		"the first image, empty, after another":   {Configuration{"0", 0}, true, effect("2", 0), false},
		"an image that was in effect before":      {Configuration{"1", 0}, false, effect("2", 0, "1"), false},
		"an empty image where the record is lost": {Configuration{"0", 0}, true, record{}, false},
		"an image where the record is lost":       {Configuration{"1", 0}, false, record{}, true},
	} {
		require.Equal(t, tt.want, tt.c.newer(tt.r, tt.empty), name)
	}
}

func TestAMasterThatWasFlashedAnewTakesNothing(t *testing.T) {
	for name, serial := range map[string]uint64{"after a push": 8, "after an image": 0} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("a", "2", serial, web, settings), 0)
			l.server.changed()
			wait, done := l.step(l.master("b", "0", 0), beat)
			require.False(t, done)
			require.Equal(t, beat, wait)
			require.Equal(t, State{Holder: "a", Newer: true}, l.told["b"])
			require.Empty(t, l.server.changed())
			require.Contains(t, l.server.objects, settingsPath)
		})
	}
}

// A person has deleted the parent: what the masters know of it still counts.
func TestADeletedParentIsMadeAnewByTheOneThatActed(t *testing.T) {
	l := newLab(t)
	a := l.master("a", "2", 0, web, settings)
	l.step(l.master("c", "1", 0, web, shop), 0)
	b := l.master("b", "1", 0, web, shop)
	l.step(b, 0)
	l.step(a, 0)
	l.step(b, 0)
	delete(l.server.objects, parentPath)
	l.server.changed()
	l.step(b, beat)
	require.True(t, l.told["b"].Newer)
	l.step(a, 0)
	l.step(b, beat)
	require.Empty(t, l.server.changed())
	there, err := a.readParent(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a", there.record.Holder)
	require.Equal(t, []string{"1"}, there.record.History)
	require.Contains(t, there.kinds, "ConfigMap")
	require.False(t, b.Configuration.newer(there.record, false))
}

// While etcd has no quorum no master says that it acts, and none hears that another does.
func TestAnOutageOfTheAPIIsNotSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		old  Configuration
		wait time.Duration
	}{
		"the same objects": {Configuration{"2", 8}, silent},
		"older objects":    {Configuration{"1", 7}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.master("a", "2", 8, web, shop), l.master("b", tt.old.Hash, tt.old.Serial, web, settings)
			l.step(a, 0)
			l.step(b, beat)
			l.server.changed()
			l.server.away = true
			for range 60 {
				l.step(b, beat)
			}
			l.server.away = false
			l.step(b, beat)
			require.Equal(t, "a", l.told["b"].Holder)
			require.Empty(t, l.server.changed())
			l.step(b, tt.wait-beat)
			require.Equal(t, "b", l.told["b"].Holder, "it has been silent since the API answers")
		})
	}
}

// The newer configuration may come back, with its masters: what is only in it stays.
func TestAnOlderConfigurationRemovesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ fresh, back Configuration }{
		"until the newer one is back":      {Configuration{"2", 8}, Configuration{"2", 8}},
		"until a push":                     {Configuration{"2", 8}, Configuration{"3", 9}},
		"until the newer image is back":    {Configuration{"2", 0}, Configuration{"2", 0}},
		"until an image that is newer yet": {Configuration{"2", 0}, Configuration{"3", 0}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("c", "1", 0, web, settings), 0)
			l.step(l.master("b", tt.fresh.Hash, tt.fresh.Serial, web, shop), beat)
			require.NotContains(t, l.server.objects, settingsPath)
			l.server.changed()

			a := l.master("a", "1", 0, web, settings)
			l.step(a, beat)
			l.step(a, gone)
			require.True(t, l.told["a"].Here)
			require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath}, l.server.changed())
			require.Contains(t, l.said, "manifests: this master applies them (2 objects), and removes nothing: a newer configuration was in effect")
			d := l.master("d", "1", 0, web, settings)
			l.step(d, beat)
			l.step(d, silent)
			require.True(t, l.told["d"].Here, "another one of the older goes on")
			l.step(d, every)
			require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath}, l.server.changed())
			require.Contains(t, metadata(l.server.objects[parentPath])["annotations"].(map[string]any)[kindsAnnotation], "Deployment.apps", "it is not forgotten")

			b := l.master("b", tt.back.Hash, tt.back.Serial, web)
			l.step(b, beat)
			require.True(t, l.told["b"].Here, "it acts at once")
			require.Equal(t, []string{"PATCH " + webPath, "DELETE " + shopPath, "DELETE " + settingsPath}, l.server.changed())
		})
	}
}

func TestAnImageRemovesNothingInThePlaceOfAPush(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "2", 8, web, shop), 0)
	b := l.master("b", "1", 0, web, settings)
	l.step(b, beat)
	l.step(b, gone)
	c := l.master("c", "3", 0, web)
	l.server.changed()
	l.step(c, beat)
	require.True(t, l.told["c"].Here, "nobody has seen it")
	require.Equal(t, []string{"PATCH " + webPath}, l.server.changed(), "and it is older than the push")
}

// Who makes the parent, or finds one that a person has spoilt, cannot know what was in effect before.
func TestWhoKnowsNothingOfAnEarlierConfigurationRemovesNothing(t *testing.T) {
	for name, spoil := range map[string]func(l *lab){
		"the parent is gone":   func(l *lab) { delete(l.server.objects, parentPath) },
		"the record is spoilt": func(l *lab) { l.server.objects[parentPath]["data"] = map[string]any{recordKey: "?"} },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("a", "2", 8, web, settings, shop), 0)
			spoil(l)
			l.server.changed()
			b := l.master("b", "1", 7, web, manifest("v1", "ConfigMap", "web", "other"))
			l.step(b, beat)
			require.Equal(t, []string{"PATCH " + webPath, "PATCH /api/v1/namespaces/web/configmaps/other"}, l.server.changed())
			l.step(l.master("a", "2", 8, web, settings, shop), beat)
			require.Contains(t, l.server.changed(), "DELETE /api/v1/namespaces/web/configmaps/other")
		})
	}
}

// Objects that came with an image, and that are pushed later, are as new as the push.
func TestAConfigurationIsAsNewAsItsLastPush(t *testing.T) {
	l := newLab(t)
	recorded := func() record {
		p, err := l.master("x", "x", 0).readParent(t.Context())
		require.NoError(t, err)
		return p.record
	}
	l.step(l.master("a", "2", 0, web), 0)
	require.Equal(t, Configuration{"2", 0}, recorded().Configuration)
	l.step(l.master("a", "2", 8, web), beat)
	require.Equal(t, Configuration{"2", 8}, recorded().Configuration)
	require.Nil(t, recorded().Instead)
	flashed := l.master("b", "2", 0, web)
	l.step(flashed, beat)
	l.step(flashed, silent)
	require.Equal(t, "b", recorded().Holder)
	require.Equal(t, Configuration{"2", 8}, recorded().Configuration, "an image with the same objects makes it no older")
}

func TestAFormerFolderThatIsPushedAgainRemovesWhatTheNewerHad(t *testing.T) {
	l := newLab(t)
	l.step(l.master("a", "2", 8, web, shop), 0)
	b := l.master("b", "1", 7, web, settings)
	l.step(b, beat)
	l.step(b, gone)
	require.Contains(t, l.server.objects, shopPath)
	l.step(l.master("b", "1", 9, web, settings), beat)
	require.NotContains(t, l.server.objects, shopPath)
}

// With one master a push that was taken back is known to be: nobody else has it.
func TestTheOnlyMasterTakesItsOwnRecordAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		holder string
		alone  bool
		want   bool
	}{
		"its own, alone":              {"a", true, true},
		"its own, of several":         {"a", false, false},
		"another's, which is no more": {"b", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.step(l.master("a", "1", 7, web, settings), 0)
			l.step(l.master(tt.holder, "2", 8, web, shop), beat)
			l.server.changed()
			a := l.master("a", "1", 0, web, settings)
			a.Alone = tt.alone
			l.step(a, beat)
			require.Equal(t, tt.want, l.told["a"].Here)
			if tt.want {
				require.Equal(t, []string{"PATCH " + webPath, "PATCH " + settingsPath}, l.server.changed(), "and removes nothing")
			}
		})
	}
}
