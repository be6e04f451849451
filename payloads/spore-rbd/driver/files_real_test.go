//go:build rbd

package driver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/cephfs"
	"spore/payloads/spore-rbd/filesystem"
)

// TestASharedVolume needs a kernel with CephFS, and a cluster with a file system called files. SPORE_CEPHFS_CONF names its
// ceph.conf, SPORE_CEPHFS_KEY a file with the key of client.kubernetes-cephfs.here, SPORE_CEPHFS_MONITORS the monitors.
func TestASharedVolume(t *testing.T) {
	conf := os.Getenv("SPORE_CEPHFS_CONF")
	if conf == "" {
		t.Skip("SPORE_CEPHFS_CONF is not set")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	const user = "kubernetes-cephfs.here"
	monitors, err := cephfs.ParseMonitors(os.Getenv("SPORE_CEPHFS_MONITORS"))
	require.NoError(t, err)
	fsid, err := exec.CommandContext(ctx, "/usr/bin/ceph", "--conf", conf, "--id", user, "fsid").Output()
	require.NoError(t, err)
	controller := &FilesController{CephFS: cephfs.Command{Program: "/usr/bin/ceph", Conf: conf, User: user}}
	node := &FilesNode{ID: "here", CephFS: cephfs.Mounter{FSID: strings.TrimSpace(string(fsid)), Monitors: monitors, User: user, KeyFile: os.Getenv("SPORE_CEPHFS_KEY")}}
	dir, err := os.MkdirTemp("/var/tmp", "shared-*")
	require.NoError(t, err)
	staging, a, b := filepath.Join(dir, "globalmount"), filepath.Join(dir, "a"), filepath.Join(dir, "b")
	many := capability("", csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
	many.GetMount().MountFlags = []string{"noatime"}

	create := func(size int64) (*csi.Volume, error) {
		out, err := controller.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: "shared-1", Parameters: map[string]string{FilesystemParameter: "files"}, VolumeCapabilities: []*csi.VolumeCapability{many},
			CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		})
		return out.GetVolume(), err
	}
	const size = 64 << 20
	volume, err := create(size)
	require.NoError(t, err)
	require.EqualValues(t, size, volume.GetCapacityBytes())
	again, err := create(size)
	require.NoError(t, err)
	require.Equal(t, volume.GetVolumeContext(), again.GetVolumeContext(), "the second call finds what the first has made")
	_, err = create(2 * size)
	require.Equal(t, codes.AlreadyExists, status.Code(err), "%v", err)
	again, err = create(size)
	require.NoError(t, err)
	require.EqualValues(t, size, again.GetCapacityBytes(), "that one did not change it")

	stage := func(folder string) error {
		_, err := node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: volume.GetVolumeId(), StagingTargetPath: staging, VolumeCapability: many, VolumeContext: map[string]string{folderAttribute: folder},
		})
		return err
	}
	folder := volume.GetVolumeContext()[folderAttribute]
	for _, elsewhere := range []string{"/volumes", "/volumes/other", folder + "-not-there"} {
		err := stage(elsewhere)
		require.Error(t, err, elsewhere)
		t.Log(err)
	}
	require.NoError(t, stage(folder))
	require.NoError(t, stage(folder), "a second call finds it staged")
	require.ErrorContains(t, stage("/volumes/kubernetes"), "something that is not this volume is mounted")
	publish := func(target string, readOnly bool) error {
		_, err := node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
			VolumeId: volume.GetVolumeId(), StagingTargetPath: staging, TargetPath: target, VolumeCapability: many, Readonly: readOnly,
		})
		return err
	}
	require.NoError(t, publish(a, false))
	require.NoError(t, publish(a, false), "a second call finds it published")
	require.NoError(t, publish(b, true))
	require.NoError(t, os.WriteFile(filepath.Join(a, "file"), []byte("kept"), 0o644))
	data, err := os.ReadFile(filepath.Join(b, "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data))
	require.ErrorIs(t, os.WriteFile(filepath.Join(b, "file"), nil, 0o644), unix.EROFS)
	require.ErrorIs(t, os.Truncate(filepath.Join(a, "file"), 2*size), unix.EDQUOT)
	require.ErrorIs(t, unix.Setxattr(a, "ceph.quota.max_bytes", []byte("0"), 0), unix.EACCES, "pods do not change it")
	stats, err := node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: volume.GetVolumeId(), VolumePath: a})
	require.NoError(t, err)
	require.Len(t, stats.GetUsage(), 1)
	require.EqualValues(t, size, stats.GetUsage()[0].GetTotal())
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotRegexp(t, `AQ[A-Za-z0-9+/]{36}==`, string(table), "the key is in no table")

	for _, target := range []string{a, b, b} {
		_, err := node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume.GetVolumeId(), TargetPath: target})
		require.NoError(t, err)
		require.NoDirExists(t, target)
	}
	unstage := func() {
		_, err := node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: volume.GetVolumeId(), StagingTargetPath: staging})
		require.NoError(t, err)
		kind, _, err := filesystem.Source(staging)
		require.NoError(t, err)
		require.Empty(t, kind)
	}
	unstage()
	unstage()
	require.NoError(t, stage(folder))
	data, err = os.ReadFile(filepath.Join(staging, "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data), "from Ceph")
	unstage()
	for range 2 {
		_, err = controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume.GetVolumeId()})
		require.NoError(t, err)
	}
	require.Error(t, stage(folder), "it is gone")
}
