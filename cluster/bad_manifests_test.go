package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

const aConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"

// badManifests holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badManifests = []badInput{
	{
		"another ending",
		[]edit{{"manifests/a.yml", "", aConfigMap}, {"manifests/web/b.json", "", "{}"}},
		[]string{
			`manifests/a.yml:1:1: error: files end in .yaml; rename it to a.yaml`,
			`manifests/web/b.json:1:1: error: files end in .yaml; rename it to b.yaml`,
		},
	},
	{
		"a misspelt folder",
		[]edit{{"manifest/a.yaml", "", aConfigMap}},
		[]string{
			`manifest:1:1: error: nothing reads this directory; did you mean "manifests"?`,
		},
	},
	{
		"a password in a text",
		[]edit{{"manifests/a.yaml", "", aConfigMap + "data:\n  application.yaml: |\n    password: hunter2\n"}},
		[]string{
			`manifests/a.yaml:6:5: error: this line holds a literal secret; it would be readable in every image, also in a comment: make a Secret with it in the running cluster (kubectl create secret generic NAME), and name that by secretKeyRef`,
		},
	},
	{
		"a private key in a comment",
		[]edit{{"manifests/a.yaml", "", aConfigMap + "# -----BEGIN EC PRIVATE KEY-----\n# -----BEGIN CERTIFICATE-----\n"}},
		[]string{
			`manifests/a.yaml:4:3: error: this line holds a PEM block; it would be readable in every image, also in a comment: make a Secret with it in the running cluster (kubectl create secret generic NAME), and name that by secretKeyRef`,
		},
	},
	{
		"the same object in two files",
		[]edit{{"manifests/a.yaml", "", aConfigMap}, {"manifests/b/c.yaml", "", "# another\n---\n" + aConfigMap}},
		[]string{
			`manifests/b/c.yaml:5:18: error: the object "ConfigMap default/a" exists already, at manifests/a.yaml:3; an object stands in the folder once: remove one`,
		},
	},
	{
		"a file that is too large",
		[]edit{{"manifests/a.yaml", "", aConfigMap + strings.Repeat("# more\n", 150_000)}},
		[]string{
			`manifests/a.yaml:1:1: error: is larger than 1 MiB; write some of its objects into another file`,
		},
	},
	{
		"folders without end",
		[]edit{{"manifests/a/b/c/d/e/f/g/h/i.yaml", "", aConfigMap}},
		[]string{
			`manifests/a/b/c/d/e/f/g/h:1:1: error: lies in 8 folders; at most that many lie in each other`,
		},
	},
}

func TestBoundsOfManifests(t *testing.T) {
	files := goodFolder(t)
	for i := range 201 {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = &fstest.MapFile{Data: []byte("# nothing\n")}
	}
	_, report := Check(files, Options{})
	require.Equal(t, "manifests:1:1: error: holds 201 files; at most 200 are read: write more objects into a file, with --- between\n", serious(report))

	files = goodFolder(t)
	for i := range 20 {
		files[fmt.Sprintf("manifests/%02d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("# nothing\n", 100_000))}
	}
	_, report = Check(files, Options{})
	require.Equal(t, "manifests/16.yaml:1:1: error: the files up to this one are larger than 16 MiB; give the masters less to apply\n", serious(report))

	files = goodFolder(t)
	var many strings.Builder
	for i := range 700 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: default}\n", i)
	}
	for i := range 3 {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(many.String(), "name: c", fmt.Sprintf("name: c%d-", i)))}
	}
	_, report = Check(files, Options{})
	require.Equal(t, "manifests/2.yaml:1:1: error: the files up to this one have 2100 objects; at most 2000 are kept\n", serious(report))
}

func TestManifestsAreInTheClusterPartTwice(t *testing.T) {
	files := goodFolder(t)
	without, report := Check(files, Options{})
	require.Empty(t, serious(report))
	before, err := Compile(without)
	require.NoError(t, err)
	require.NotContains(t, before, facts.ManifestsFile, "a folder without manifests costs nothing")

	files["manifests/web/a.yaml"] = &fstest.MapFile{Data: []byte("# ours\n" + aConfigMap + "data: {n: '1'}\n")}
	c, report := Check(files, Options{})
	require.Empty(t, serious(report))
	after, err := Compile(c)
	require.NoError(t, err)
	require.Equal(t, files["manifests/web/a.yaml"].Data, after["manifests/web/a.yaml"])
	require.JSONEq(t, `[{"file": "manifests/web/a.yaml", "line": 2, "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"n": "1"}}}]`,
		string(after[facts.ManifestsFile]))
	delete(after, facts.ManifestsFile)
	delete(after, "manifests/web/a.yaml")
	require.Equal(t, before, after)
}
