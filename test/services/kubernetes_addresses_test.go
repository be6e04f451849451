//go:build e2e

package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/kubecluster"
)

const calicoAPI = "/apis/crd.projectcalico.org/v1/"

// kubeconfigOf is the kubeconfig of a program of a node.
func (p *controlPlane) kubeconfigOf(node, program, leaf string) string {
	p.t.Helper()
	c, err := p.Credentials(node, program, leaf)
	require.NoError(p.t, err)
	data, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{object{"name": "c", "cluster": object{"server": c.Server, "certificate-authority-data": c.Authorities}}},
		"users":    []any{object{"name": "c", "user": object{"client-certificate-data": c.Certificate, "client-key-data": c.Key}}},
		"contexts": []any{object{"name": "c", "context": object{"cluster": "c", "user": "c"}}},
	})
	require.NoError(p.t, err)
	path := filepath.Join(p.t.TempDir(), leaf)
	require.NoError(p.t, os.WriteFile(path, data, 0o600))
	return path
}

// allocator is the address management of one node, as containerd calls it.
type allocator struct {
	t                *testing.T
	program          string
	node, kubeconfig string
	lock             string
}

// pod gives a pod an address.
func (a *allocator) pod(name string) netip.Addr {
	a.t.Helper()
	config, err := json.Marshal(object{
		"cniVersion": "1.0.0", "name": "pods", "type": "calico", "datastore_type": "kubernetes", "nodename": a.node, "log_level": "warning",
		"ipam":       object{"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": "false", "ipam_lock_file": a.lock},
		"kubernetes": object{"kubeconfig": a.kubeconfig},
	})
	require.NoError(a.t, err)
	cmd := exec.Command(a.program)
	cmd.Stdin = bytes.NewReader(config)
	cmd.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID="+name, "CNI_NETNS=/none", "CNI_IFNAME=eth0", "CNI_PATH="+filepath.Dir(a.program),
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME="+name)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(a.t, err, "%s%s", out, said.String())
	var result struct{ IPs []struct{ Address string } }
	require.NoError(a.t, json.Unmarshal(out, &result))
	require.Len(a.t, result.IPs, 1)
	prefix, err := netip.ParsePrefix(result.IPs[0].Address)
	require.NoError(a.t, err)
	return prefix.Addr()
}

// allocated is what Calico has given away: handles by their names, and blocks by the nodes that they belong to.
func (u *kubeUser) allocated() (handles, blocks []string) {
	u.t.Helper()
	names, _ := u.must(http.StatusOK, "GET", calicoAPI+"ipamhandles", nil)["items"].([]any)
	for _, h := range names {
		handles = append(handles, at(h, "spec", "handleID").(string))
	}
	for kind, of := range map[string]string{"ipamblocks": "affinity", "blockaffinities": "node"} {
		items, _ := u.must(http.StatusOK, "GET", calicoAPI+kind, nil)["items"].([]any)
		for _, b := range items {
			blocks = append(blocks, fmt.Sprint(kind, " of ", strings.TrimPrefix(fmt.Sprint(at(b, "spec", of)), "host:")))
		}
	}
	return handles, blocks
}

