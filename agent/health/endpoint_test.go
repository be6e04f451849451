package health

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/services/kubernetes"
	"spore/services/kubernetes/vip/holder"
	"spore/wire/nodeapi"
)

func TestWhoHasTheVirtualAddress(t *testing.T) {
	for _, tt := range []struct {
		name   string
		in     *Endpoint
		want   nodeapi.State
		reason string
	}{
		{"no such address", nil, "", ""},
		{"nothing is known yet", &Endpoint{Unknown: "nothing said"}, nodeapi.Warning, "nothing said"},
		{"this master", &Endpoint{State: holder.State{Address: "10.0.0.9", Holder: "a", Here: true}}, nodeapi.OK, "this master has 10.0.0.9"},
		{"another", &Endpoint{State: holder.State{Address: "10.0.0.9", Holder: "b"}}, nodeapi.OK, "b has 10.0.0.9"},
		{"it cannot try", &Endpoint{State: holder.State{Address: "10.0.0.9", Problem: "waits for etcd"}}, nodeapi.Warning, "10.0.0.9: waits for etcd"},
	} {
		got, reason := endpoint(Input{Endpoint: tt.in})
		require.Equal(t, tt.want, got, tt.name)
		require.Equal(t, tt.reason, reason, tt.name)
	}
}

func TestOnlyMastersOfAClusterWithAVirtualAddressKnowOfIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	c := &facts.Cluster{Members: map[string][]string{"control-plane": {"a"}}}
	c.Services.Set(&kubernetes.Settings{})
	master := &facts.Node{Name: "a", Roles: []string{"control-plane"}}
	require.Nil(t, EndpointOf(path, c, master))
	c.Network.ControlPlaneEndpoint = "10.0.0.9"
	require.Nil(t, EndpointOf(path, c, &facts.Node{Name: "w", Roles: []string{"worker"}}))
	require.Contains(t, EndpointOf(path, c, master).Unknown, "has not said anything yet")
	require.NoError(t, holder.Write(path, holder.State{Address: "10.0.0.9", Holder: "a", Here: true}, time.Now()))
	require.True(t, EndpointOf(path, c, master).Here)
}
