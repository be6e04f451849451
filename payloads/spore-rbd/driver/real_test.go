//go:build rbd

// These tests need what a machine of ours has: a kernel with rbd, root, and a cluster with a pool rbd. SPORE_RBD_CONF names its
// ceph.conf. They are compiled by `go test -c -tags rbd ./driver` and run inside a virtual machine; the two around a power cut
// only with SPORE_RBD_CUT.
package driver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spore/payloads/spore-rbd/filesystem"
	"spore/payloads/spore-rbd/rbd"
)

const testUser = "kubernetes-rbd"

// machine is this one as a node and as the controller.
type machine struct {
	*testing.T
	rbd        rbd.Command
	controller *Controller
	node       *Node
	dir        string
}

func newMachine(t *testing.T) *machine {
	conf := os.Getenv("SPORE_RBD_CONF")
	require.NotEmpty(t, conf, "SPORE_RBD_CONF names the cluster's ceph.conf")
	c := rbd.Command{Program: "/usr/bin/rbd", Conf: conf, User: testUser}
	dir, err := os.MkdirTemp("/var/tmp", "volumes-*")
	require.NoError(t, err)
	return &machine{t, c, &Controller{RBD: c}, &Node{RBD: c, ID: "here"}, dir}
}

func (m *machine) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	m.Cleanup(cancel)
	return ctx
}

var writer = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
}

func (m *machine) create(name string) string {
	m.Helper()
	out, err := m.controller.CreateVolume(m.context(), &csi.CreateVolumeRequest{
		Name: name, Parameters: map[string]string{PoolParameter: "rbd"}, VolumeCapabilities: []*csi.VolumeCapability{writer},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
	})
	require.NoError(m, err)
	return out.GetVolume().GetVolumeId()
}

func (m *machine) staging(volume string) string {
	return filepath.Join(m.dir, strings.ReplaceAll(volume, "/", "_"), "globalmount")
}

func (m *machine) stage(volume string) error {
	_, err := m.node.NodeStageVolume(m.context(), &csi.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: m.staging(volume), VolumeCapability: writer})
	return err
}

func (m *machine) unstage(volume string) {
	m.Helper()
	_, err := m.node.NodeUnstageVolume(m.context(), &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: m.staging(volume)})
	require.NoError(m, err)
}

func (m *machine) publish(volume, target string, readOnly bool) error {
	_, err := m.node.NodePublishVolume(m.context(), &csi.NodePublishVolumeRequest{
		VolumeId: volume, StagingTargetPath: m.staging(volume), TargetPath: target, VolumeCapability: writer, Readonly: readOnly,
	})
	return err
}

