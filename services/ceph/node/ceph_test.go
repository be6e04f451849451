package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/ceph"
	"spore/services/kubernetes"
	"spore/services/rendering"
	"spore/services/rendering/renderingtest"
)

// cephTestKey is a key of Ceph's form that opens nothing.
func cephTestKey(n int) string {
	return "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0OD" + string(rune('a'+n)) + "=="
}

// cephInput is the node of a cluster with three monitors.
func cephInput(c *ceph.Settings, dir string) rendering.Input {
	in := testInput(&facts.Node{Name: "master-02", Hostname: "m2", FQDN: "m2.lab.internal", IPs: []string{"10.77.0.22"}, Roles: []string{"ceph-mon"}})
	in.Cluster.Members["ceph-mon"] = in.Cluster.Members["control-plane"]
	in.Cluster.Services.Set(c)
	in.Dir = dir
	secrets := map[string]string{"ceph-fsid": "0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11"}
	for i, ref := range []string{"ceph-mon-key", "ceph-admin-key", "ceph-mgr-key", "ceph-osd-key", "ceph-mds-key"} {
		secrets[ref] = cephTestKey(i)
	}
	in.Secret = func(ref string) ([]byte, error) {
		s, ok := secrets[ref]
		if !ok {
			return nil, fmt.Errorf("secret %s is not in the bundle", ref)
		}
		return []byte(s + "\n"), nil
	}
	return in
}

func TestProgramsOfCeph(t *testing.T) {
	for _, program := range []string{"ceph-mon", "ceph-mgr", "ceph-mds", "ceph-bootstrap"} {
		t.Run(program, func(t *testing.T) {
			files, err := render(program, cephInput(&ceph.Settings{OSDMemory: 1024}, "/run/"+program))
			require.NoError(t, err)
			renderingtest.Golden(t, program, files)
			require.EqualValues(t, 0o600, files["keyring"].Mode)
		})
	}
}

func TestNoProgramOfCephIsGivenAKeyThatItDoesNotUse(t *testing.T) {
	for program, entities := range map[string][]string{
		"ceph-mon":       {"mon.", "client.admin", "mgr.master-02"},
		"ceph-mgr":       {"mgr.master-02"},
		"ceph-mds":       {"mds.master-02"},
		"ceph-bootstrap": {"mon.", "client.admin"},
	} {
		files, err := render(program, cephInput(&ceph.Settings{}, "/run/x"))
		require.NoError(t, err)
		keyring := string(files["keyring"].Data)
		require.Equal(t, len(entities), strings.Count(keyring, "key = "), program)
		for _, e := range entities {
			require.Contains(t, keyring, "["+e+"]\n", program)
		}
		require.NotContains(t, string(files["ceph.conf"].Data), "AQAA", "what everybody on the machine may read has no key")
		require.NotContains(t, string(files["ceph.conf"].Data), "v1:", "messenger version 1 does not encrypt")
	}
}

func TestMonitorsOfIPv6AreWrittenInBrackets(t *testing.T) {
	in := cephInput(&ceph.Settings{}, "/run/x")
	in.Node.IPs, in.Hosts = []string{"fd77::22"}, strings.NewReader("fd77::21 master-01\nfd77::22 master-02\nfd77::23 master-03\n")
	files, err := render("ceph-mon", in)
	require.NoError(t, err)
	conf := string(files["ceph.conf"].Data)
	require.Contains(t, conf, "\nmon_host = [v2:[fd77::21]:3300] [v2:[fd77::22]:3300] [v2:[fd77::23]:3300]\n")
	require.Contains(t, conf, "\nms_bind_ipv4 = false\nms_bind_ipv6 = true\n")
	require.Contains(t, conf, "\npublic_addrv = [v2:[fd77::22]:3300]\n")
}

func TestALostHostIsDownAsSoonAsAllThatAreLeftSaySo(t *testing.T) {
	for hosts, want := range map[int]string{0: "1", 1: "1", 2: "1", 3: "2", 40: "2"} {
		in := cephInput(&ceph.Settings{}, "/run/x")
		in.Cluster.Members["ceph-osd"] = make([]string, hosts)
		files, err := render("ceph-mon", in)
		require.NoError(t, err)
		require.Contains(t, string(files["ceph.conf"].Data), "mon_osd_min_down_reporters = "+want+"\n", hosts)
	}
}

