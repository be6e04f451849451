package needs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/spec"
	"spore/services/ceph"
	kube "spore/services/kubernetes"
)

func TestAnImageCarriesTheProgramsOfItsServicesAlone(t *testing.T) {
	names := func(services ...string) []string {
		out := []string{}
		for _, p := range Programs(&cluster.Config{Cluster: spec.Cluster{Services: services}}) {
			out = append(out, p.Name)
		}
		return out
	}
	require.Equal(t, []string{"api", "coredns", "mosquitto"}, names("mqtt", "dns"))
	require.Equal(t, []string{"api", "coredns"}, names("dns"))
	require.Equal(t, []string{"api"}, names(), "every node has its part of the API")
}

func TestAPackageComesWithWhatItDoesNotRunWithout(t *testing.T) {
	packages := func(named ...string) []string {
		list, err := Packages(&cluster.Config{Image: spec.Image{Kernel: "cloud", Packages: named}})
		require.NoError(t, err)
		return list
	}
	require.Contains(t, packages("podman"), "dbus")
	require.NotContains(t, packages("nginx"), "dbus")
	require.Contains(t, packages("nginx"), "systemd-timesyncd")
	require.NotContains(t, packages("chrony"), "systemd-timesyncd")
}

func TestAnImageCarriesMetadataServersWithFileSystemsAlone(t *testing.T) {
	has := func(c *ceph.Settings, kubernetes *kube.Settings, services ...string) (mds, volumes bool) {
		for _, p := range Programs(&cluster.Config{Cluster: spec.Cluster{Services: services}, Services: spec.Services{c, kubernetes}}) {
			mds, volumes = mds || p.Name == "ceph-mds", volumes || p.Name == "cephfs-node"
		}
		return mds, volumes
	}
	with := func(kubernetes bool) *ceph.Settings {
		return &ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: kubernetes}}}
	}
	for _, tt := range []struct {
		name         string
		ceph         *ceph.Settings
		kubernetes   *kube.Settings
		services     []string
		mds, volumes bool
	}{
		{"no file system", &ceph.Settings{}, &kube.Settings{}, []string{"ceph", "kubernetes"}, false, false},
		{"one that is not for Kubernetes", with(false), &kube.Settings{}, []string{"ceph", "kubernetes"}, true, false},
		{"one that is", with(true), &kube.Settings{}, []string{"ceph", "kubernetes"}, true, true},
		{"one for a Kubernetes elsewhere", with(true), nil, []string{"ceph"}, true, false},
		{"no Ceph", nil, &kube.Settings{}, []string{"kubernetes"}, false, false},
	} {
		mds, volumes := has(tt.ceph, tt.kubernetes, tt.services...)
		require.Equal(t, []bool{tt.mds, tt.volumes}, []bool{mds, volumes}, tt.name)
	}
}
