package driver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/rbd"
)

// PoolParameter is the parameter of a StorageClass that names the pool.
const PoolParameter = "pool"

// Sizes of volumes, in bytes.
const (
	// unit is what sizes are rounded up to.
	unit = 1 << 20
	// leastSize is enough for a file system with its journal.
	leastSize = 16 << 20
	// usualSize is that of a volume for which nobody asks a size.
	usualSize = 1 << 30
)

// Controller makes and removes images.
type Controller struct {
	csi.UnimplementedControllerServer
	RBD   rbd.Command
	locks locks
}

// ControllerGetCapabilities returns what the controller can do.
func (*Controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return controllerCapabilities(), nil
}

func controllerCapabilities() *csi.ControllerGetCapabilitiesResponse {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}},
	}}}
}

// CreateVolume makes the image of a volume, whose name is the image's, so that a second call finds what the first has made.
func (c *Controller) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := checkCreate(req, PoolParameter, unsupported); err != nil {
		return nil, err
	}
	image, err := rbd.NewImage(req.GetParameters()[PoolParameter], req.GetName())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v (the StorageClass has the pool as parameter %s)", err, PoolParameter)
	}
	size, err := sizeFor(req.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	free, err := c.locks.take(image.String())
	if err != nil {
		return nil, err
	}
	defer free()
	if size, err = c.ensure(ctx, image, size, req.GetCapacityRange()); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: image.String(), CapacityBytes: size}}, nil
}

// checkCreate refuses what no volume is made of. parameter is the one that a StorageClass may have.
func checkCreate(req *csi.CreateVolumeRequest, parameter string, unsupported func(*csi.VolumeCapability) string) error {
	if req.GetName() == "" {
		return status.Error(codes.InvalidArgument, "the volume has no name")
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return status.Error(codes.InvalidArgument, "nothing is said of how the volume will be used")
	}
	for _, capability := range req.GetVolumeCapabilities() {
		if why := unsupported(capability); why != "" {
			return status.Error(codes.InvalidArgument, why)
		}
	}
	if req.GetVolumeContentSource() != nil {
		return status.Error(codes.InvalidArgument, "volumes are not made of snapshots or other volumes")
	}
	for name := range req.GetParameters() {
		if name != parameter {
			return status.Errorf(codes.InvalidArgument, "parameter %.80q is not known; there is %s", name, parameter)
		}
	}
	return nil
}

// sizeFor is the size of a new image for what is asked.
func sizeFor(r *csi.CapacityRange) (int64, error) {
	least, most := r.GetRequiredBytes(), r.GetLimitBytes()
	if least < 0 || most < 0 || least > math.MaxInt64-unit {
		return 0, status.Errorf(codes.OutOfRange, "a volume of %d to %d bytes cannot be made", least, most)
	}
	size := max(least, leastSize)
	if least == 0 {
		size = usualSize
		if most > 0 {
			size = max(min(most/unit*unit, usualSize), leastSize)
		}
	}
	size = (size + unit - 1) / unit * unit
	if most > 0 && size > most {
		return 0, status.Errorf(codes.OutOfRange, "the volume would have %d bytes, and at most %d are asked for", size, most)
	}
	return size, nil
}

// ensure makes the image unless it is there, and returns its size.
func (c *Controller) ensure(ctx context.Context, image rbd.Image, size int64, asked *csi.CapacityRange) (int64, error) {
	for range 2 {
		info, err := c.RBD.Info(ctx, image)
		if err == nil {
			if info.Size < asked.GetRequiredBytes() || asked.GetLimitBytes() > 0 && info.Size > asked.GetLimitBytes() {
				return 0, status.Errorf(codes.AlreadyExists, "image %s is there with %d bytes, which is not what is asked for", image, info.Size)
			}
			return info.Size, nil
		}
		if !errors.Is(err, rbd.ErrNotFound) {
			return 0, failure(err)
		}
		err = c.RBD.Create(ctx, image, size)
		if err == nil {
			return size, nil
		}
		if !errors.Is(err, rbd.ErrExists) {
			return 0, failure(err)
		}
		// Half of it is there: it was interrupted while it was made, and nobody has ever had it.
		if _, err := c.RBD.Info(ctx, image); errors.Is(err, rbd.ErrNotFound) {
			if err := c.RBD.Remove(ctx, image); err != nil && !errors.Is(err, rbd.ErrNotFound) {
				return 0, failure(fmt.Errorf("remove what an interrupted call has left: %w", err))
			}
		}
	}
	return 0, status.Errorf(codes.Aborted, "somebody else makes and removes image %s; this is tried again", image)
}

// DeleteVolume removes the image of a volume. That of a volume which some node still has is refused, and tried again.
func (c *Controller) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume is named")
	}
	image, err := rbd.ParseImage(req.GetVolumeId())
	if err != nil { // It cannot be there, and a volume that is not there is removed already (spec, "DeleteVolume").
		return &csi.DeleteVolumeResponse{}, nil
	}
	free, err := c.locks.take(image.String())
	if err != nil {
		return nil, err
	}
	defer free()
	err = c.RBD.Remove(ctx, image)
	if errors.Is(err, rbd.ErrInUse) {
		return nil, status.Errorf(codes.FailedPrecondition, "%v%s", err, c.users(ctx, image))
	}
	if err != nil && !errors.Is(err, rbd.ErrNotFound) {
		return nil, failure(err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// users names who has an image, for people.
func (c *Controller) users(ctx context.Context, image rbd.Image) string {
	list, err := c.RBD.Watchers(ctx, image)
	if err != nil || len(list) == 0 {
		return ""
	}
	return "; in use by " + strings.Join(list, ", ")
}

// ValidateVolumeCapabilities tells whether a volume can be used so.
func (c *Controller) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no volume is named, or no capability")
	}
	image, err := rbd.ParseImage(req.GetVolumeId())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if _, err := c.RBD.Info(ctx, image); err != nil {
		return nil, failure(err)
	}
	return confirm(req, unsupported), nil
}
