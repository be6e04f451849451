package roles

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
)

func TestEveryNameAndAliasIsUniqueAndFound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Roles() {
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			got, ok := Lookup(name)
			require.True(t, ok)
			require.Equal(t, r.Name, got.Name)
		}
		require.NotEmpty(t, r.Service)
		require.Regexp(t, `^[a-z-]+\.target$`, r.Target)
		for _, p := range r.Programs {
			_, ok := LookupProgram(p)
			require.True(t, ok, "%s of role %s is in the program table", p, r.Name)
		}
	}
	_, ok := Lookup("mainframe")
	require.False(t, ok)
}

// The names of roles and targets are a contract with the users.
func TestTheContractOfRolesAndTargets(t *testing.T) {
	for role, target := range map[string]string{
		"master": "kubernetes-master.target", "control-plane": "kubernetes-master.target", "worker": "kubernetes-worker.target",
		"kafka-broker": "kafka.target", "kafka-controller": "kafka.target", "ceph-mon": "ceph-mon.target", "ceph-osd": "ceph-osd.target",
		"mqtt-broker": "mqtt.target", "dns-server": "dns.target",
	} {
		r, ok := Lookup(role)
		require.True(t, ok, role)
		require.Equal(t, target, r.Target)
	}
}

func TestEveryProgramBelongsToARoleOrToEveryNode(t *testing.T) {
	used := map[string]bool{}
	for _, p := range EveryNode() {
		used[p] = true
	}
	for _, r := range Roles() {
		for _, p := range r.Programs {
			used[p] = true
		}
	}
	for _, p := range Programs() {
		require.True(t, used[p.Name], p.Name)
		require.NotEmpty(t, p.Unit)
		require.NotEmpty(t, p.User)
		if p.Name != "api" && p.Name != "signer" && p.Name != "kubernetes-api" && !strings.HasSuffix(p.Name, "-bootstrap") && !strings.HasSuffix(p.Name, "-disks") { // part of spore-agent
			require.NotEmpty(t, slices.Concat(p.Packages, p.Payloads, p.Own), p.Name)
		}
		require.Equal(t, p.WaitsForSecrets(), len(p.Secrets) > 0 || p.Name == "mosquitto", "%s: a program without secrets of its own waits for none; mosquitto's are named by its settings", p.Name)
	}
	_, ok := LookupProgram("sendmail")
	require.False(t, ok)
}

func TestTwoListenersOfANodeNeverShareAPort(t *testing.T) {
	owner := map[string]string{}
	for _, p := range Programs() {
		for _, port := range p.Ports {
			require.Regexp(t, `^[0-9]{1,5}/(tcp|udp)$`, port)
			require.Empty(t, owner[port], "%s and %s", port, p.Name)
			owner[port] = p.Name
		}
	}
}

func TestAControlPlaneRunsAllThatAWorkerRuns(t *testing.T) {
	master, _ := Lookup("master")
	worker, _ := Lookup("worker")
	require.Subset(t, master.Programs, worker.Programs)
	require.Equal(t, controlPlane, master.Programs[:len(master.Programs)-len(worker.Programs)])
}

func TestProgramsForASecondServiceAreThereWithItAlone(t *testing.T) {
	names := func(role string, services ...string) []string {
		r, _ := Lookup(role)
		var out []string
		for _, p := range r.Enabled(func(s string) bool { return slices.Contains(services, s) }) {
			out = append(out, p.Name)
		}
		return out
	}
	require.NotContains(t, names("worker"), "rbd-node")
	require.NotContains(t, names("worker", "kubernetes", "kafka"), "rbd-node")
	require.Contains(t, names("worker"), "kubelet")
	require.Contains(t, names("worker", "ceph"), "rbd-node")
	require.NotContains(t, names("worker", "ceph"), "rbd-provisioner", "workers make no volumes")
	require.Subset(t, names("control-plane", "ceph"), []string{"rbd-node", "rbd-controller", "rbd-provisioner"})
	require.NotContains(t, names("ceph-mon", "ceph"), "ceph-mds", "a cluster without file systems has no metadata servers")
	require.Contains(t, names("ceph-mon", "ceph", spec.PartCephFS), "ceph-mds")
	require.NotContains(t, names("worker", "ceph", spec.PartCephFS), "cephfs-node", "Kubernetes is given none of them")
	require.Contains(t, names("worker", "ceph", spec.PartCephFS, spec.PartCephFSVolumes), "cephfs-node")
	for _, p := range Programs() {
		if p.With != "" {
			known := slices.Contains(spec.Parts, p.With) || slices.ContainsFunc(Roles(), func(r Role) bool { return r.Service == p.With })
			require.True(t, known, "%s is for %s", p.Name, p.With)
		}
	}
}

func TestEntriesOfCertificatesComeInPairs(t *testing.T) {
	p, _ := LookupProgram("kube-scheduler")
	require.Equal(t, []string{"kube-scheduler-certificate", "kube-scheduler-key", "kube-scheduler-server-certificate", "kube-scheduler-server-key"}, p.Secrets)
	p, _ = LookupProgram("kube-apiserver")
	require.Contains(t, p.Secrets, "etcd-encryption-key")
	require.NotContains(t, p.Secrets, "etcd-encryption-key-key")
}
