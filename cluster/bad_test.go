package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// badInput is a mistake: edits of a good configuration (the six-node cluster with the example's image.yaml), and every error
// and warning that it leads to.
type badInput struct {
	name  string
	edits []edit
	want  []string
}

// edit replaces the first old by new in a file. Where old is empty, new is the whole file.
type edit struct{ file, old, new string }

// remove as new takes the file away.
const remove = "\x00remove"

// goodFolder is a configuration that has everything and nothing wrong.
func goodFolder(t testing.TB) fstest.MapFS {
	files := folder(t, "testdata/six-nodes")
	data, err := os.ReadFile("../configs/image.yaml")
	require.NoError(t, err)
	files["image.yaml"] = &fstest.MapFile{Data: data}
	return files
}

func apply(t testing.TB, files fstest.MapFS, edits []edit) {
	for _, e := range edits {
		switch {
		case e.new == remove:
			delete(files, e.file)
		case e.old == "":
			files[e.file] = &fstest.MapFile{Data: []byte(e.new)}
		default:
			require.Contains(t, string(files[e.file].Data), e.old, "the edit of %s fits", e.file)
			files[e.file] = &fstest.MapFile{Data: []byte(strings.Replace(string(files[e.file].Data), e.old, e.new, 1))}
		}
	}
}

func TestBadInputs(t *testing.T) {
	for group, list := range map[string][]badInput{
		"load": badLoad, "secrets": badSecrets, "network": badNetwork, "nodes": badNodes, "roles": badRoles,
		"node files": badNodefiles, "services": badServices, "image": badImage,
	} {
		for _, tc := range list {
			t.Run(group+"/"+tc.name, func(t *testing.T) {
				files := goodFolder(t)
				apply(t, files, tc.edits)
				_, report := Check(files, Options{})
				require.Equal(t, strings.Join(tc.want, "\n")+"\n", serious(report))
			})
		}
	}
}

func TestStrictMakesEveryWarningAnError(t *testing.T) {
	for _, tc := range slices.Concat(badNetwork, badNodes, badRoles, badNodefiles, badServices, badImage) {
		files := goodFolder(t)
		apply(t, files, tc.edits)
		_, lenient := Check(files, Options{})
		_, strict := Check(files, Options{Strict: true})
		require.Zero(t, strict.Count(Warning), tc.name)
		require.Equal(t, lenient.Count(Error)+lenient.Count(Warning), strict.Count(Error), tc.name)
	}
}

// FuzzCheck changes the files of a good folder: no panic, no endless run, and every problem has a place inside its file.
func FuzzCheck(f *testing.F) {
	good := goodFolder(f)
	f.Add(good["cluster.yaml"].Data, good["services/mqtt.yaml"].Data, good["services/dns.yaml"].Data, good["nodes/storage-01.yaml"].Data, good["image.yaml"].Data)
	for _, tc := range slices.Concat(badLoad, badSecrets, badNetwork, badNodes, badRoles, badNodefiles, badServices, badImage) {
		files := goodFolder(f)
		apply(f, files, tc.edits)
		data := func(name string) []byte {
			if files[name] == nil {
				return nil
			}
			return files[name].Data
		}
		f.Add(data("cluster.yaml"), data("services/mqtt.yaml"), data("services/dns.yaml"), data("nodes/storage-01.yaml"), data("image.yaml"))
	}
	f.Fuzz(func(t *testing.T, cluster, mqtt, dns, node, image []byte) {
		files := goodFolder(t)
		for name, data := range map[string][]byte{"cluster.yaml": cluster, "services/mqtt.yaml": mqtt, "services/dns.yaml": dns, "nodes/storage-01.yaml": node, "image.yaml": image} {
			files[name] = &fstest.MapFile{Data: data}
		}
		c, report := Check(files, Options{})
		for _, p := range report {
			require.NotEmpty(t, p.Message)
			require.GreaterOrEqual(t, p.Line, 1, p.String())
			require.GreaterOrEqual(t, p.Column, 1, p.String())
			if src := files[p.File]; src != nil {
				require.LessOrEqual(t, p.Line, strings.Count(strings.ReplaceAll(string(src.Data), "\r", "\n"), "\n")+1, p.String())
			}
			require.NotContains(t, p.Message, "\n")
		}
		files2, err := Compile(c)
		if !report.Failed() {
			require.NoError(t, err)
			require.NotEmpty(t, files2)
		}
	})
}
