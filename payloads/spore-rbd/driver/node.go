package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/filesystem"
	"spore/payloads/spore-rbd/rbd"
)

// cleanUp bounds what is put back after a call whose time is over.
const cleanUp = time.Minute

// What the image's metadata says of its file system. An image without it was made by a person, or is new.
const (
	filesystemKey = "spore.filesystem"
	// making: the image was empty, and its file system may be unfinished. No node has ever mounted it.
	making = "making"
	// made: there may be data on it. Nothing makes a file system there again, whatever the device looks like.
	made = "made"
)

// Node maps and mounts volumes on this machine.
type Node struct {
	csi.UnimplementedNodeServer
	RBD rbd.Command
	// ID is what the cluster calls this machine.
	ID    string
	locks locks
}

// NodeGetCapabilities returns what the node can do.
func (*Node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return nodeCapabilities(), nil
}

func nodeCapabilities() *csi.NodeGetCapabilitiesResponse {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return out
}

// NodeGetInfo returns who this machine is.
func (n *Node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.ID}, nil
}

// NodeStageVolume maps the image to a device, makes a file system when there has never been anything, and mounts it.
func (n *Node) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	image, free, err := n.begin(req.GetVolumeId(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := checkCapability(req.GetVolumeCapability(), unsupported); err != nil {
		return nil, err
	}
	if err := n.stage(ctx, image, req.GetStagingTargetPath(), req.GetVolumeCapability().GetMount().GetMountFlags()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// begin checks what all calls have in common and takes the volume's lock.
func (n *Node) begin(volume string, paths ...string) (rbd.Image, func(), error) {
	if err := checkCall(volume, paths...); err != nil {
		return rbd.Image{}, nil, err
	}
	image, err := rbd.ParseImage(volume)
	if err != nil {
		return rbd.Image{}, nil, status.Error(codes.NotFound, err.Error())
	}
	free, err := n.locks.take(image.String())
	return image, free, err
}

// checkCall refuses calls without a volume, and paths that are none.
func checkCall(volume string, paths ...string) error {
	if volume == "" {
		return status.Error(codes.InvalidArgument, "no volume is named")
	}
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return status.Errorf(codes.InvalidArgument, "%.300q is no clean absolute path", p)
		}
	}
	return nil
}

func checkCapability(c *csi.VolumeCapability, unsupported func(*csi.VolumeCapability) string) error {
	if c == nil {
		return status.Error(codes.InvalidArgument, "nothing is said of how the volume is used")
	}
	if why := unsupported(c); why != "" {
		return status.Error(codes.InvalidArgument, why)
	}
	return nil
}

func (n *Node) stage(ctx context.Context, image rbd.Image, path string, options []string) error {
	devices, err := n.RBD.Devices(ctx, image)
	if err != nil {
		return err
	}
	if staged, err := mountedFrom(path, devices); staged || err != nil {
		return err
	}
	// What an interrupted call has left. A device that Ceph has shut out, because this machine was away and another had the
	// image meanwhile, never works again either.
	for _, d := range devices {
		if err := n.RBD.Unmap(ctx, d); err != nil {
			return err
		}
	}
	if err := n.prepare(ctx, image); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	device, err := n.RBD.Map(ctx, image)
	if err != nil {
		return n.explain(ctx, image, err)
	}
	if err := mount(ctx, image, device, path, options); err != nil {
		return errors.Join(err, n.unmap(ctx, device))
	}
	return nil
}

// mountedFrom tells whether one of the devices is mounted at a path; it is an error when something else is.
func mountedFrom(path string, devices []string) (bool, error) {
	m, err := filesystem.At(path)
	if m == nil || err != nil {
		return false, err
	}
	for _, d := range devices {
		number, err := filesystem.DeviceNumber(d)
		if err != nil {
			return false, err
		}
		if number == m.Device {
			return true, nil
		}
	}
	return false, fmt.Errorf("something that is not this volume is mounted at %s; unmount it", path)
}

// prepare makes the file system of an image that nothing was ever written to. What the image's metadata says is written
// while it is not mapped: the node that has mapped it holds its lock, and the kernel writes no metadata for others.
func (n *Node) prepare(ctx context.Context, image rbd.Image) error {
	state, err := n.RBD.Meta(ctx, image, filesystemKey)
	if err != nil {
		return err
	}
	if state == "" {
		blank, err := n.untouched(ctx, image)
		if err != nil || !blank {
			return err
		}
		if err := n.RBD.SetMeta(ctx, image, filesystemKey, making); err != nil {
			return n.explain(ctx, image, err)
		}
		state = making
	}
	switch state {
	case made:
		return nil
	case making:
		return n.format(ctx, image)
	}
	return fmt.Errorf("image %s has %s=%.50q in its metadata, which means nothing here; a newer version made it", image, filesystemKey, state)
}

// untouched tells whether an image is empty and nobody is about to write to it.
func (n *Node) untouched(ctx context.Context, image rbd.Image) (bool, error) {
	watchers, err := n.RBD.Watchers(ctx, image)
	if err != nil {
		return false, err
	}
	if len(watchers) > 0 {
		return false, fmt.Errorf("image %s: %w by %s", image, rbd.ErrInUse, strings.Join(watchers, ", "))
	}
	return n.RBD.Blank(ctx, image)
}

// format makes the file system. A power cut leaves the image as "making", which has it made anew.
func (n *Node) format(ctx context.Context, image rbd.Image) error {
	device, err := n.RBD.Map(ctx, image)
	if err != nil {
		return n.explain(ctx, image, err)
	}
	if err := errors.Join(n.formatDevice(ctx, image, device), n.unmap(ctx, device)); err != nil {
		return err
	}
	return n.RBD.SetMeta(ctx, image, filesystemKey, made)
}

func (n *Node) formatDevice(ctx context.Context, image rbd.Image, device string) error {
	// Another node may have made and used it since it was looked at. From now on this one holds the lock.
	state, err := n.RBD.Meta(ctx, image, filesystemKey)
	if err != nil {
		return err
	}
	if state != making {
		return fmt.Errorf("another node has made the file system of image %s meanwhile; this is tried again", image)
	}
	return filesystem.Make(ctx, device)
}

// mount checks and mounts the file system that is on a device, and never makes one.
func mount(ctx context.Context, image rbd.Image, device, path string, options []string) error {
	found, err := filesystem.Probe(ctx, device)
	if err != nil {
		return err
	}
	switch found {
	case filesystem.Type:
	case "":
		return fmt.Errorf("image %s holds data and no file system that is known, and is left as it is; use an image that is empty or has %s", image, filesystem.Type)
	default:
		return fmt.Errorf("image %s holds %s, and is left as it is; use an image that is empty or has %s", image, found, filesystem.Type)
	}
	if err := filesystem.Check(ctx, device); err != nil {
		return fmt.Errorf("image %s: %w", image, err)
	}
	return filesystem.Mount(ctx, device, path, options)
}

// unmap gives the device back even when the call's time is over: its lock would keep other nodes out.
func (n *Node) unmap(ctx context.Context, device string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	return n.RBD.Unmap(ctx, device)
}

// explain adds who has the image to an error that says that somebody has.
func (n *Node) explain(ctx context.Context, image rbd.Image, err error) error {
	if !errors.Is(err, rbd.ErrInUse) {
		return err
	}
	watchers, listErr := n.RBD.Watchers(ctx, image)
	if listErr != nil || len(watchers) == 0 {
		return err
	}
	return fmt.Errorf("%w (image %s is in use by %s; a node that died keeps it for half a minute)", err, image, strings.Join(watchers, ", "))
}

// NodeUnstageVolume unmounts the volume and gives its device back.
func (n *Node) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	image, free, err := n.begin(req.GetVolumeId(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := n.unstage(ctx, image, req.GetStagingTargetPath()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (n *Node) unstage(ctx context.Context, image rbd.Image, path string) error {
	devices, err := n.RBD.Devices(ctx, image)
	if err != nil {
		return err
	}
	if _, err := mountedFrom(path, devices); err != nil {
		return err
	}
	if err := filesystem.Unmount(ctx, path); err != nil {
		return err
	}
	for _, d := range devices {
		if err := n.RBD.Unmap(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// NodePublishVolume shows the staged volume to a pod.
func (n *Node) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	_, free, err := n.begin(req.GetVolumeId(), req.GetTargetPath(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := checkCapability(req.GetVolumeCapability(), unsupported); err != nil {
		return nil, err
	}
	if err := publish(ctx, req.GetStagingTargetPath(), req.GetTargetPath(), readOnly(req)); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// readers are the ways to use a volume in which nobody writes.
var readers = []csi.VolumeCapability_AccessMode_Mode{csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY}

// readOnly tells whether a pod may only read.
func readOnly(req *csi.NodePublishVolumeRequest) bool {
	c := req.GetVolumeCapability()
	return req.GetReadonly() || slices.Contains(c.GetMount().GetMountFlags(), "ro") || slices.Contains(readers, c.GetAccessMode().GetMode())
}

func publish(ctx context.Context, staging, target string, readOnly bool) error {
	staged, err := filesystem.At(staging)
	if err != nil {
		return failure(err)
	}
	if staged == nil {
		return status.Errorf(codes.FailedPrecondition, "the volume is not staged at %s", staging)
	}
	there, err := filesystem.At(target)
	if err != nil {
		return failure(err)
	}
	if there != nil {
		if there.Device != staged.Device || there.ReadOnly != readOnly {
			return status.Errorf(codes.AlreadyExists, "something else is mounted at %s, or this volume in another way", target)
		}
		return nil
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return failure(err)
	}
	return failure(filesystem.Bind(ctx, staging, target, readOnly))
}

// NodeUnpublishVolume takes the volume from a pod.
func (n *Node) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	_, free, err := n.begin(req.GetVolumeId(), req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := unpublish(ctx, req.GetTargetPath()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func unpublish(ctx context.Context, target string) error {
	if err := filesystem.Unmount(ctx, target); err != nil {
		return err
	}
	// Remove and not RemoveAll: what is in the directory now is no longer the volume's, and nobody's to remove.
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// NodeGetVolumeStats returns how full a volume is.
func (n *Node) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return statsOf(req)
}

func statsOf(req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if req.GetVolumeId() == "" || req.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume is named, or no path")
	}
	m, err := filesystem.At(req.GetVolumePath())
	if err != nil {
		return nil, failure(err)
	}
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "no volume is mounted at %s", req.GetVolumePath())
	}
	u, err := filesystem.UsageOf(req.GetVolumePath())
	if err != nil {
		return nil, failure(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: u.Bytes, Available: u.AvailableBytes, Used: u.Bytes - u.FreeBytes},
		{Unit: csi.VolumeUsage_INODES, Total: u.Inodes, Available: u.FreeInodes, Used: u.Inodes - u.FreeInodes},
	}}, nil
}
