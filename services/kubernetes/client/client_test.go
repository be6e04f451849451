package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/kubernetes"
	"spore/services/rendering"
)

func TestAKubeconfigNamesFilesAndHoldsNoKey(t *testing.T) {
	f, err := Kubeconfig("me", "/c", "/k")
	require.NoError(t, err)
	require.EqualValues(t, 0o600, f.Mode)
	for _, part := range []string{`"server": "https://127.0.0.1:6444"`, `"certificate-authority": "/run/spore/trust/kubernetes-server.crt"`, `"client-certificate": "/c"`, `"client-key": "/k"`} {
		require.Contains(t, string(f.Data), part)
	}
	require.NotContains(t, string(f.Data), "-data")
}

func TestWhatDependsOnTheCluster(t *testing.T) {
	in := rendering.Input{Cluster: &facts.Cluster{Members: map[string][]string{"control-plane": {"a"}}, Services: spec.Services{&kubernetes.Settings{}}}}
	require.False(t, Elects(in), "the only one that lost its lease would only stop itself")
	require.Equal(t, time.Second, Slow(in, time.Second))
	in.Cluster.Members["control-plane"] = []string{"a", "b"}
	in.Cluster.Services.Set(&kubernetes.Settings{SlowMachine: 5})
	require.True(t, Elects(in))
	require.Equal(t, 5*time.Second, Slow(in, time.Second))
	in.Cluster.Services.Remove("kubernetes")
	require.Equal(t, time.Second, Slow(in, time.Second), "Ceph alone")
}
