package facts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func timeNode(name, role string, ips ...string) Node {
	return Node{Name: name, Roles: []string{role}, IPs: ips}
}

func TestMastersAreTheTimeNodesBeforeOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []Node
		want  []TimeNode
	}{
		"no node":                              {nil, nil},
		"a node alone tells nobody":            {[]Node{timeNode("a", "control-plane", "10.0.0.1")}, nil},
		"masters first":                        {[]Node{timeNode("w", "worker", "10.0.0.9"), timeNode("a", "control-plane", "10.0.0.1", "10.1.0.1")}, []TimeNode{{"a", "10.0.0.1"}, {"w", "10.0.0.9"}}},
		"without an address nobody can ask it": {[]Node{timeNode("a", "control-plane"), timeNode("b", "worker", "10.0.0.2")}, []TimeNode{{"b", "10.0.0.2"}}},
		"three are enough": {[]Node{timeNode("a", "dns-server", "10.0.0.1"), timeNode("b", "dns-server", "10.0.0.2"), timeNode("c", "dns-server", "10.0.0.3"), timeNode("d", "dns-server", "10.0.0.4")},
			[]TimeNode{{"a", "10.0.0.1"}, {"b", "10.0.0.2"}, {"c", "10.0.0.3"}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, TimeNodes(tc.nodes)) })
	}
}

func TestTimeNodesFollowOnlyThoseBeforeThem(t *testing.T) {
	c := &Cluster{TimeNodes: []TimeNode{{"a", "10.0.0.1"}, {"b", "10.0.0.2"}, {"c", "10.0.0.3"}}}
	c.Network.NTPServers = []string{"ntp.example.org", "10.0.0.200"}
	outside := c.Network.NTPServers
	for node, want := range map[string][]string{
		"a": nil, "b": {"10.0.0.1"}, "c": {"10.0.0.1", "10.0.0.2"}, "d": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "": {"10.0.0.1", "10.0.0.2", "10.0.0.3"},
	} {
		require.Equal(t, append(append([]string{}, outside...), want...), c.TimeServers(node, false), node)
		require.NotContains(t, c.TimeServers(node, false)[len(outside):], map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}[node], "nobody follows himself")
	}
	require.Equal(t, append(append([]string{}, outside...), "10.0.0.2", "10.0.0.3"), c.TimeServers("a", true), "a clock that is wrong asks everybody")
	require.True(t, c.ServesTime("c"))
	require.False(t, c.ServesTime("d"))

	c.Network.NTPServers = []string{"10.0.0.1"}
	require.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, c.TimeServers("c", false), "a node that is named is asked once")
}
