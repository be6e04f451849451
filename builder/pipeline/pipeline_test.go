package pipeline

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/apt"
	"spore/builder/manifest"
	"spore/builder/payload"
	"spore/cluster"
	"spore/cluster/roles"
	"spore/cluster/spec"
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
	require.ErrorContains(t, none.findKernel(), "leads to 0")
	two := named("linux-image-6.12.48+deb13-amd64", "linux-image-6.12.48+deb13-cloud-amd64")
	require.ErrorContains(t, two.findKernel(), "check kernel and packages in image.yaml")
}

func TestAnImageCarriesTheProgramsOfItsServicesAlone(t *testing.T) {
	names := func(services ...string) []string {
		out := []string{}
		for _, p := range enabledPrograms(&cluster.Config{Cluster: spec.Cluster{Services: services}}) {
			out = append(out, p.Name)
		}
		return out
	}
	require.Equal(t, []string{"coredns", "mosquitto"}, names("mqtt", "dns"))
	require.Equal(t, []string{"coredns"}, names("dns"))
	require.Equal(t, []string{}, names())
}

func TestAnImageCarriesMetadataServersWithFileSystemsAlone(t *testing.T) {
	has := func(c *spec.Ceph, kubernetes *spec.Kubernetes, services ...string) (mds, volumes bool) {
		for _, p := range enabledPrograms(&cluster.Config{Cluster: spec.Cluster{Services: services}, Services: spec.Services{Ceph: c, Kubernetes: kubernetes}}) {
			mds, volumes = mds || p.Name == "ceph-mds", volumes || p.Name == "cephfs-node"
		}
		return mds, volumes
	}
	with := func(kubernetes bool) *spec.Ceph {
		return &spec.Ceph{Filesystems: []spec.CephFilesystem{{Name: "files", Kubernetes: kubernetes}}}
	}
	for _, tt := range []struct {
		name         string
		ceph         *spec.Ceph
		kubernetes   *spec.Kubernetes
		services     []string
		mds, volumes bool
	}{
		{"no file system", &spec.Ceph{}, &spec.Kubernetes{}, []string{"ceph", "kubernetes"}, false, false},
		{"one that is not for Kubernetes", with(false), &spec.Kubernetes{}, []string{"ceph", "kubernetes"}, true, false},
		{"one that is", with(true), &spec.Kubernetes{}, []string{"ceph", "kubernetes"}, true, true},
		{"one for a Kubernetes elsewhere", with(true), nil, []string{"ceph"}, true, false},
		{"no Ceph", nil, &spec.Kubernetes{}, []string{"kubernetes"}, false, false},
	} {
		mds, volumes := has(tt.ceph, tt.kubernetes, tt.services...)
		require.Equal(t, []bool{tt.mds, tt.volumes}, []bool{mds, volumes}, tt.name)
	}
}

func TestPayloadsOfProgramsAreBuiltOnce(t *testing.T) {
	b := build{programs: []roles.Program{{Name: "a", Payloads: []string{"x", "y"}}, {Name: "b", Payloads: []string{"x"}}}}
	require.Equal(t, []string{"x", "y"}, b.payloadNames())
}

func TestAFileOfAPayloadIsDescribedByWhatItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jar")
	require.NoError(t, os.WriteFile(file, []byte("jar"), 0o644))
	p := payload.Program{Name: "kafka/a.jar", Version: "1", Target: "/usr/share/kafka/libs/a.jar", Path: file, Artifact: &payload.Artifact{Group: "g", Name: "a", Version: "1"}}
	got, err := describePayload(p)
	require.NoError(t, err)
	require.Equal(t, &manifest.Artifact{Group: "g", Name: "a", Version: "1"}, got.Artifact)
	require.Equal(t, p.Target, got.Path)

	p.Artifact = nil
	got, err = describePayload(p)
	require.NoError(t, err)
	require.Nil(t, got.Artifact, "a script beside the jars")

	p.Compiled = true
	_, err = describePayload(p)
	require.ErrorContains(t, err, "read build information of payload kafka/a.jar")
}

func TestTheLargestPackageIsFirst(t *testing.T) {
	require.Equal(t, []int{2, 0, 1}, largestFirst([]apt.Package{{Size: 5}, {Size: 5}, {Size: 9}}))
}

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	require.NoError(t, writeFile(name, func(w io.Writer) error {
		_, err := io.WriteString(w, "old")
		return err
	}))
	require.Error(t, writeFile(name, func(w io.Writer) error {
		_, _ = io.WriteString(w, "ne")
		return errors.New("disk full")
	}))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
