//go:build e2e

package nspawn

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"spore/builder/vm"
)

// withoutModule has the unit of a driver of volumes start without its module of the kernel, which a container cannot load. The
// driver, its options and its sandbox are those of the image.
const withoutModule = `mkdir -p /run/systemd/system/%[1]s.service.d
printf '[Service]\nExecStartPre=\nExecStartPre=/usr/bin/spore-agent render %[1]s\n' > /run/systemd/system/%[1]s.service.d/module.conf
systemctl daemon-reload && systemctl stop %[1]s && systemctl start %[1]s`

// driversServe asks the drivers of the image what kubelet asks first. No more of them runs without the modules: they do not map or
// mount anything here.
func driversServe(t *testing.T, n *Node) {
	for unit, driver := range map[string]string{"rbd-node": "rbd.csi.spore", "cephfs-node": "cephfs.csi.spore"} {
		out, err := n.Exec("sh", "-c", fmt.Sprintf(withoutModule, unit))
		require.NoError(t, err, out)
		require.Equal(t, "/usr/bin/spore-rbd", n.MustExec("readlink", "/proc/"+n.process(unit+".service")+"/exe"))
		require.Equal(t, driver, asked(t, n, "plugins/"+driver+"/csi.sock", "/csi.v1.Identity/GetPluginInfo"))
		require.Equal(t, n.Facts.Name, asked(t, n, "plugins/"+driver+"/csi.sock", "/csi.v1.Node/NodeGetInfo"))
		require.NotEmpty(t, n.MustExec("ls", "/var/lib/kubelet/plugins_registry/"+driver+"-reg.sock"))
	}
}

// asked is the first field of what answers at a socket below /var/lib/kubelet: a text in each of these answers of the CSI
// specification, as in the message that is read here.
func asked(t *testing.T, n *Node, socket, method string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi-") // The path of a socket has at most 107 characters (unix(7)).
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Symlink(filepath.Join(n.Var(), "lib/kubelet", socket), filepath.Join(dir, "s")))
	c, err := grpc.NewClient("unix://"+filepath.Join(dir, "s"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var answer wrapperspb.StringValue
	require.NoError(t, c.Invoke(ctx, method, &emptypb.Empty{}, &answer))
	return answer.Value
}

// inSandbox has the unit of a driver of volumes run a script in place of the driver.
const inSandbox = `mkdir -p /run/systemd/system/%[1]s.service.d
cat > /run/systemd/system/%[1]s.service.d/script.conf <<'.'
[Service]
Type=oneshot
Restart=no
ExecStartPre=
ExecStartPre=/usr/bin/spore-agent render %[1]s
ExecStart=
ExecStart=/bin/sh -ex /run/script
StandardOutput=file:/run/script.out
StandardError=file:/run/script.out
.
cat > /run/script <<'.'
%[2]s
.
systemctl stop %[1]s; systemctl daemon-reload
systemctl start %[1]s; echo "ended with $?"; cat /run/script.out`

// The drivers start in their sandboxes, and the sandboxes let through what the drivers do: scripts do the same steps by the same
// tools, on a file and on folders. That the drivers themselves map, format and mount takes a kernel with rbd and CephFS, and is
// shown by TestPodsHaveVolumesOfCeph of test/e2e (make volumes).
//
// What is mounted carries _netdev, which mount(8) keeps in a file that it replaces from the second mount on.
func TestTheSandboxesOfTheDriversOfVolumesLetThemWork(t *testing.T) {
	l := New(t, Options{Source: "../..", Configs: "testdata/volumes"})
	n := l.Node("volumes-01")
	n.Start()
	n.Await("the node has its roles", func(s vm.Status) bool { return s.Services["rbd-controller.service"] == "active" })
	t.Run("the drivers serve", func(t *testing.T) { driversServe(t, n) })
	for name, tt := range map[string]struct{ unit, script string }{
		"it makes and checks file systems": {"rbd-node", `
			truncate -s 64M /run/image
			mkfs.ext4 -q -F -m 0 /run/image
			e2fsck -p /run/image
			blkid --probe --output export /run/image`},
		"it mounts and unmounts several volumes": {"rbd-node", `
			mkdir -p /run/from /run/staged /run/one /run/two
			mount --no-canonicalize --bind --options _netdev /run/from /run/staged
			mount --no-canonicalize --bind --options _netdev /run/staged /run/one
			mount --no-canonicalize --bind --options _netdev /run/staged /run/two
			mount --no-canonicalize --options remount,bind,ro /run/two
			umount --no-canonicalize /run/two
			umount --no-canonicalize /run/one
			umount --no-canonicalize /run/staged`},
		"it runs rbd": {"rbd-node", `rbd --conf /run/rbd-node/ceph.conf --id kubernetes-rbd.volumes-01 device list --format json`},
		"its mounts reach everybody": {"rbd-node", `
			mkdir -p /run/seen
			mount --no-canonicalize --bind --options _netdev /run/seen /run/seen`},
		"what is mounted by one system call reaches everybody, and is shown to a pod": {"cephfs-node", `
			test -s /run/cephfs-node/key
			grep -q -- '--user=kubernetes-cephfs.volumes-01 ' /run/cephfs-node/arguments
			mkdir -p /var/lib/kubelet/staged /var/lib/kubelet/pod
			python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.mount(b"staged", b"/var/lib/kubelet/staged", b"tmpfs", 0, b"size=1m"); exit(ctypes.get_errno() if r else 0)'
			mount --no-canonicalize --bind --options _netdev /var/lib/kubelet/staged /var/lib/kubelet/pod
			mount --no-canonicalize --options remount,bind,ro /var/lib/kubelet/pod
			umount --no-canonicalize /var/lib/kubelet/pod`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := n.Exec("sh", "-c", fmt.Sprintf(inSandbox, tt.unit, strings.ReplaceAll(tt.script, "\t", "")))
			require.NoError(t, err)
			require.Contains(t, out, "ended with 0\n", out)
		})
	}
	n.MustExec("mountpoint", "/run/seen")
	n.MustExec("mountpoint", "/var/lib/kubelet/staged")
}
