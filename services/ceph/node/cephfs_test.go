package node

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/ceph"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

// cephfsInput is a node of Kubernetes with what its bundle gives the programs of shared volumes.
func cephfsInput(node *facts.Node, dir string) rendering.Input {
	in := cephInput(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}}, dir)
	in.Node = node
	others := in.Secret
	in.Secret = func(ref string) ([]byte, error) {
		if ref == "ceph-kubernetes-cephfs-node-key" {
			return []byte(cephTestKey(8) + "\n"), nil
		}
		return others(ref)
	}
	return in
}

func TestProgramsOfSharedVolumes(t *testing.T) {
	for program, node := range map[string]*facts.Node{"cephfs-controller": kubeMaster(), "cephfs-provisioner": kubeMaster(), "cephfs-node": kubeWorker()} {
		files, err := render(program, cephfsInput(node, "/run/"+program))
		require.NoError(t, err)
		renderingtest.Golden(t, program, files)
	}
}

func TestTheKeyOfSharedVolumesIsInNoCommandLine(t *testing.T) {
	files, err := render("cephfs-node", cephfsInput(kubeWorker(), "/run/x"))
	require.NoError(t, err)
	require.NotContains(t, string(files["arguments"].Data), cephTestKey(8))
	require.EqualValues(t, 0o600, files["key"].Mode)
}

func TestMonitorsOfIPv6ForTheKernel(t *testing.T) {
	in := cephfsInput(kubeWorker(), "/run/x")
	in.Hosts = strings.NewReader("fd77::21 master-01\nfd77::22 master-02\nfd77::23 master-03\n")
	files, err := render("cephfs-node", in)
	require.NoError(t, err)
	require.Contains(t, string(files["arguments"].Data), "--monitors=[fd77::21]:3300/[fd77::22]:3300/[fd77::23]:3300")
}

func TestProgramsOfSharedVolumesWithoutWhatTheyNeed(t *testing.T) {
	for _, tt := range []struct {
		name, program, want string
		change              func(*rendering.Input)
	}{
		{"no Ceph", "cephfs-controller", "the service ceph is not enabled", func(in *rendering.Input) { in.Cluster.Services.Remove("ceph") }},
		{"no monitor", "cephfs-node", "no node has the role ceph-mon", func(in *rendering.Input) { in.Cluster.Members["ceph-mon"] = nil }},
		{"no key", "cephfs-node", "secret ceph-kubernetes-cephfs-node-key is not in the bundle", func(in *rendering.Input) { in.Secret = cephInput(&ceph.Settings{}, "").Secret }},
		{"a key of two lines", "cephfs-node", "has not the form that Ceph reads", func(in *rendering.Input) {
			others := in.Secret
			in.Secret = func(ref string) ([]byte, error) {
				if ref == "ceph-kubernetes-cephfs-node-key" {
					return []byte("a\nb"), nil
				}
				return others(ref)
			}
		}},
		{"no Kubernetes", "cephfs-provisioner", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"a name that splits", "cephfs-node", "cannot stand in an environment file", func(in *rendering.Input) { in.Node.Name = "a b" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := cephfsInput(kubeWorker(), "/run/x")
			tt.change(&in)
			_, err := render(tt.program, in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
