package drain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/cluster/facts"
	"spore/wire/nodeapi"
)

// TestWhoCannotDoItSaysWhoCan has both verbs refuse before they look for a certificate.
func TestWhoCannotDoItSaysWhoCan(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{role: {"master-1", "master-2"}, "worker": {"worker-1"}}}
	master := &facts.Node{Name: "master-1", Roles: []string{role}}
	for name, tc := range map[string]struct {
		node *facts.Node
		of   string
		want string
	}{
		"a worker": {&facts.Node{Name: "worker-1", Roles: []string{"worker"}}, "worker-1",
			"worker-1 is no master (control-plane); masters are master-1, master-2"},
		"a node without roles":           {&facts.Node{Name: "db-1"}, "worker-1", "db-1 is no master (control-plane); masters are master-1, master-2"},
		"a master, about nobody":         {master, "worker-9", `"worker-9" is no node of Kubernetes`},
		"a master, about another's node": {master, "../x", `"../x" is no node of Kubernetes`},
		"a master, about no node":        {master, "", `"" is no node of Kubernetes`},
	} {
		for verb, handle := range map[string]verbs.Handler{"drain": Drain, "uncordon": Uncordon} {
			for _, dry := range []bool{false, true} {
				t.Run(name+", "+verb, func(t *testing.T) {
					m := node.New("test", paths.Root(t.TempDir()))
					o := nodeapi.Order{Arguments: map[string]string{"node": tc.of}, DryRun: dry}
					events, done, err := verbstest.Do(t, m, c, tc.node, handle, o)
					require.EqualError(t, err, tc.want)
					require.Empty(t, done)
					require.Empty(t, events)
				})
			}
		}
	}
}

func TestAMasterNeedsItsCertificate(t *testing.T) {
	c := &facts.Cluster{Members: map[string][]string{role: {"master-1"}, "worker": {"worker-1"}}}
	m := node.New("test", paths.Root(t.TempDir()))
	_, _, err := verbstest.Do(t, m, c, &facts.Node{Name: "master-1", Roles: []string{role}}, Drain,
		nodeapi.Order{Arguments: map[string]string{"node": "worker-1"}})
	require.ErrorContains(t, err, "the certificate of this master: ")
}