func TestAddressesOfPodsAndNodesThatAreGoneAreTakenBack(t *testing.T) {
	p := newControlPlane(t)
	p.daemon(p.cluster.Nodes)
	admin := p.admin()
	allocators := map[string]*allocator{}
	plugin := calicoProgram(t, "/usr/lib/cni/calico-ipam")
	for _, node := range []string{"worker-01", "worker-02"} {
		p.kubelet(node).register(node)
		allocators[node] = &allocator{t, plugin, node, p.kubeconfigOf(node, "calico-node", "calico-cni"), filepath.Join(t.TempDir(), "lock")}
		calicoNode := filepath.Join(filepath.Dir(plugin), "../../bin/calico-node")
		environment := append(os.Environ(), "DATASTORE_TYPE=kubernetes", "NODENAME="+node, "CALICO_NETWORKING_BACKEND=vxlan", "CALICO_DISABLE_FILE_LOGGING=true",
			"KUBECONFIG="+p.kubeconfigOf(node, "calico-node", "calico-node"))
		// It fails when somebody else has changed the node's object in the meantime, and its unit then starts it again.
		var out []byte
		var err error
		for range 5 {
			cmd := exec.Command(calicoNode, "-allocate-tunnel-addrs", "-allocate-tunnel-addrs-run-once")
			cmd.Env = environment
			if out, err = cmd.CombinedOutput(); err == nil {
				break
			}
		}
		require.NoError(t, err, "%s", out)
	}
	require.Eventually(t, func() bool {
		code, _ := admin.do("GET", "/api/v1/namespaces/default/serviceaccounts/default", nil)
		return code == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond, "the account of pods")
	running := func(name, node string) {
		ip := allocators[node].pod(name)
		admin.must(http.StatusCreated, "POST", "/api/v1/namespaces/default/pods", object{
			"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name},
			"spec": object{"nodeName": node, "containers": []any{object{"name": "c", "image": "spore.local/hello:1"}}},
		})
		admin.must(http.StatusOK, "PATCH", "/api/v1/namespaces/default/pods/"+name+"/status", object{
			"status": object{"phase": "Running", "podIP": ip.String(), "podIPs": []any{object{"ip": ip.String()}}},
		})
	}
	running("there", "worker-01")
	running("lost", "worker-02")
	allocators["worker-01"].pod("leaked") // and the node was cut off before its removal
	handles, blocks := admin.allocated()
	require.ElementsMatch(t, []string{"pods.there", "pods.lost", "pods.leaked", "vxlan-tunnel-addr-worker-01", "vxlan-tunnel-addr-worker-02"}, handles)
	require.ElementsMatch(t, []string{"ipamblocks of worker-01", "ipamblocks of worker-02", "blockaffinities of worker-01", "blockaffinities of worker-02"}, blocks)

	require.NoError(t, p.Start(context.Background(), "calico-controllers"))
	await := func(wantHandles, wantBlocks []string, why string) {
		t.Helper()
		begin := time.Now()
		require.Eventually(t, func() bool {
			handles, blocks = admin.allocated()
			return len(handles) == len(wantHandles) && len(blocks) == len(wantBlocks)
		}, 2*time.Minute, 200*time.Millisecond, why)
		require.ElementsMatch(t, wantHandles, handles)
		require.ElementsMatch(t, wantBlocks, blocks)
		t.Logf("%s: %s", why, time.Since(begin).Round(time.Millisecond))
	}
	await([]string{"pods.there", "pods.lost", "vxlan-tunnel-addr-worker-01", "vxlan-tunnel-addr-worker-02"}, blocks, "the address of a pod that vanished")

	admin.must(http.StatusOK, "DELETE", "/api/v1/nodes/worker-02", nil)
	admin.must(http.StatusOK, "DELETE", "/api/v1/namespaces/default/pods/lost?gracePeriodSeconds=0", nil)
	await([]string{"pods.there", "vxlan-tunnel-addr-worker-01"}, []string{"ipamblocks of worker-01", "blockaffinities of worker-01"}, "what a deleted node had")

	log, err := os.ReadFile(filepath.Join(p.Dir, "calico-controllers.log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "forbidden", "no right is missing")
	time.Sleep(2 * kubecluster.LeakGrace)
	handles, _ = admin.allocated()
	require.Contains(t, handles, "pods.there", "what is in use stays")

	t.Run("and it may do nothing else", func(t *testing.T) {
		u := p.user("master-01", "calico-controllers", "calico-controllers")
		for _, tt := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/api/v1/secrets", nil},
			{"DELETE", "/api/v1/nodes/worker-01", nil},
			{"PATCH", "/api/v1/nodes/worker-01/status", object{}},
			{"DELETE", "/api/v1/namespaces/default/pods/there", nil},
			{"PATCH", "/api/v1/namespaces/default/pods/there/status", object{}},
			{"POST", calicoAPI + "ipamblocks", object{"apiVersion": "crd.projectcalico.org/v1", "kind": "IPAMBlock", "metadata": object{"name": "x"}}},
			{"DELETE", calicoAPI + "ippools/default-ipv4-ippool", nil},
			{"DELETE", calicoAPI + "hostendpoints/x", nil},
			{"GET", calicoAPI + "globalnetworkpolicies", nil},
		} {
			u.must(http.StatusForbidden, tt.method, tt.path, tt.body)
		}
	})
	begin := time.Now()
	p.StopOne("calico-controllers")
	require.Less(t, time.Since(begin), 5*time.Second)
}
