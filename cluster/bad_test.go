package cluster

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/check"
)

// badInput is a mistake: edits of a good configuration (the six-node cluster with the example's image.yaml), and every
// error and warning that it leads to.
type badInput struct {
	name  string
	edits []edit
	want  []string
}

// edit replaces the first old by new in a file. Where old is empty, new is the whole file.
type edit struct{ file, old, new string }

// remove as new takes the file away; linked before it makes it a symbolic link.
const (
	remove = "\x00remove"
	linked = "\x00linked"
)

// goodFolder is a configuration that has everything and nothing wrong.
func goodFolder(t testing.TB) fstest.MapFS {
	files := folder(t, "testdata/six-nodes")
	data, err := os.ReadFile("../configs/image.yaml")
	require.NoError(t, err)
	files["image.yaml"] = &fstest.MapFile{Data: data}
	for name, text := range goodPrograms {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func apply(t testing.TB, files fstest.MapFS, edits []edit) {
	for _, e := range edits {
		switch {
		case e.new == remove:
			delete(files, e.file)
		case strings.HasPrefix(e.new, linked):
			files[e.file] = &fstest.MapFile{Data: []byte(strings.TrimPrefix(e.new, linked)), Mode: fs.ModeSymlink}
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
		"node files": badNodefiles, "services": badServices, "ports": badPorts, "Ceph": badCeph, "kubernetes": badKubernetes, "kafka": badKafka, "metrics": badMetrics, "alerts": badAlerts, "logs": badLogs,
		"image":     badImage,
		"manifests": badManifests, "overlay": badOverlay, "programs": badPrograms,
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
	for _, tc := range slices.Concat(badNetwork, badNodes, badRoles, badNodefiles, badServices, badPorts, badCeph, badKubernetes, badKafka, badMetrics, badAlerts, badLogs, badImage, badManifests, badOverlay, badPrograms) {
		files := goodFolder(t)
		apply(t, files, tc.edits)
		_, lenient := Check(files, Options{})
		_, strict := Check(files, Options{Strict: true})
		require.Zero(t, strict.Count(check.Warning), tc.name)
		require.Equal(t, lenient.Count(check.Error)+lenient.Count(check.Warning), strict.Count(check.Error), tc.name)
	}
}

// FuzzCheck replaces one file of a good folder: no panic, no endless run, every problem has a place inside its file,
// and what has no error can be compiled.
func FuzzCheck(f *testing.F) {
	good := goodFolder(f)
	names := slices.Sorted(maps.Keys(good))
	for i, name := range names {
		f.Add(uint8(i), good[name].Data)
	}
	for _, tc := range slices.Concat(badLoad, badSecrets, badNetwork, badNodes, badRoles, badNodefiles, badServices, badPorts, badCeph, badKubernetes, badKafka, badMetrics, badAlerts, badLogs, badImage, badManifests, badOverlay, badPrograms) {
		files := goodFolder(f)
		apply(f, files, tc.edits)
		for _, e := range tc.edits {
			if i := slices.Index(names, e.file); i >= 0 && files[e.file] != nil {
				f.Add(uint8(i), files[e.file].Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		files := maps.Clone(good)
		files[names[int(which)%len(names)]] = &fstest.MapFile{Data: data}
		c, report := Check(files, Options{})
		for _, p := range report {
			require.NotEmpty(t, p.Message)
			require.NotContains(t, p.Message, "\n")
			require.GreaterOrEqual(t, p.Line, 1, p.String())
			require.GreaterOrEqual(t, p.Column, 1, p.String())
			if src := files[p.File]; src != nil {
				require.LessOrEqual(t, p.Line, 1+len(lineEnds.FindAll(src.Data, -1)), p.String())
			}
		}
		if !report.Failed() {
			compiled, err := Compile(c)
			require.NoError(t, err)
			require.NotEmpty(t, compiled)
		}
	})
}

// lineEnds are the line breaks of YAML 1.1 (section 5.4).
var lineEnds = regexp.MustCompile("\r\n|\r|\n|\u0085|\u2028|\u2029")