func TestAManagerWritesSeldomWhileNothingHappens(t *testing.T) {
	for slowMachine, want := range map[int]string{0: "5", 2: "10", 20: "10"} {
		in := cephInput(&ceph.Settings{}, "/run/x")
		kubernetes.Of(in.Cluster.Services).SlowMachine = slowMachine
		files, err := render("ceph-mgr", in)
		require.NoError(t, err)
		require.Contains(t, string(files["ceph.conf"].Data), "mgr_tick_period = "+want+"\n")
	}
}

func TestCephIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		edit       func(*rendering.Input)
	}{
		{"not enabled", "the service ceph is not enabled", func(in *rendering.Input) { in.Cluster.Services.Remove("ceph") }},
		{"no monitor", "no node has the role ceph-mon", func(in *rendering.Input) { in.Cluster.Members["ceph-mon"] = nil }},
		{"a monitor without an address", "node master-03 of role ceph-mon has no address in cluster.yaml", func(in *rendering.Input) {
			in.Hosts = strings.NewReader("10.77.0.21 master-01\n10.77.0.22 master-02\n")
		}},
		{"an fsid of two lines", "the secret ceph-fsid has not the form that Ceph reads", func(in *rendering.Input) {
			in.Secret = func(string) ([]byte, error) {
				return []byte("0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11\nauth_cluster_required = none"), nil
			}
		}},
		{"a malformed key", "the secret ceph-mon-key has not the form that Ceph reads", func(in *rendering.Input) {
			was := in.Secret
			in.Secret = func(ref string) ([]byte, error) {
				if ref == "ceph-mon-key" {
					return []byte("password"), nil
				}
				return was(ref)
			}
		}},
		{"a secret that is missing", "ceph-mgr-key is not in the bundle", func(in *rendering.Input) {
			was := in.Secret
			in.Secret = func(ref string) ([]byte, error) {
				if ref == "ceph-mgr-key" {
					return nil, fmt.Errorf("%s is not in the bundle", ref)
				}
				return was(ref)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := cephInput(&ceph.Settings{}, "/run/x")
			tc.edit(&in)
			_, err := render("ceph-mon", in)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestKubernetesMayWorkWithItsPoolsAlone(t *testing.T) {
	c := &ceph.Settings{Pools: []ceph.Pool{{Name: "a", Kubernetes: true}, {Name: "b"}, {Name: "c", Kubernetes: true}}}
	require.Equal(t, map[string]string{"mon": "profile rbd", "osd": "profile rbd pool=a, profile rbd pool=c", "mgr": "profile rbd pool=a, profile rbd pool=c"}, KubernetesCaps(c, true))
	require.Equal(t, map[string]string{"mon": "profile rbd", "osd": "profile rbd pool=a, profile rbd pool=c"}, KubernetesCaps(c, false), "a worker has nothing to ask the manager for")
}

func TestKubernetesMayWorkWithItsGroupOfItsFileSystemsAlone(t *testing.T) {
	caps := FSKubernetesCaps(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "a", Kubernetes: true}, {Name: "b"}}}, true)
	require.Equal(t, map[string]string{
		"mon": "allow r fsname=a", "osd": "allow rw tag cephfs data=a", "mds": "allow rw fsname=a path=/volumes/kubernetes",
		"mgr": "allow command 'fs subvolumegroup create' with vol_name=a group_name=kubernetes, allow command 'fs subvolume create' with vol_name=a group_name=kubernetes, " +
			"allow command 'fs subvolume info' with vol_name=a group_name=kubernetes, allow command 'fs subvolume rm' with vol_name=a group_name=kubernetes",
	}, caps)
	caps = FSKubernetesCaps(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "a", Kubernetes: true}, {Name: "b", Kubernetes: true}}}, false)
	require.Equal(t, "allow rw fsname=a path=/volumes/kubernetes, allow rw fsname=b path=/volumes/kubernetes", caps["mds"])
	require.NotContains(t, caps, "mgr", "a worker has nothing to ask the manager for")
}

func TestTheCacheOfAMetadataServer(t *testing.T) {
	for _, tt := range []struct{ machine, want uint64 }{{0, 128 << 20}, {1 << 30, 128 << 20}, {8 << 30, 1 << 30}, {1 << 40, 4 << 30}} {
		require.Equal(t, tt.want, mdsCache(tt.machine), "%d", tt.machine)
	}
}
