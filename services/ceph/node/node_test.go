package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/ceph"
	"spore/services/kubernetes"
	"spore/services/rendering"
)

const hostsFile = `10.77.0.21 master-01.lab.internal master-01
10.77.0.22 m2.lab.internal m2 master-02
10.77.0.23 master-03.lab.internal master-03
10.77.0.31 worker-01.lab.internal worker-01
`

// testInput is a node of a cluster with three masters.
func testInput(node *facts.Node) rendering.Input {
	return rendering.Input{
		Cluster: &facts.Cluster{
			Name: "lab", ID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Domain: "lab.internal", Nodes: 4,
			Network: spec.Network{
				NodeSubnets: []string{"10.77.0.0/24"}, PodCIDRs: []string{"10.78.0.0/16"}, ServiceCIDRs: []string{"10.79.0.0/16"},
				Nameservers: []string{"10.77.0.3"},
			},
			Members:  map[string][]string{"control-plane": {"master-01", "master-02", "master-03"}, "worker": {"worker-01"}},
			Services: spec.Services{&kubernetes.Settings{}},
		},
		Node: node, Hosts: strings.NewReader(hostsFile), Dir: "/run/x",
		Addresses:  []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("10.77.0.99")},
		SecretPath: func(ref string) string { return "/run/credentials/x.service/secret_" + ref },
	}
}

func kubeMaster() *facts.Node {
	return &facts.Node{Name: "master-02", Hostname: "m2", FQDN: "m2.lab.internal", IPs: []string{"10.77.0.22"}, Roles: []string{"control-plane"}}
}

func kubeWorker() *facts.Node {
	return &facts.Node{Name: "worker-01", Hostname: "worker-01", FQDN: "worker-01.lab.internal", IPs: []string{"10.77.0.31"}, Roles: []string{"worker"}}
}

// render renders a program.
func render(program string, in rendering.Input) (map[string]rendering.File, error) {
	of, ok := Renderings[program]
	if !ok {
		return nil, fmt.Errorf("%s is not of this service", program)
	}
	return of(in)
}

func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	for name := range Renderings {
		input := func() rendering.Input {
			switch {
			case strings.HasPrefix(name, "cephfs-"):
				return cephfsInput(kubeMaster(), "/run/x")
			case strings.HasPrefix(name, "rbd-"):
				return rbdInput(kubeMaster(), "/run/x")
			}
			return cephInput(&ceph.Settings{}, "/run/x")
		}
		a, err := render(name, input())
		require.NoError(t, err)
		b, err := render(name, input())
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}
