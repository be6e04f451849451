package rendering

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

func memberInput(hosts string, addresses ...string) Input {
	in := Input{
		Cluster: &facts.Cluster{Domain: "lab.internal", Members: map[string][]string{"ceph-mon": {"a", "b"}}},
		Node:    &facts.Node{Name: "b"}, Hosts: strings.NewReader(hosts),
	}
	for _, a := range addresses {
		in.Addresses = append(in.Addresses, netip.MustParseAddr(a))
	}
	return in
}

func TestTheNodesOfARole(t *testing.T) {
	a, b, lease := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.9")
	for name, tt := range map[string]struct {
		in   Input
		role string
		want []Member
		err  string
	}{
		"all in the hosts file":           {in: memberInput("10.77.0.1 a\n10.77.0.2 b\n"), want: []Member{{"a", a}, {"b", b}}},
		"this one has a lease":            {in: memberInput("10.77.0.1 a\n", "127.0.0.1", "10.77.0.9"), want: []Member{{"a", a}, {"b", lease}}},
		"this one has no address yet":     {in: memberInput("10.77.0.1 a\n", "fe80::1"), err: "the node has no address yet"},
		"nobody knows another one's":      {in: memberInput("10.77.0.2 b\n"), err: "node a of role ceph-mon has no address in cluster.yaml; give it one under ips"},
		"a role that no node has":         {in: memberInput(""), role: "worker", err: "no node has the role worker"},
		"a hosts file that cannot be one": {in: memberInput("a b\n"), err: "hosts file of the cluster part, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.role == "" {
				tt.role = "ceph-mon"
			}
			got, err := Members(tt.in, tt.role)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTheAddressOfClusterYAMLGoesBeforeOthers(t *testing.T) {
	in := memberInput("", "10.77.0.9")
	in.Node.IPs = []string{"not one", "10.77.0.2", "fd77::2"}
	got, err := Address(in)
	require.NoError(t, err)
	require.Equal(t, "10.77.0.2", got.String())
}

func TestAWordThatSystemdWouldSplitIsNoArgument(t *testing.T) {
	f, err := Arguments([]string{"--a=b", "--c"})
	require.NoError(t, err)
	require.Equal(t, File{Data: []byte("ARGUMENTS=--a=b --c\n"), Mode: 0o644}, f)
	for _, word := range []string{"", "a b", "a\nb", "a\tb", `a"b`, "a'b", `a\b`, "$a"} {
		_, err := Arguments([]string{word})
		require.ErrorContains(t, err, "cannot stand in an environment file", "%q", word)
	}
}

func TestJSONIsForPeopleToo(t *testing.T) {
	f, err := JSON(map[string]any{"url": "a&b"}, 0o600)
	require.NoError(t, err)
	require.Equal(t, File{Data: []byte("{\n  \"url\": \"a&b\"\n}\n"), Mode: 0o600}, f)
	_, err = JSON(func() {}, 0o600)
	require.Error(t, err)
}
