package facts

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANodeIsFoundByItsName(t *testing.T) {
	nodes := []Node{{Name: "dns-01"}, {Name: "edge-01"}}
	n, err := Find(nodes, "edge-01", "cluster.yaml")
	require.NoError(t, err)
	require.Same(t, &nodes[1], n)
}

func TestANameThatNoNodeHas(t *testing.T) {
	many := make([]Node, 12)
	for i := range many {
		many[i].Name = fmt.Sprintf("worker-%02d", i+1)
	}
	for _, tt := range []struct {
		what  string
		nodes []Node
		name  string
		want  string
	}{
		{"nearly right", []Node{{Name: "dns-01"}, {Name: "edge-01"}}, "egde-01",
			`cluster.yaml has no node "egde-01"; did you mean "edge-01"? Its nodes are dns-01, edge-01`},
		{"nothing like it", []Node{{Name: "dns-01"}, {Name: "edge-01"}}, "storage",
			`cluster.yaml has no node "storage"; its nodes are dns-01, edge-01`},
		{"empty", []Node{{Name: "edge-01"}}, "", `cluster.yaml has no node ""; its nodes are edge-01`},
		{"a cluster without nodes", nil, "edge-01", `cluster.yaml has no node "edge-01"`},
		{"more than a reader wants", many, "kafka", `cluster.yaml has no node "kafka"; its nodes are worker-01, worker-02, ` +
			`worker-03, worker-04, worker-05, worker-06, worker-07, worker-08, worker-09, worker-10 and 2 more`},
	} {
		n, err := Find(tt.nodes, tt.name, "cluster.yaml")
		require.Nil(t, n, tt.what)
		require.EqualError(t, err, tt.want, tt.what)
	}
}
