package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"spore/payloads/spore-rbd/driver"
)

func TestCommandLinesThatAreWrong(t *testing.T) {
	whole := []string{"--conf", "c", "--user", "u", "--socket", "s"}
	for _, args := range [][]string{
		nil, {"mount"}, {"controller"}, {"node"}, append([]string{"node"}, whole...), append([]string{"mount"}, whole...),
		append(append([]string{"controller"}, whole...), "more"), {"controller", "--what"}, {"cephfs-controller"}, append([]string{"cephfs-node"}, whole...),
		append([]string{"cephfs-node", "--fsid", "f", "--monitors", "nowhere", "--key", "k", "--registration", "r", "--node", "n"}, whole...),
	} {
		require.ErrorIs(t, run(t.Context(), args), errUsage, "%v", args)
	}
	require.ErrorIs(t, run(t.Context(), []string{"controller", "--help"}), flag.ErrHelp)
	require.NoError(t, run(t.Context(), []string{"--help"}))
}

func TestTheNodesServeKubeletAtBothSockets(t *testing.T) {
	t.Run("RBD", func(t *testing.T) { servesKubelet(t, driver.Name, "node", "--conf", "c") })
	t.Run("CephFS", func(t *testing.T) {
		servesKubelet(t, driver.FilesName, "cephfs-node", "--fsid", "f", "--monitors", "10.0.0.1:3300/[fd00::1]:3300", "--key", "k")
	})
}

func servesKubelet(t *testing.T, name string, args ...string) {
	dir := t.TempDir()
	socket, register := filepath.Join(dir, "plugins", "csi.sock"), filepath.Join(dir, "registry", "reg.sock")
	require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	require.NoError(t, os.WriteFile(socket, nil, 0o600), "what an earlier run has left")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append(args, "--user", "u", "--socket", socket, "--registration", register, "--node", "worker-01"))
	}()

	connect := func(path string) *grpc.ClientConn {
		c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	call, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	info, err := registerapi.NewRegistrationClient(connect(register)).GetInfo(call, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.Equal(t, socket, info.GetEndpoint())
	node, err := csi.NewNodeClient(connect(info.GetEndpoint())).NodeGetInfo(call, &csi.NodeGetInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "worker-01", node.GetNodeId())
	plugin, err := csi.NewIdentityClient(connect(socket)).GetPluginInfo(call, &csi.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, name, plugin.GetName())
	for _, s := range []string{socket, register} {
		st, err := os.Stat(s)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, st.Mode().Perm(), "nobody else may ask for mounts")
	}
	stop()
	require.NoError(t, <-ended)
}
