package services

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/ceph"
	"spore/services/service"
)

func TestEveryNameAndAliasIsUniqueAndFound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Ours().Roles() {
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			got, ok := Ours().Lookup(name)
			require.True(t, ok)
			require.Equal(t, r.Name, got.Name)
		}
		require.NotEmpty(t, r.Service)
		require.Regexp(t, `^[a-z-]+\.target$`, r.Target)
		for _, p := range r.Programs {
			_, ok := Ours().LookupProgram(p)
			require.True(t, ok, "%s of role %s is in the program table", p, r.Name)
		}
	}
	_, ok := Ours().Lookup("mainframe")
	require.False(t, ok)
}

// The names of roles and targets are a contract with the users.
func TestTheContractOfRolesAndTargets(t *testing.T) {
	for role, target := range map[string]string{
		"master": "kubernetes-master.target", "control-plane": "kubernetes-master.target", "worker": "kubernetes-worker.target",
		"kafka-broker": "kafka.target", "kafka-controller": "kafka.target", "ceph-mon": "ceph-mon.target", "ceph-osd": "ceph-osd.target",
		"mqtt-broker": "mqtt.target", "dns-server": "dns.target",
	} {
		r, ok := Ours().Lookup(role)
		require.True(t, ok, role)
		require.Equal(t, target, r.Target)
	}
}

func TestEveryProgramBelongsToARoleOrToEveryNode(t *testing.T) {
	used := map[string]bool{}
	for _, p := range Ours().EveryNodeWith(func(service.Service) bool { return true }) {
		used[p] = true
	}
	for _, r := range Ours().Roles() {
		for _, p := range r.Programs {
			used[p] = true
		}
	}
	for _, p := range Ours().Programs() {
		require.True(t, used[p.Name], p.Name)
		require.NotEmpty(t, p.Unit)
		require.NotEmpty(t, p.User)
		if p.Name != "api" && p.Name != "signer" && p.Name != "kubernetes-api" && !strings.HasSuffix(p.Name, "-bootstrap") && !strings.HasSuffix(p.Name, "-disks") { // part of spore-agent
			require.NotEmpty(t, slices.Concat(p.Packages, p.Payloads, p.Own), p.Name)
		}
		require.Equal(t, p.WaitsForSecrets(), len(p.Secrets) > 0 || p.Name == "mosquitto", "%s: a program without secrets of its own waits for none; mosquitto's are named by its settings", p.Name)
	}
	_, ok := Ours().LookupProgram("sendmail")
	require.False(t, ok)
}

// A node may have any roles together.
func TestPortsWithFixedNumbersNeverMeet(t *testing.T) {
	all := slices.Concat(Ours().Programs(), System())
	for _, p := range all {
		for _, port := range p.Ports {
			require.Contains(t, []string{"tcp", "udp"}, port.Protocol, p.Name)
			require.NotEmpty(t, port.For, "%s says what %s is for", p.Name, port)
			require.Greater(t, port.First, 0, p.Name)
			require.Less(t, max(port.First, port.Last), 1<<16, p.Name)
			require.True(t, port.Last == 0 || port.Last > port.First, p.Name)
			for _, other := range all {
				for _, taken := range other.Ports {
					require.False(t, p.Name != other.Name && port.Meets(taken), "%s of %s and %s of %s", port, p.Name, taken, other.Name)
				}
			}
		}
	}
}

func TestWhichPortsMeet(t *testing.T) {
	mqtt, nodePorts, osds := service.TCP(8883, ""), service.TCP(30000, "").To(32767), service.TCP(6800, "").To(7568)
	for name, tc := range map[string]struct {
		a, b service.Port
		want bool
	}{
		"the same":                             {mqtt, service.TCP(8883, ""), true},
		"another number":                       {mqtt, service.TCP(8884, ""), false},
		"another protocol":                     {mqtt, service.UDP(8883, ""), false},
		"everywhere and on the node's address": {mqtt, service.TCP(8883, "").On(service.Node), true},
		"everywhere and on loopback":           {mqtt, service.TCP(8883, "").On(service.Loopback), true},
		"the node's address and loopback":      {service.TCP(2379, "").On(service.Node), service.TCP(2379, "").On(service.Loopback), false},
		"loopback twice":                       {service.TCP(2379, "").On(service.Loopback), service.TCP(2379, "").On(service.Loopback), true},
		"the first of a range":                 {service.TCP(6800, ""), osds, true},
		"the last of a range":                  {service.TCP(7568, ""), osds, true},
		"one below a range":                    {service.TCP(6799, ""), osds, false},
		"one above a range":                    {service.TCP(7569, ""), osds, false},
		"two ranges, which give way":           {osds, service.TCP(7000, "").To(8000), false},
		"two ranges apart":                     {osds, nodePorts, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.a.Meets(tc.b))
			require.Equal(t, tc.want, tc.b.Meets(tc.a))
		})
	}
}

func TestAPortIsWrittenAsPeopleReadIt(t *testing.T) {
	for want, p := range map[string]service.Port{
		"8883/tcp": service.TCP(8883, "MQTT"), "53/udp": service.UDP(53, "DNS").On(service.Node), "6800-7568/tcp": service.TCP(6800, "OSDs").To(7568).On(service.Node), "127.0.0.1:10248/tcp": service.TCP(10248, "health").On(service.Loopback),
	} {
		text, err := p.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func TestAControlPlaneRunsAllThatAWorkerRuns(t *testing.T) {
	master, _ := Ours().Lookup("master")
	worker, _ := Ours().Lookup("worker")
	require.Subset(t, master.Programs, worker.Programs)
	require.Equal(t, worker.Programs, master.Programs[len(master.Programs)-len(worker.Programs):])
}

func TestProgramsForASecondServiceAreThereWithItAlone(t *testing.T) {
	names := func(role string, services ...string) []string {
		r, _ := Ours().Lookup(role)
		var out []string
		for _, p := range Ours().ProgramsOf(r, func(s string) bool { return slices.Contains(services, s) }) {
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
	require.Contains(t, names("ceph-mon", "ceph", ceph.PartCephFS), "ceph-mds")
	require.NotContains(t, names("worker", "ceph", ceph.PartCephFS), "cephfs-node", "Kubernetes is given none of them")
	require.Contains(t, names("worker", "ceph", ceph.PartCephFS, ceph.PartCephFSVolumes), "cephfs-node")
	for _, p := range Ours().Programs() {
		if p.With != "" {
			known := slices.ContainsFunc(Ours().All(), func(s service.Service) bool {
				return s.Name == p.With || slices.ContainsFunc(s.Parts, func(part service.Part) bool { return part.Name == p.With })
			})
			require.True(t, known, "%s is for %s", p.Name, p.With)
		}
	}
}

func TestEntriesOfCertificatesComeInPairs(t *testing.T) {
	p, _ := Ours().LookupProgram("kube-scheduler")
	require.Equal(t, []string{"kube-scheduler-certificate", "kube-scheduler-key", "kube-scheduler-server-certificate", "kube-scheduler-server-key"}, p.Secrets)
	p, _ = Ours().LookupProgram("kube-apiserver")
	require.Contains(t, p.Secrets, "etcd-encryption-key")
	require.NotContains(t, p.Secrets, "etcd-encryption-key-key")
}
