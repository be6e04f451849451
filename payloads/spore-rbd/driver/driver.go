// Package driver has two CSI drivers (container-storage-interface/spec, v1). That for RBD images makes and removes them in its
// controller, and maps, formats and mounts them on the node; a volume's handle is POOL/IMAGE, whoever made the image, and one
// node at a time mounts it. That for CephFS makes and removes subvolumes and mounts them on as many nodes as want them; a
// volume's handle is FILESYSTEM/NAME, and its folder is in the volume's attributes.
//
// There are no block volumes, snapshots, clones and topologies, and volumes do not grow.
package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"spore/payloads/spore-rbd/cephfs"
	"spore/payloads/spore-rbd/filesystem"
	"spore/payloads/spore-rbd/rbd"
)

// How Kubernetes' objects call the drivers. It never changes: volumes name it.
const (
	Name      = "rbd.csi.spore"
	FilesName = "cephfs.csi.spore"
)

// Identity tells who a driver is.
type Identity struct {
	csi.UnimplementedIdentityServer
	// Name is the driver's.
	Name string
	// Controller tells that the controller's service is served at the same socket.
	Controller bool
}

// GetPluginInfo returns the name of the driver.
func (i *Identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities returns whether volumes can be made by this socket.
func (i *Identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := &csi.GetPluginCapabilitiesResponse{}
	if i.Controller {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
		}})
	}
	return out, nil
}

// Probe says that the driver serves. It does not ask the cluster, whose absence a restart would not cure.
func (*Identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// Logged writes a line for each call that changes something, and for each error.
func Logged(say func(string)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		out, err := handler(ctx, req)
		subject := ""
		switch r := req.(type) {
		case interface{ GetVolumeId() string }:
			subject = r.GetVolumeId()
		case interface{ GetName() string }:
			subject = r.GetName()
		}
		switch {
		case err != nil:
			say(fmt.Sprintf("%s %.200q: %v", info.FullMethod, subject, err))
		case changes[info.FullMethod]:
			say(fmt.Sprintf("%s %.200q: done", info.FullMethod, subject))
		}
		return out, err
	}
}

// changes are the calls that change something.
var changes = map[string]bool{
	csi.Controller_CreateVolume_FullMethodName: true, csi.Controller_DeleteVolume_FullMethodName: true,
	csi.Node_NodeStageVolume_FullMethodName: true, csi.Node_NodeUnstageVolume_FullMethodName: true,
	csi.Node_NodePublishVolume_FullMethodName: true, csi.Node_NodeUnpublishVolume_FullMethodName: true,
}

// locks lets one call at a time work with a volume.
type locks struct {
	mu   sync.Mutex
	held map[string]bool
}

// take returns what gives the volume free again, or the error that the specification has for a call that is too early.
func (l *locks) take(volume string) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[volume] {
		return nil, status.Errorf(codes.Aborted, "another call works with volume %s; this one is tried again", volume)
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[volume] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, volume)
	}, nil
}

// writers are the ways to use a volume that one node at a time can have. That one pod alone has it (ReadWriteOncePod) is
// Kubernetes' own to see to.
var writers = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:      true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY: true,
}

// unsupported says why volumes cannot be used so; empty when they can.
func unsupported(c *csi.VolumeCapability) string {
	if c.GetMount() == nil {
		return "only file systems are provided: use volumeMode: Filesystem"
	}
	if t := c.GetMount().GetFsType(); t != "" && t != filesystem.Type {
		return fmt.Sprintf("file system %.50q is not provided: use %s", t, filesystem.Type)
	}
	if !writers[c.GetAccessMode().GetMode()] {
		return fmt.Sprintf("one node at a time mounts a volume, so that %s is not provided: use ReadWriteOnce or ReadWriteOncePod", c.GetAccessMode().GetMode())
	}
	return ""
}

// failure gives an error the code that the specification has for it.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rbd.ErrNotFound), errors.Is(err, cephfs.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, rbd.ErrInUse), errors.Is(err, rbd.ErrSnapshots), errors.Is(err, cephfs.ErrSnapshots):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

// confirm answers whether a volume can be used so, by what keeps it from a capability.
func confirm(req *csi.ValidateVolumeCapabilitiesRequest, unsupported func(*csi.VolumeCapability) string) *csi.ValidateVolumeCapabilitiesResponse {
	for _, capability := range req.GetVolumeCapabilities() {
		if why := unsupported(capability); why != "" {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: why}
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}
}
