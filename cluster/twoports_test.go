package cluster

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A fixed port of two roles is a mistake where one node has both.
func TestTwoRolesMayHaveOnePortOnTwoNodes(t *testing.T) {
	for name, tc := range map[string]struct{ first, second, want string }{
		"on two nodes": {"alpha", "beta", ""},
		"on one node": {"alpha, beta", "beta", "roles/beta.yaml:3:16: error: port 7000/tcp is not free on node edge-01: the role alpha has it; " +
			"write another port, or give node edge-01 one of the two roles\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder(t, "../examples/edge")
			f["cluster.yaml"].Data = []byte(`name: plant
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
domain: plant.example
network: {nodeSubnets: [10.77.0.0/24]}
services: [alpha, beta]
nodes:
  - {name: edge-01, macs: [52:54:00:77:00:0b], ips: [10.77.0.11], roles: [` + tc.first + `]}
  - {name: edge-02, macs: [52:54:00:77:00:0c], ips: [10.77.0.12], roles: [` + tc.second + `]}
`)
			for _, name := range []string{"services/dns.yaml", "services/mqtt.yaml", "nodes/edge-01.yaml"} {
				delete(f, name)
			}
			for _, name := range []string{"alpha", "beta"} {
				f["services/"+name+".yaml"] = &fstest.MapFile{}
				f["roles/"+name+".yaml"] = &fstest.MapFile{Data: []byte("description: x\nunits: [" + name + ".service]\n" +
					"ports: [{port: 7000, for: others}]\n")}
			}
			_, report := Check(f, Options{})
			require.Equal(t, tc.want, serious(report))
		})
	}
}
