package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/services/service"
)

func TestDecisionsAboutScriptsAndAnswersMakeAnotherRoot(t *testing.T) {
	source := t.TempDir()
	for _, dir := range []string{"units", "overlay"} {
		require.NoError(t, os.Mkdir(filepath.Join(source, dir), 0o755))
	}
	key := func(image spec.Image) string {
		t.Helper()
		b := &build{Options: Options{Config: &cluster.Config{Image: image}, Source: source}}
		k, err := b.rootKey()
		require.NoError(t, err)
		return k.String()
	}
	skip := func(names ...string) spec.Image {
		return spec.Image{Scripts: map[string]spec.ScriptDecision{"a": {Skip: names}, "b": {}}}
	}
	require.Equal(t, key(skip("preinst", "postinst")), key(skip("postinst", "preinst")), "the order of a list says nothing")
	seen := map[string]string{}
	for name, image := range map[string]spec.Image{
		"nothing": {}, "a script": skip("postinst"), "two scripts": skip("postinst", "preinst"),
		"a group":         {Scripts: map[string]spec.ScriptDecision{"a": {Groups: []string{"g"}}}},
		"another package": {Scripts: map[string]spec.ScriptDecision{"b": {Groups: []string{"g"}}}},
		"a mode":          {Scripts: map[string]spec.ScriptDecision{"a": {Modes: []spec.ScriptMode{{Path: "/x", Mode: "0755"}}}}},
		"a program":       {Scripts: map[string]spec.ScriptDecision{"a": {SetUID: []string{"/x"}}}},
		"an answer":       {Debconf: map[string]map[string]string{"a": {"a/q": "1"}}},
		"another answer":  {Debconf: map[string]map[string]string{"a": {"a/q": "2"}}},
	} {
		k := key(image)
		require.Empty(t, seen[k], name)
		seen[k] = name
	}
}

// The packages are the same; whether the daemon of one starts by itself is not.
func TestWhoNamesAPackageMakesAnotherRoot(t *testing.T) {
	source := t.TempDir()
	for _, dir := range []string{"units", "overlay"} {
		require.NoError(t, os.Mkdir(filepath.Join(source, dir), 0o755))
	}
	key := func(image, ofRole []string) string {
		t.Helper()
		d := &role.Definition{Name: "queue", Packages: ofRole, Units: []string{"queue.service"}}
		b := &build{Options: Options{
			Config: &cluster.Config{Image: spec.Image{Packages: image}, Roles: []*role.Definition{d}}, Source: source,
		}}
		for _, name := range d.ProgramNames() {
			b.programs = append(b.programs, service.Program{Name: name})
		}
		b.packages.requested = []string{"rabbit", "tool"}
		k, err := b.rootKey()
		require.NoError(t, err)
		return k.String()
	}
	both := key([]string{"rabbit", "tool"}, []string{"rabbit"})
	require.Equal(t, both, key([]string{"tool", "rabbit"}, []string{"rabbit"}), "the order of a list says nothing")
	for name, other := range map[string]string{
		"image.yaml names it no more": key([]string{"tool"}, []string{"rabbit"}),
		"the role names it no more":   key([]string{"rabbit", "tool"}, nil),
		"another is the role's":       key([]string{"rabbit", "tool"}, []string{"tool"}),
	} {
		require.NotEqual(t, both, other, name)
	}
}
