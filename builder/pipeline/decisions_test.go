package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/spec"
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