func (m *machine) unpublish(volume, target string) {
	m.Helper()
	_, err := m.node.NodeUnpublishVolume(m.context(), &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
	require.NoError(m, err)
	require.NoDirExists(m, target)
}

func (m *machine) remove(volume string) error {
	_, err := m.controller.DeleteVolume(m.context(), &csi.DeleteVolumeRequest{VolumeId: volume})
	return err
}

// ceph runs rbd by itself.
func (m *machine) ceph(stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(m.context(), m.rbd.Program, append([]string{"--conf", m.rbd.Conf, "--id", m.rbd.User}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) must(stdin []byte, args ...string) string {
	m.Helper()
	out, err := m.ceph(stdin, args...)
	require.NoError(m, err, out)
	return out
}

// content is the hash of all that an image holds.
func (m *machine) content(volume string) string {
	m.Helper()
	cmd := exec.Command(m.rbd.Program, "--conf", m.rbd.Conf, "--id", m.rbd.User, "--no-progress", "export", volume, "-")
	h := sha256.New()
	cmd.Stdout = h
	require.NoError(m, cmd.Run())
	return fmt.Sprintf("%x", h.Sum(nil))
}

func TestAVolumeKeepsWhatAPodHasWritten(t *testing.T) {
	m := newMachine(t)
	volume := m.create("keeps")
	require.Equal(t, volume, m.create("keeps"), "the second call finds what the first has made")
	a, b := filepath.Join(m.dir, "a"), filepath.Join(m.dir, "b")
	require.Equal(t, codes.FailedPrecondition, status.Code(m.publish(volume, a, false)), "before it is staged")
	require.NoError(t, m.stage(volume))
	require.NoError(t, m.stage(volume), "a second call finds it staged")
	require.NoError(t, m.publish(volume, a, false))
	require.NoError(t, m.publish(volume, a, false), "a second call finds it published")
	require.NoError(t, m.publish(volume, b, true))
	require.Equal(t, codes.AlreadyExists, status.Code(m.publish(volume, b, false)), "read-only is another way to have it")
	require.NoError(t, os.WriteFile(filepath.Join(a, "file"), []byte("kept"), 0o644))
	data, err := os.ReadFile(filepath.Join(b, "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data))
	require.ErrorContains(t, os.WriteFile(filepath.Join(b, "file"), nil, 0o644), "read-only")
	stats, err := m.node.NodeGetVolumeStats(m.context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volume, VolumePath: a})
	require.NoError(t, err)
	require.InDelta(t, 64<<20, stats.GetUsage()[0].GetTotal(), 16<<20)

	err = m.remove(volume)
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "in use")
	_, err = m.node.NodeUnstageVolume(m.context(), &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: m.staging(volume)})
	if err == nil { // What is published keeps the device busy.
		t.Fatal("a volume that a pod has is not taken away")
	}
	m.unpublish(volume, a)
	m.unpublish(volume, a)
	m.unpublish(volume, b)
	m.unstage(volume)
	m.unstage(volume)
	require.NoError(t, m.stage(volume))
	data, err = os.ReadFile(filepath.Join(m.staging(volume), "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data))
	m.unstage(volume)
	require.NoError(t, m.remove(volume))
	require.NoError(t, m.remove(volume), "it is gone already")
}

func TestASecondClientIsRefusedWhileTheFirstLives(t *testing.T) {
	m := newMachine(t)
	volume := m.create("exclusive")
	require.NoError(t, m.stage(volume))
	// noshare makes this machine another client, which is what another node would be.
	out, err := m.ceph(nil, "device", "map", "--options", "noshare,"+rbd.MapOptions, volume)
	require.Error(t, err, out)
	image, _ := rbd.ParseImage(volume)
	devices, err := m.rbd.Devices(m.context(), image)
	require.NoError(t, err)
	require.Len(t, devices, 1)
	require.NoError(t, os.WriteFile(filepath.Join(m.staging(volume), "file"), []byte("still mine"), 0o644))
	m.unstage(volume)

	device := m.must(nil, "device", "map", "--options", "noshare,"+rbd.MapOptions, volume)
	// Devices of this machine are taken for what it has left itself, so that the other client is asked for by the command alone.
	_, err = m.ceph(nil, "device", "map", "--options", "noshare,"+rbd.MapOptions, volume)
	require.Error(t, err)
	m.must(nil, "device", "unmap", device)
	require.NoError(t, m.remove(volume))
}

func TestWhatAnInterruptedCallLeftIsPutRight(t *testing.T) {
	m := newMachine(t)
	volume := m.create("interrupted")
	image, _ := rbd.ParseImage(volume)
	// The power was lost while the file system was made: half of it is there.
	require.NoError(t, m.rbd.SetMeta(m.context(), image, filesystemKey, making))
	device, err := m.rbd.Map(m.context(), image)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(device, bytes.Repeat([]byte("half"), 1<<20), 0))
	// And the call ended without giving the device back.
	require.NoError(t, m.stage(volume))
	require.NoError(t, os.WriteFile(filepath.Join(m.staging(volume), "file"), []byte("x"), 0o644))
	m.unstage(volume)
	state, err := m.rbd.Meta(m.context(), image, filesystemKey)
	require.NoError(t, err)
	require.Equal(t, made, state)
	require.NoError(t, m.remove(volume))
}

func TestVolumesOfPeople(t *testing.T) {
	m := newMachine(t)
	file := filepath.Join(m.dir, "image")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 32<<20))
	out, err := exec.Command("mkfs.ext4", "-q", "-F", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	ext4, err := os.ReadFile(file)
	require.NoError(t, err)
	xfs := make([]byte, 32<<20)
	copy(xfs, "XFSB")
	bad := bytes.Clone(ext4)
	for i := range 64 << 10 { // superblock and group descriptors
		bad[i] = 0xff
	}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"ext4":     {ext4, ""},
		"database": {append(make([]byte, 8<<20), "rows"...), "holds data and no file system that is known"},
		"xfs":      {xfs, "and is left as it is"},
		"damaged":  {bad, "and is left as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := "rbd/people-" + name
			m.must(tt.data, "import", "--no-progress", "--image-feature", rbd.Features, "-", volume)
			before := m.content(volume)
			err := m.stage(volume)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.Equal(t, before, m.content(volume))
			} else {
				require.NoError(t, err)
				m.unstage(volume)
			}
			require.NoError(t, m.remove(volume))
		})
	}
	t.Run("a volume whose file system is lost is not made anew", func(t *testing.T) {
		volume := m.create("lost")
		require.NoError(t, m.stage(volume))
		m.unstage(volume)
		image, _ := rbd.ParseImage(volume)
		device, err := m.rbd.Map(m.context(), image)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(device, make([]byte, 64<<20), 0))
		require.NoError(t, m.rbd.Unmap(m.context(), device))
		require.ErrorContains(t, m.stage(volume), "no file system that is known")
		require.NoError(t, m.remove(volume))
	})
	t.Run("without the exclusive lock", func(t *testing.T) {
		m.must(nil, "create", "--size", "32M", "--image-feature", "layering", "rbd/people-open")
		require.ErrorContains(t, m.stage("rbd/people-open"), "rbd feature enable rbd/people-open exclusive-lock")
		require.NoError(t, m.remove("rbd/people-open"))
	})
	t.Run("something else at the path", func(t *testing.T) {
		volume := m.create("other")
		require.NoError(t, os.MkdirAll(m.staging(volume), 0o750))
		require.NoError(t, filesystem.Bind(m.context(), "/etc", m.staging(volume), false))
		require.ErrorContains(t, m.stage(volume), "something that is not this volume")
		require.NoError(t, filesystem.Unmount(m.context(), m.staging(volume)))
		require.NoError(t, m.remove(volume))
	})
}

