package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/cephfs"
)

const (
	// FilesystemParameter is the parameter of a StorageClass that names the file system.
	FilesystemParameter = "filesystem"
	// folderAttribute is the attribute of a volume that says in which folder of the file system it is.
	folderAttribute = "folder"
)

// FilesController makes and removes subvolumes of CephFS.
type FilesController struct {
	csi.UnimplementedControllerServer
	CephFS cephfs.Command
	locks  locks
}

// ControllerGetCapabilities returns what the controller can do.
func (*FilesController) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return controllerCapabilities(), nil
}

// CreateVolume makes a subvolume, whose name is the volume's, so that a second call finds what the first has made.
func (c *FilesController) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := checkCreate(req, FilesystemParameter, unsupportedFiles); err != nil {
		return nil, err
	}
	volume, err := cephfs.NewVolume(req.GetParameters()[FilesystemParameter], req.GetName())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v (the StorageClass has the file system as parameter %s)", err, FilesystemParameter)
	}
	size, err := sizeFor(req.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	free, err := c.locks.take(volume.String())
	if err != nil {
		return nil, err
	}
	defer free()
	info, err := c.ensure(ctx, volume, size)
	if err != nil {
		return nil, failure(err)
	}
	if asked := req.GetCapacityRange(); info.Size < asked.GetRequiredBytes() || asked.GetLimitBytes() > 0 && info.Size > asked.GetLimitBytes() {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s is there with %d bytes, which is not what is asked for", volume, info.Size)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: volume.String(), CapacityBytes: info.Size, VolumeContext: map[string]string{folderAttribute: info.Path},
	}}, nil
}

// ensure makes a subvolume unless it is there, and its group with the first one.
func (c *FilesController) ensure(ctx context.Context, v cephfs.Volume, size int64) (cephfs.Info, error) {
	// Create would give another size to one that is there.
	info, err := c.CephFS.Info(ctx, v)
	if !errors.Is(err, cephfs.ErrNotFound) {
		return info, err
	}
	err = c.CephFS.Create(ctx, v, size)
	if errors.Is(err, cephfs.ErrNotFound) {
		if err := c.CephFS.CreateGroup(ctx, v.Filesystem); err != nil {
			return cephfs.Info{}, fmt.Errorf("make the group of all volumes: %w", err)
		}
		err = c.CephFS.Create(ctx, v, size)
	}
	if err != nil {
		return cephfs.Info{}, err
	}
	return c.CephFS.Info(ctx, v)
}

// DeleteVolume removes a subvolume.
func (c *FilesController) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume is named")
	}
	volume, err := cephfs.ParseVolume(req.GetVolumeId())
	if err != nil { // It cannot be there, and a volume that is not there is removed already (spec, "DeleteVolume").
		return &csi.DeleteVolumeResponse{}, nil
	}
	free, err := c.locks.take(volume.String())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := c.CephFS.Remove(ctx, volume); err != nil && !errors.Is(err, cephfs.ErrNotFound) {
		return nil, failure(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities tells whether a volume can be used so.
func (c *FilesController) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no volume is named, or no capability")
	}
	volume, err := cephfs.ParseVolume(req.GetVolumeId())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if _, err := c.CephFS.Info(ctx, volume); err != nil {
		return nil, failure(err)
	}
	return confirm(req, unsupportedFiles), nil
}

// unsupportedFiles says why volumes of CephFS cannot be used so; empty when they can. Any number of nodes may read and write.
func unsupportedFiles(c *csi.VolumeCapability) string {
	if c.GetMount() == nil {
		return "only file systems are provided: use volumeMode: Filesystem"
	}
	if t := c.GetMount().GetFsType(); t != "" && t != cephfs.Type {
		return fmt.Sprintf("file system %.50q is not provided: leave it out", t)
	}
	if c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN {
		return "it is not said who writes: use ReadWriteMany, ReadWriteOnce or ReadOnlyMany"
	}
	if _, err := cephfs.Flags(c.GetMount().GetMountFlags()); err != nil {
		return err.Error()
	}
	return ""
}
