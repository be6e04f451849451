//go:build e2e

package nspawn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// inSandbox has the unit of the driver of volumes run a script in place of the driver, which wants a kernel with rbd.
const inSandbox = `mkdir -p /run/systemd/system/rbd-node.service.d
cat > /run/systemd/system/rbd-node.service.d/script.conf <<'.'
[Service]
Type=oneshot
Restart=no
ExecStartPre=
ExecStartPre=/usr/bin/spore-agent render rbd-node
ExecStart=
ExecStart=/bin/sh -ex /run/script
StandardOutput=file:/run/script.out
StandardError=file:/run/script.out
.
cat > /run/script <<'.'
%s
.
systemctl stop rbd-node; systemctl daemon-reload
systemctl start rbd-node; echo "ended with $?"; cat /run/script.out`

// What is mounted carries _netdev, which mount(8) keeps in a file that it replaces from the second mount on.
func TestTheDriverOfVolumesMayDoWhatItDoesInItsSandbox(t *testing.T) {
	l := New(t, Options{Source: "../..", Configs: "../e2e/testdata/volumes"})
	n := l.Node("volumes-01")
	n.Start()
	n.Await("the node has its roles", func(s vm.Status) bool { return s.Services["rbd-controller.service"] == "active" })
	for name, script := range map[string]string{
		"it makes and checks file systems": `
			truncate -s 64M /run/image
			mkfs.ext4 -q -F -m 0 /run/image
			e2fsck -p /run/image
			blkid --probe --output export /run/image`,
		"it mounts and unmounts several volumes": `
			mkdir -p /run/from /run/staged /run/one /run/two
			mount --no-canonicalize --bind --options _netdev /run/from /run/staged
			mount --no-canonicalize --bind --options _netdev /run/staged /run/one
			mount --no-canonicalize --bind --options _netdev /run/staged /run/two
			mount --no-canonicalize --options remount,bind,ro /run/two
			umount --no-canonicalize /run/two
			umount --no-canonicalize /run/one
			umount --no-canonicalize /run/staged`,
		"it runs rbd": `rbd --conf /run/rbd-node/ceph.conf --id kubernetes-rbd device list --format json`,
		"its mounts reach everybody": `
			mkdir -p /run/seen
			mount --no-canonicalize --bind --options _netdev /run/seen /run/seen`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := n.Exec("sh", "-c", fmt.Sprintf(inSandbox, strings.ReplaceAll(script, "\t", "")))
			require.NoError(t, err)
			require.Contains(t, out, "ended with 0\n", out)
		})
	}
	n.MustExec("mountpoint", "/run/seen")
}