// cutVolume is written to before the power is cut, and cutData is what was written.
const cutVolume = "cut"

var cutData = bytes.Repeat([]byte("acknowledged "), 100_000)

func TestBeforeThePowerCut(t *testing.T) {
	if os.Getenv("SPORE_RBD_CUT") != "before" {
		t.Skip("SPORE_RBD_CUT is not before")
	}
	m := newMachine(t)
	volume := m.create(cutVolume)
	require.NoError(t, m.stage(volume))
	f, err := os.Create(filepath.Join(m.staging(volume), "file"))
	require.NoError(t, err)
	_, err = f.Write(cutData)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
}

func TestAfterThePowerCut(t *testing.T) {
	if os.Getenv("SPORE_RBD_CUT") != "after" {
		t.Skip("SPORE_RBD_CUT is not after")
	}
	m := newMachine(t)
	volume := m.create(cutVolume)
	begin := time.Now()
	require.Eventually(t, func() bool {
		err := m.stage(volume)
		if err != nil {
			t.Logf("after %s: %v", time.Since(begin).Round(time.Second), err)
		}
		return err == nil
	}, 5*time.Minute, 5*time.Second)
	t.Logf("mounted again after %s", time.Since(begin).Round(time.Millisecond))
	data, err := os.ReadFile(filepath.Join(m.staging(volume), "file"))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(cutData), sha256.Sum256(data))
	m.unstage(volume)
	require.NoError(t, m.remove(volume))
}
