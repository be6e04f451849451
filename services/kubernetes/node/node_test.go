package node

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

const kubeHosts = `10.77.0.21 master-01.lab.internal master-01
10.77.0.22 m2.lab.internal m2 master-02
10.77.0.23 master-03.lab.internal master-03
10.77.0.31 worker-01.lab.internal worker-01
`

// kubeInput is a node of a cluster with three masters.
func kubeInput(node *facts.Node) rendering.Input {
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
		Node: node, Hosts: strings.NewReader(kubeHosts), Dir: "/run/x",
		Addresses:  []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("10.77.0.99")},
		Secret:     func(ref string) ([]byte, error) { return []byte("content of " + ref + "\n"), nil },
		Authority:  func(name string) ([]byte, error) { return []byte("content of " + name + "\n"), nil },
		SecretPath: func(ref string) string { return "/run/credentials/x.service/secret_" + ref },
	}
}

func kubeMaster() *facts.Node {
	return &facts.Node{Name: "master-02", Hostname: "m2", FQDN: "m2.lab.internal", IPs: []string{"10.77.0.22"}, Roles: []string{"control-plane"}}
}

func kubeWorker() *facts.Node {
	return &facts.Node{
		Name: "worker-01", Hostname: "worker-01", FQDN: "worker-01.lab.internal", IPs: []string{"10.77.0.31"}, Roles: []string{"worker"},
		Labels: map[string]string{"example.com/zone": "b", "node.kubernetes.io/tier": "1", "node-role.kubernetes.io/worker": ""},
		Taints: []string{"example.com/only=batch:NoExecute", "quiet:PreferNoSchedule"},
	}
}

// render makes the files of a program of Kubernetes.
func render(program string, in rendering.Input) (map[string]rendering.File, error) {
	return Renderings[program](in)
}

func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	for program := range Renderings {
		t.Run(program, func(t *testing.T) {
			in, _ := masterInput(t)
			a, err := render(program, in)
			require.NoError(t, err)
			in.Hosts = strings.NewReader(kubeHosts)
			b, err := render(program, in)
			require.NoError(t, err)
			require.Equal(t, a, b)
		})
	}
}

func TestNodeProgramsOfKubernetes(t *testing.T) {
	for _, program := range []string{"calico-node", "containerd", "kube-balancer", "kube-proxy", "kubelet"} {
		for kind, node := range map[string]*facts.Node{"master": kubeMaster(), "worker": kubeWorker()} {
			t.Run(program+" of a "+kind, func(t *testing.T) {
				files, err := render(program, kubeInput(node))
				require.NoError(t, err)
				renderingtest.Golden(t, program+"-"+kind, files)
			})
		}
	}
}

func TestASlowMachineGetsMoreTime(t *testing.T) {
	in := kubeInput(kubeWorker())
	kubernetes.Of(in.Cluster.Services).SlowMachine = 5
	files, err := render("kubelet", in)
	require.NoError(t, err)
	require.Contains(t, string(files["config.json"].Data), `"nodeLeaseDurationSeconds": 200,`)
	require.Contains(t, string(files["config.json"].Data), `"runtimeRequestTimeout": "10m0s",`)
	in.Hosts = strings.NewReader(kubeHosts)
	files, err = render("kube-balancer", in)
	require.NoError(t, err)
	require.Contains(t, string(files["haproxy.cfg"].Data), " inter 10000ms downinter 5000ms ")
}

// Nobody closes connections to the only master because it is late.
func TestTheOnlyMasterKeepsItsConnections(t *testing.T) {
	in := kubeInput(kubeWorker())
	in.Cluster.Members["control-plane"] = []string{"master-01"}
	files, err := render("kube-balancer", in)
	require.NoError(t, err)
	renderingtest.Golden(t, "kube-balancer-of-one", files)
}

func TestANodeWithTheAddressOfItsLease(t *testing.T) {
	node := kubeWorker()
	node.IPs = nil
	files, err := render("calico-node", kubeInput(node))
	require.NoError(t, err)
	require.Contains(t, string(files["environment"].Data), "\nIP=10.77.0.99\nIP6=none\n")
}

func TestAMasterThatIsAWorkerTooTakesPods(t *testing.T) {
	node := kubeMaster()
	node.Roles = []string{"control-plane", "worker"}
	files, err := render("kubelet", kubeInput(node))
	require.NoError(t, err)
	require.NotContains(t, string(files["config.json"].Data), masterTaint)
}

