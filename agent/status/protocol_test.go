package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/pull/looked"
	"spore/agent/slot"
	"spore/wire/nodeapi"
)

// spore reads of the line what package nodeapi says; it never sees this package.
func TestOperatorsReadTheLineAsItIsWritten(t *testing.T) {
	l := Line{
		Spore: 1, Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"mqtt-broker"}, Held: []activate.Held{{Role: "worker", Reason: "missing"}},
		Services: map[string]string{"mosquitto.service": "active"}, Failed: []string{"x.service"}, Waiting: map[string]string{"kafka": "waiting for kafka-2"},
		Problem: "p", Addresses: []string{"10.77.0.16"}, BootID: "b", BuildTime: 1_790_000_000, Versions: map[string]string{"etcd": "v3.6.1"},
		Times:         map[string]float64{"kernel": 1.25, "running": 42},
		Configuration: &slot.Info{RootHash: "aa", ClusterHash: "01", Serial: 7, Trial: true, Staged: "02", StagedRoot: "bb", Other: "02", OtherRoot: "bb", Live: true, Loader: "l", Problem: "q"},
		NoCloud:       &NoCloud{From: []string{"a volume"}, InstanceID: "i-1", NotTaken: []string{"user-data: users"}, Problem: "r"},
		Updates:       &looked.Last{At: time.Unix(1_790_000_000, 0).UTC(), From: "https://x", Serial: 8, Problem: "no route"},
	}
	s, err := nodeapi.ParseStatus([]byte(l.String()), "plant", "edge-01")
	require.NoError(t, err)
	require.Equal(t, nodeapi.Status{
		Spore: 1, Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"mqtt-broker"}, Held: []nodeapi.Held{{Role: "worker", Reason: "missing"}},
		Services: l.Services, Failed: l.Failed, Waiting: l.Waiting, Problem: "p", Addresses: l.Addresses,
		BootID: "b", BuildTime: 1_790_000_000, Versions: l.Versions, Times: l.Times, Configuration: &nodeapi.Configuration{RootHash: "aa", ClusterHash: "01", Serial: 7, Trial: true, Staged: "02", StagedRoot: "bb", Other: "02", OtherRoot: "bb", Live: true, Loader: "l", Problem: "q"},
		NoCloud: &nodeapi.NoCloud{From: []string{"a volume"}, NotTaken: []string{"user-data: users"}, Problem: "r"},
		Updates: &nodeapi.Updates{At: time.Unix(1_790_000_000, 0).UTC(), From: "https://x", Problem: "no route"},
	}, s)
}
