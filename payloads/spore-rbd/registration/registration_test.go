package registration

import (
	"testing"

	"github.com/stretchr/testify/require"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func TestWhatKubeletIsTold(t *testing.T) {
	var said []string
	s := &Server{Driver: "rbd.csi.spore", Socket: "/x/csi.sock", Say: func(l string) { said = append(said, l) }}
	info, err := s.GetInfo(t.Context(), &registerapi.InfoRequest{})
	require.NoError(t, err)
	require.Equal(t, registerapi.CSIPlugin, info.GetType())
	require.Equal(t, "rbd.csi.spore", info.GetName())
	require.Equal(t, "/x/csi.sock", info.GetEndpoint())
	require.Contains(t, info.GetSupportedVersions(), "1.0.0")

	for _, r := range []*registerapi.RegistrationStatus{{PluginRegistered: true}, {PluginRegistered: true}, {Error: "no such node"}} {
		_, err := s.NotifyRegistrationStatus(t.Context(), r)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"kubelet has registered the driver", "kubelet does not register the driver: no such node"}, said)
}