func TestBothFamilies(t *testing.T) {
	node := kubeWorker()
	node.IPs = []string{"fd77::31", "10.77.0.31"}
	node.Interfaces = []spec.Interface{{Name: "lan0"}, {MAC: "52:54:00:77:00:1f"}}
	in := kubeInput(node)
	in.Cluster.Network.PodCIDRs = []string{"10.78.0.0/16", "fd78::/56"}
	files, err := render("calico-node", in)
	require.NoError(t, err)
	for _, line := range []string{"IP=10.77.0.31", "IP6=fd77::31", "FELIX_IPV6SUPPORT=true"} {
		require.Contains(t, string(files["environment"].Data), "\n"+line+"\n")
	}
	require.Contains(t, string(files["environment"].Data), `|^lan0\$"`)
	require.Contains(t, string(files["10-calico.conflist"].Data), `"assign_ipv6": "true"`)
	in.Node.IPs = []string{"fd77::31"}
	_, err = render("calico-node", in)
	require.EqualError(t, err, "pods have IPv4 addresses and the node has none yet")
}

func TestOnlyTheNodeItselfReadsKeys(t *testing.T) {
	files, err := render("calico-node", kubeInput(kubeWorker()))
	require.NoError(t, err)
	for _, name := range []string{"calico-kubeconfig", "kubeconfig"} {
		require.Equal(t, os.FileMode(0o600), files[name].Mode, name)
	}
	for name, f := range files {
		if name != "calico-kubeconfig" {
			require.NotContains(t, string(f.Data), "content of", name)
		}
	}
}

func TestKubernetesRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, program, want string
		change              func(*rendering.Input)
	}{
		{"no settings", "kubelet", "the cluster has no kubernetes settings; add services/kubernetes.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("kubernetes") }},
		{"no address", "kubelet", "the node has no address yet", func(in *rendering.Input) { in.Node.IPs, in.Addresses = nil, nil }},
		{"no Service network", "kubelet", "the cluster has no serviceCIDRs; add them to cluster.yaml", func(in *rendering.Input) { in.Cluster.Network.ServiceCIDRs = nil }},
		{"a Service network that is too small", "kubelet", "serviceCIDRs: 10.79.0.0/29 has no address 10; make it larger", func(in *rendering.Input) { in.Cluster.Network.ServiceCIDRs = []string{"10.79.0.0/29"} }},
		{"a taint without an effect", "kubelet", `taint "a=b" of node worker-01 is not key=value:Effect`, func(in *rendering.Input) { in.Node.Taints = []string{"a=b"} }},
		{"a taint with a wrong effect", "kubelet", `taint "a:Never" of node worker-01 is not`, func(in *rendering.Input) { in.Node.Taints = []string{"a:Never"} }},
		{"a label that is no word", "kubelet", "internal error: argument", func(in *rendering.Input) { in.Node.Labels = map[string]string{"a": "b c"} }},
		{"no pod network", "kube-proxy", "the cluster has no podCIDRs; add them to cluster.yaml", func(in *rendering.Input) { in.Cluster.Network.PodCIDRs = nil }},
		{"no pod network", "calico-node", "the cluster has no podCIDRs; add them to cluster.yaml", func(in *rendering.Input) { in.Cluster.Network.PodCIDRs = nil }},
		{"no secrets", "calico-node", "credentials of the CNI plugin: none", func(in *rendering.Input) { in.Secret = func(string) ([]byte, error) { return nil, fmt.Errorf("none") } }},
		{"no master", "kube-balancer", "no node has the role control-plane", func(in *rendering.Input) { in.Cluster.Members = nil }},
		{"no authority", "kube-balancer", "authority of the API servers: none", func(in *rendering.Input) {
			in.Authority = func(string) ([]byte, error) { return nil, fmt.Errorf("none") }
		}},
		{"a master without an address", "kube-balancer", "node master-01 of role control-plane has no address in cluster.yaml", func(in *rendering.Input) { in.Hosts = strings.NewReader("") }},
	} {
		t.Run(tt.program+" with "+tt.name, func(t *testing.T) {
			in := kubeInput(kubeWorker())
			tt.change(&in)
			_, err := render(tt.program, in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLabelsThatAKubeletMaySet(t *testing.T) {
	for key, want := range map[string]bool{
		"plain": true, "example.com/x": true, "kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true,
		"node.kubernetes.io/x": true, "a.node.kubernetes.io/x": true, "kubelet.kubernetes.io/x": true,
		"node-role.kubernetes.io/worker": false, "node-restriction.kubernetes.io/x": false, "k8s.io/x": false, "a.k8s.io/x": false,
		"notkubernetes.io/x": true,
	} {
		require.Equal(t, want, kubeletMaySet(key), key)
	}
}
