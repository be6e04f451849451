package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/cephfs"
	"spore/payloads/spore-rbd/rbd"
)

func capability(fsType string, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct{ required, limit, want int64 }{
		{0, 0, 1 << 30},
		{1, 0, 16 << 20},
		{1 << 30, 0, 1 << 30},
		{1<<30 + 1, 0, 1<<30 + 1<<20},
		{0, 64 << 20, 64 << 20},
		{0, 64<<20 + 5, 64 << 20},
		{0, 1 << 40, 1 << 30},
		{32 << 20, 32 << 20, 32 << 20},
	} {
		got, err := sizeFor(&csi.CapacityRange{RequiredBytes: tt.required, LimitBytes: tt.limit})
		require.NoError(t, err, "%+v", tt)
		require.Equal(t, tt.want, got, "%+v", tt)
	}
	got, err := sizeFor(nil)
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, got)
	for _, bad := range [][2]int64{{-1, 0}, {0, -1}, {2 << 30, 1 << 30}, {math.MaxInt64, 0}, {1<<30 + 1, 1<<30 + 2}, {0, 1 << 20}} {
		_, err := sizeFor(&csi.CapacityRange{RequiredBytes: bad[0], LimitBytes: bad[1]})
		require.Equal(t, codes.OutOfRange, status.Code(err), "%v", bad)
	}
}

// What is refused is refused before Ceph is asked: there is none here.
func TestVolumesThatAreNotMade(t *testing.T) {
	good := func() *csi.CreateVolumeRequest {
		return &csi.CreateVolumeRequest{
			Name: "pvc-1", Parameters: map[string]string{"pool": "rbd"},
			VolumeCapabilities: []*csi.VolumeCapability{capability("ext4", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
		}
	}
	for _, tt := range []struct {
		name, want string
		change     func(*csi.CreateVolumeRequest)
	}{
		{"no name", "has no name", func(r *csi.CreateVolumeRequest) { r.Name = "" }},
		{"an option as its name", "is no name of an image", func(r *csi.CreateVolumeRequest) { r.Name = "--pool=other" }},
		{"a path as its name", "is no name of an image", func(r *csi.CreateVolumeRequest) { r.Name = "../x" }},
		{"no pool", "the StorageClass has the pool as parameter pool", func(r *csi.CreateVolumeRequest) { r.Parameters = nil }},
		{"an unknown parameter", `parameter "encrypted" is not known`, func(r *csi.CreateVolumeRequest) { r.Parameters["encrypted"] = "true" }},
		{"no capability", "nothing is said", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil }},
		{"another file system", "use ext4", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "xfs" }},
		{"a block device", "volumeMode: Filesystem", func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		}},
		{"many writers", "ReadWriteOnce", func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}},
		{"a snapshot", "snapshots", func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := good()
			tt.change(r)
			_, err := (&Controller{}).CreateVolume(context.Background(), r)
			require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := (&Controller{RBD: rbd.Command{Program: "/nonexistent/rbd"}}).CreateVolume(context.Background(), good())
	require.Equal(t, codes.Internal, status.Code(err), "the one that is changed is whole: %v", err)
}

func TestCallsOfTheNodeThatAreRefused(t *testing.T) {
	n := &Node{ID: "here"}
	writer := capability("", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	stage := func(volume, path string, c *csi.VolumeCapability) error {
		_, err := n.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: path, VolumeCapability: c})
		return err
	}
	for _, tt := range []struct {
		name string
		code codes.Code
		err  error
	}{
		{"no volume", codes.InvalidArgument, stage("", "/x", writer)},
		{"no path", codes.InvalidArgument, stage("rbd/x", "", writer)},
		{"a path that climbs", codes.InvalidArgument, stage("rbd/x", "/var/lib/kubelet/../x", writer)},
		{"a path from here", codes.InvalidArgument, stage("rbd/x", "x", writer)},
		{"no capability", codes.InvalidArgument, stage("rbd/x", "/x", nil)},
		{"another file system", codes.InvalidArgument, stage("rbd/x", "/x", capability("btrfs", csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER))},
		{"readers on many nodes", codes.InvalidArgument, stage("rbd/x", "/x", capability("", csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY))},
		{"a handle that cannot be", codes.NotFound, stage("rbd/x@y", "/x", writer)},
	} {
		require.Equal(t, tt.code, status.Code(tt.err), "%s: %v", tt.name, tt.err)
	}
}

