package manifests

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
	"spore/cluster/spec"
)

// FuzzParse: no panic, no endless run, every problem has a place in the file and one line of text, and what has no
// problem is JSON.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		configMap, configMap + "---\n" + configMap, "a: &x [1]\nb: *x\n", "<<: {a: b}\n", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n",
		"- a\n---\n", "a: !!binary x\n", "? [a]\n: b\n", "apiVersion: v1\nkind: Secret\nmetadata: {name: [a], labels: {a: 1}}\ndata: {}\n", "\xef\xbb\xbfa: 1\n", "a: |\n  b\n...\n---\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		docs, faults := Parse("a.yaml", data)
		k := &check.Checker{Cluster: &spec.Cluster{}, Services: spec.Services{&kubernetes{}}}
		Check(k, docs, func(string) bool { return true })
		for _, p := range k.Report {
			require.NotContains(t, p.Message, "\n")
			require.GreaterOrEqual(t, p.Line, 1)
			require.GreaterOrEqual(t, p.Column, 1)
		}
		for _, p := range faults {
			require.NotContains(t, p.Message, "\n")
			require.GreaterOrEqual(t, p.Line, 1)
			require.GreaterOrEqual(t, p.Column, 1)
		}
		for _, d := range docs {
			_, err := json.Marshal(d.Content)
			require.NoError(t, err)
		}
	})
}
