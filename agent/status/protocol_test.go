package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/wire/nodeapi"
)

// spore reads of the line what package nodeapi says; it never sees this package.
func TestOperatorsReadTheLineAsItIsWritten(t *testing.T) {
	l := Line{
		Spore: 1, Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"mqtt-broker"}, Held: []activate.Held{{Role: "worker", Reason: "missing"}},
		Services: map[string]string{"mosquitto.service": "active"}, Failed: []string{"x.service"}, Waiting: map[string]string{"kafka": "waiting for kafka-2"},
		Problem: "p", Addresses: []string{"10.77.0.16"},
	}
	s, err := nodeapi.ParseStatus([]byte(l.String()), "plant", "edge-01")
	require.NoError(t, err)
	require.Equal(t, nodeapi.Status{
		Spore: 1, Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"mqtt-broker"}, Held: []nodeapi.Held{{Role: "worker", Reason: "missing"}},
		Services: l.Services, Failed: l.Failed, Waiting: l.Waiting, Problem: "p", Addresses: l.Addresses,
	}, s)
}
