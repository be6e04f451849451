//go:build e2e

package nspawn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// inSandbox has the unit of a driver of volumes run a script in place of the driver, which wants a kernel with rbd or CephFS.
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

// What is mounted carries _netdev, which mount(8) keeps in a file that it replaces from the second mount on.
func TestTheDriversOfVolumesMayDoWhatTheyDoInTheirSandboxes(t *testing.T) {
	l := New(t, Options{Source: "../..", Configs: "testdata/volumes"})
	n := l.Node("volumes-01")
	n.Start()
	n.Await("the node has its roles", func(s vm.Status) bool { return s.Services["rbd-controller.service"] == "active" })
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
		"it runs rbd": {"rbd-node", `rbd --conf /run/rbd-node/ceph.conf --id kubernetes-rbd device list --format json`},
		"its mounts reach everybody": {"rbd-node", `
			mkdir -p /run/seen
			mount --no-canonicalize --bind --options _netdev /run/seen /run/seen`},
		"what is mounted by one system call reaches everybody, and is shown to a pod": {"cephfs-node", `
			test -s /run/cephfs-node/key
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
