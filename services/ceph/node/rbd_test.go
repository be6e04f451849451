package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/ceph"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

// rbdInput is a node of Kubernetes with what its bundle gives the programs of volumes.
func rbdInput(node *facts.Node, dir string) rendering.Input {
	in := cephInput(&ceph.Settings{}, dir)
	in.Node = node
	others := in.Secret
	in.Secret = func(ref string) ([]byte, error) {
		if ref == "ceph-kubernetes-rbd-key" {
			return []byte(cephTestKey(9) + "\n"), nil
		}
		return others(ref)
	}
	return in
}

func TestProgramsOfVolumes(t *testing.T) {
	for program, node := range map[string]*facts.Node{"rbd-controller": kubeMaster(), "rbd-provisioner": kubeMaster(), "rbd-node": kubeWorker()} {
		files, err := render(program, rbdInput(node, "/run/"+program))
		require.NoError(t, err)
		renderingtest.Golden(t, program, files)
	}
}

func TestTheProvisionerOfOneMasterTakesNoLease(t *testing.T) {
	in := rbdInput(kubeMaster(), "/run/x")
	in.Cluster.Members["control-plane"] = []string{"master-02"}
	files, err := render("rbd-provisioner", in)
	require.NoError(t, err)
	require.Contains(t, string(files["arguments"].Data), " --leader-election=false ")
}

func TestProgramsOfVolumesWithoutWhatTheyNeed(t *testing.T) {
	for _, tt := range []struct {
		name, program, want string
		change              func(*rendering.Input)
	}{
		{"no Ceph", "rbd-node", "the service ceph is not enabled", func(in *rendering.Input) { in.Cluster.Services.Remove("ceph") }},
		{"no monitor", "rbd-controller", "no node has the role ceph-mon", func(in *rendering.Input) { in.Cluster.Members["ceph-mon"] = nil }},
		{"no key", "rbd-node", "secret ceph-kubernetes-rbd-key is not in the bundle", func(in *rendering.Input) { in.Secret = cephInput(&ceph.Settings{}, "").Secret }},
		{"no Kubernetes", "rbd-provisioner", "add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"a name that splits", "rbd-node", "cannot stand in an environment file", func(in *rendering.Input) { in.Node.Name = "a b" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := rbdInput(kubeWorker(), "/run/x")
			tt.change(&in)
			_, err := render(tt.program, in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