// Of CephFS, too, there is none here.
func TestSharedVolumesThatAreNotMade(t *testing.T) {
	many := csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	good := func() *csi.CreateVolumeRequest {
		return &csi.CreateVolumeRequest{Name: "pvc-1", Parameters: map[string]string{"filesystem": "files"}, VolumeCapabilities: []*csi.VolumeCapability{capability("", many)}}
	}
	for _, tt := range []struct {
		name, want string
		change     func(*csi.CreateVolumeRequest)
	}{
		{"no name", "has no name", func(r *csi.CreateVolumeRequest) { r.Name = "" }},
		{"an option as its name", "is no name of a volume", func(r *csi.CreateVolumeRequest) { r.Name = "--force" }},
		{"no file system", "the StorageClass has the file system as parameter filesystem", func(r *csi.CreateVolumeRequest) { r.Parameters = nil }},
		{"a pool", `parameter "pool" is not known; there is filesystem`, func(r *csi.CreateVolumeRequest) { r.Parameters["pool"] = "rbd" }},
		{"another file system", "leave it out", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "ext4" }},
		{"a block device", "volumeMode: Filesystem", func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		}},
		{"nobody says who writes", "ReadWriteMany", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessMode.Mode = 0 }},
		{"options of the kernel's", `mount option "ms_mode=crc" is not provided`, func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].GetMount().MountFlags = []string{"ms_mode=crc"}
		}},
		{"a snapshot", "snapshots", func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := good()
			tt.change(r)
			_, err := (&FilesController{}).CreateVolume(context.Background(), r)
			require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			require.ErrorContains(t, err, tt.want)
		})
	}
	for mode := range csi.VolumeCapability_AccessMode_Mode_name {
		if mode != 0 {
			r := good()
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_Mode(mode)
			_, err := (&FilesController{CephFS: cephfs.Command{Program: "/nonexistent/ceph"}}).CreateVolume(context.Background(), r)
			require.Equal(t, codes.Internal, status.Code(err), "each way to share is one that there is: %v", err)
		}
	}
}

func TestSharedVolumesThatAreNotMounted(t *testing.T) {
	n := &FilesNode{ID: "here"}
	many := capability("", csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
	stage := func(volume, path, folder string, c *csi.VolumeCapability) error {
		_, err := n.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: path, VolumeCapability: c, VolumeContext: map[string]string{"folder": folder}})
		return err
	}
	for _, tt := range []struct {
		name string
		code codes.Code
		err  error
	}{
		{"no volume", codes.InvalidArgument, stage("", "/x", "/f", many)},
		{"no path", codes.InvalidArgument, stage("files/x", "", "/f", many)},
		{"a path that climbs", codes.InvalidArgument, stage("files/x", "/x/../y", "/f", many)},
		{"no capability", codes.InvalidArgument, stage("files/x", "/x", "/f", nil)},
		{"no folder", codes.InvalidArgument, stage("files/x", "/x", "", many)},
		{"a folder that climbs", codes.InvalidArgument, stage("files/x", "/x", "/volumes/kubernetes/../other", many)},
		{"a handle that cannot be", codes.NotFound, stage("files/--force", "/x", "/f", many)},
		{"something else at the path", codes.Internal, stage("files/x", "/proc", "/f", many)},
		{"no key", codes.Internal, stage("files/x", t.TempDir(), "/f", many)},
	} {
		require.Equal(t, tt.code, status.Code(tt.err), "%s: %v", tt.name, tt.err)
	}
	_, err := n.NodeUnstageVolume(context.Background(), &csi.NodeUnstageVolumeRequest{VolumeId: "files/x", StagingTargetPath: "/proc"})
	require.ErrorContains(t, err, "something that is not this volume is mounted at /proc")
	_, err = n.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{VolumeId: "files/x", StagingTargetPath: t.TempDir(), TargetPath: "/x", VolumeCapability: many})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
}

func TestOneCallAtATimeWorksWithAVolume(t *testing.T) {
	var l locks
	free, err := l.take("rbd/a")
	require.NoError(t, err)
	_, err = l.take("rbd/a")
	require.Equal(t, codes.Aborted, status.Code(err))
	other, err := l.take("rbd/b")
	require.NoError(t, err)
	other()
	free()
	free, err = l.take("rbd/a")
	require.NoError(t, err)
	free()
}

func TestTheCodesOfFailures(t *testing.T) {
	require.NoError(t, failure(nil))
	for err, want := range map[error]codes.Code{
		rbd.ErrNotFound: codes.NotFound, rbd.ErrInUse: codes.FailedPrecondition, rbd.ErrSnapshots: codes.FailedPrecondition,
		cephfs.ErrNotFound: codes.NotFound, cephfs.ErrSnapshots: codes.FailedPrecondition,
		context.DeadlineExceeded: codes.DeadlineExceeded, context.Canceled: codes.Canceled, errors.New("x"): codes.Internal,
	} {
		require.Equal(t, want, status.Code(failure(fmt.Errorf("wrapped: %w", err))), "%v", err)
	}
}

// Kubernetes bounds the name (CSIDriver, "metadata.name"), and the socket's path is bounded by the kernel (unix(7)).
func TestTheNamesOfTheDrivers(t *testing.T) {
	for _, name := range []string{Name, FilesName} {
		require.Regexp(t, `^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`, name)
		require.Less(t, len("/var/lib/kubelet/plugins_registry/"+name+"-reg.sock"), 108)
		require.True(t, strings.Contains(name, "."))
	}
}
