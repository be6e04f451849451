package driver

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/cephfs"
	"spore/payloads/spore-rbd/filesystem"
)

// FilesNode mounts subvolumes of CephFS on this machine: each once, for writing, and from there to the pods that have it.
type FilesNode struct {
	csi.UnimplementedNodeServer
	CephFS cephfs.Mounter
	// ID is what the cluster calls this machine.
	ID    string
	locks locks
}

// NodeGetCapabilities returns what the node can do.
func (*FilesNode) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return nodeCapabilities(), nil
}

// NodeGetInfo returns who this machine is.
func (n *FilesNode) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.ID}, nil
}

// NodeStageVolume mounts the folder of a volume.
func (n *FilesNode) NodeStageVolume(_ context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	volume, free, err := n.begin(req.GetVolumeId(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := checkCapability(req.GetVolumeCapability(), unsupportedFiles); err != nil {
		return nil, err
	}
	folder := req.GetVolumeContext()[folderAttribute]
	if err := cephfs.CheckPath(folder); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v (the volume has it as attribute %s)", err, folderAttribute)
	}
	if err := n.stage(volume, folder, req.GetStagingTargetPath(), req.GetVolumeCapability().GetMount().GetMountFlags()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// begin checks what all calls have in common and takes the volume's lock.
func (n *FilesNode) begin(volume string, paths ...string) (cephfs.Volume, func(), error) {
	if err := checkCall(volume, paths...); err != nil {
		return cephfs.Volume{}, nil, err
	}
	v, err := cephfs.ParseVolume(volume)
	if err != nil {
		return cephfs.Volume{}, nil, status.Error(codes.NotFound, err.Error())
	}
	free, err := n.locks.take(v.String())
	return v, free, err
}

func (n *FilesNode) stage(v cephfs.Volume, folder, path string, options []string) error {
	kind, source, err := filesystem.Source(path)
	if err != nil {
		return err
	}
	if kind == cephfs.Type && source == n.CephFS.Source(v.Filesystem, folder) {
		return nil
	}
	if kind != "" {
		return fmt.Errorf("something that is not this volume is mounted at %s; unmount it", path)
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	// Who may only read is given it so when it is published: what is staged belongs to all pods of this machine.
	options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "ro" })
	return n.CephFS.Mount(v.Filesystem, folder, path, options)
}

// NodeUnstageVolume unmounts a volume, when all that was written is stored.
func (n *FilesNode) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	_, free, err := n.begin(req.GetVolumeId(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	kind, _, err := filesystem.Source(req.GetStagingTargetPath())
	if err != nil {
		return nil, failure(err)
	}
	if kind != "" && kind != cephfs.Type {
		return nil, failure(fmt.Errorf("something that is not this volume is mounted at %s; unmount it", req.GetStagingTargetPath()))
	}
	if err := filesystem.Unmount(ctx, req.GetStagingTargetPath()); err != nil {
		return nil, failure(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume shows the staged volume to a pod.
func (n *FilesNode) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	_, free, err := n.begin(req.GetVolumeId(), req.GetTargetPath(), req.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	defer free()
	if err := checkCapability(req.GetVolumeCapability(), unsupportedFiles); err != nil {
		return nil, err
	}
	if err := publish(ctx, req.GetStagingTargetPath(), req.GetTargetPath(), readOnly(req)); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes the volume from a pod.
func (n *FilesNode) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
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

// NodeGetVolumeStats returns how full a volume is, by its quota. Of inodes there is no end.
func (n *FilesNode) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	out, err := statsOf(req)
	if err != nil {
		return nil, err
	}
	out.Usage = slices.DeleteFunc(out.Usage, func(u *csi.VolumeUsage) bool { return u.GetUnit() != csi.VolumeUsage_BYTES })
	return out, nil
}
