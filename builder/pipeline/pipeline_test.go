package pipeline

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/manifest"
	"spore/builder/payload"
	"spore/services/service"
)

func TestTheKernelIsTheOnePackageNamedAfterARelease(t *testing.T) {
	named := func(names ...string) packageSet {
		var s packageSet
		for _, n := range names {
			s.list = append(s.list, apt.Package{Name: n})
		}
		return s
	}
	s := named("linux-base", "linux-image-6.12.48+deb13-amd64", "linux-image-amd64")
	require.NoError(t, s.findKernel())
	require.Equal(t, "6.12.48+deb13-amd64", s.release)

	none := named("linux-image-amd64")
	require.ErrorContains(t, none.findKernel(), "needs 0")
	two := named("linux-image-6.12.48+deb13-amd64", "linux-image-6.12.48+deb13-cloud-amd64")
	require.ErrorContains(t, two.findKernel(), "check kernel and packages in image.yaml")
}

func TestPayloadsOfProgramsAreBuiltOnce(t *testing.T) {
	b := build{programs: []service.Program{{Name: "a", Payloads: []string{"x", "y"}}, {Name: "b", Payloads: []string{"x"}}}}
	require.Equal(t, []string{"x", "y"}, b.payloadNames())
}

func TestAFileOfAPayloadIsDescribedByWhatItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jar")
	require.NoError(t, os.WriteFile(file, jarWith(t, "META-INF/maven/org.in/in/pom.properties", "groupId=org.in\nartifactId=in\nversion=2\n"), 0o644))
	p := payload.Program{Name: "kafka/a.jar", Version: "1", Target: "/usr/share/kafka/libs/a.jar", Path: file, Artifact: &payload.Artifact{Group: "g", Name: "a", Version: "1"}}
	got, err := describePayload(p)
	require.NoError(t, err)
	require.Equal(t, &manifest.Artifact{Group: "g", Name: "a", Version: "1"}, got.Artifact)
	require.Equal(t, []manifest.Artifact{{Group: "org.in", Name: "in", Version: "2"}}, got.Bundled)
	require.Equal(t, p.Target, got.Path)

	p.Artifact = nil
	got, err = describePayload(p)
	require.NoError(t, err)
	require.Nil(t, got.Artifact, "a script beside the jars")

	p.Compiled = true
	_, err = describePayload(p)
	require.ErrorContains(t, err, "read build information of payload kafka/a.jar")
}

// jarWith is a jar with one file.
func jarWith(t *testing.T, name, text string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestTheLargestPackageIsFirst(t *testing.T) {
	require.Equal(t, []int{2, 0, 1}, largestFirst([]apt.Package{{Size: 5}, {Size: 5}, {Size: 9}}))
}
