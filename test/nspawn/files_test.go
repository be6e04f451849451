//go:build e2e

package nspawn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// anOSD starts an OSD whose disk is a file, with the programs of the image: containers have no disks to give to
// ceph-disks.service.
const anOSD = `set -e
mkdir -p /var/lib/lab-osd
sed 's/^keyring = .*/keyring = \/var\/lib\/lab-osd\/keyring/' /run/ceph-bootstrap/ceph.conf > /var/lib/lab-osd/ceph.conf
printf '[osd]\nosd_data = /var/lib/lab-osd\nosd_objectstore = bluestore\nbluestore_block_size = 2147483648\nosd_memory_target = 939524096\n' >> /var/lib/lab-osd/ceph.conf
uuid=5a0e7c62-5f0e-4b65-9f53-5e1f7a3b0c11
ceph osd new $uuid
ceph auth get-or-create osd.0 mon 'allow profile osd' mgr 'allow profile osd' osd 'allow *' -o /var/lib/lab-osd/keyring
ceph-osd -c /var/lib/lab-osd/ceph.conf -i 0 --mkfs --osd-uuid $uuid
systemd-run --quiet --unit=lab-osd ceph-osd -f -c /var/lib/lab-osd/ceph.conf -i 0`

// asKubernetes speaks to the manager as the user of Kubernetes.
var asKubernetes = []string{"ceph", "-n", "client.kubernetes-cephfs", "-k", "/run/kubernetes.keyring", "--connect-timeout", "60"}

// inFiles works in a folder of the file system as the user of Kubernetes, through the library that the manager has.
const inFiles = `
import sys, cephfs
def mount(root):
    c = cephfs.LibCephFS(conffile="/etc/ceph/ceph.conf", auth_id="kubernetes-cephfs", conf={"keyring": "/run/kubernetes.keyring", "client_mount_timeout": "60"})
    c.mount(mount_root=root.encode(), filesystem_name=b"files")
    return c
def says(what, do):
    try:
        print(what, do())
    except Exception as e:
        print(what, type(e).__name__)
def write(c, name, size):
    f = c.open(name, "w", 0o644)
    for at in range(0, size, 4 << 20):
        c.write(f, b"z" * min(size - at, 4 << 20), at)
        c.fsync(f, 0)
    c.close(f)
    return c.stat(name).st_size
def read(c, name):
    f = c.open(name, "r", 0)
    data = c.read(f, 0, 100)
    c.close(f)
    return data.decode()
`

// TestAFileSystemOfCeph runs a metadata server beside a monitor.
func TestAFileSystemOfCeph(t *testing.T) {
	m := &mons{New(t, Options{Source: "../..", Configs: "testdata/files"})}
	n := m.Node("files-1")
	n.Start()
	n.Await("the bootstrap has ended", func(s vm.Status) bool { return s.Services["ceph-bootstrap.service"] == "active" })
	python := func(t *testing.T, script string, args ...string) string {
		t.Helper()
		// The library says more than the script.
		quiet := `python3 -c "$0" "$@" 2> /run/words || { cat /run/words; exit 1; }`
		return strings.TrimSpace(n.MustExec(append([]string{"sh", "-c", quiet, inFiles + script}, args...)...))
	}
	healthy := func() {
		m.within("the file system is served", func() error {
			out, err := n.Exec("ceph", "fs", "status", "files")
			if err == nil && !strings.Contains(out, "active") {
				err = fmt.Errorf("it says %s", out)
			}
			return err
		})
	}
	var path string

	m.Step("the file system is there and is served as soon as there is an OSD", func(t *testing.T) {
		require.Contains(t, n.MustExec("ceph", "fs", "ls"), "name: files, metadata pool: cephfs.files.meta, data pools: [cephfs.files.data ]")
		n.MustExec("sh", "-c", anOSD)
		healthy()
		m.within("all is well", func() error {
			out := n.MustExec("ceph", "health", "detail")
			for line := range strings.Lines(out) {
				// The folder that is /var here lies on a disk of the host.
				if strings.HasPrefix(line, "[") && !strings.Contains(line, "MON_DISK_LOW") {
					return fmt.Errorf("it says %s", out)
				}
			}
			return nil
		})
		pid := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", "ceph-mds.service")
		_, rss, _ := strings.Cut(n.MustExec("cat", "/proc/"+pid+"/status"), "VmRSS:")
		rss, _, _ = strings.Cut(rss, "\n")
		t.Logf("ceph-mds: %s of memory, %s ns of CPU", strings.TrimSpace(rss), n.MustExec("systemctl", "show", "--value", "-p", "CPUUsageNSec", "ceph-mds.service"))
	})
	m.Step("the metadata server sees no key but its own", func(t *testing.T) {
		pid := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", "ceph-mds.service")
		keyring := n.MustExec("cat", "/proc/"+pid+"/root/run/ceph-mds/keyring")
		require.Contains(t, keyring, "[mds.files-1]")
		require.Equal(t, 1, strings.Count(keyring, "key = "))
		for _, path := range []string{"/run/ceph-mon", "/run/ceph-bootstrap", "/var/lib/ceph"} {
			require.Empty(t, n.MustExec("ls", "-A", "/proc/"+pid+"/root"+path), path)
			require.NotEmpty(t, n.MustExec("ls", "-A", path), path)
		}
	})
	m.Step("the user of Kubernetes makes volumes in its group and nowhere else", func(t *testing.T) {
		n.MustExec("ceph", "auth", "get", "client.kubernetes-cephfs", "-o", "/run/kubernetes.keyring")
		as := func(args ...string) (string, error) { return n.Exec(append(asKubernetes, args...)...) }
		must := func(args ...string) string {
			t.Helper()
			out, err := as(args...)
			require.NoError(t, err, out)
			return strings.TrimSpace(out)
		}
		must("fs", "subvolumegroup", "create", "files", "kubernetes")
		must("fs", "subvolume", "create", "files", "pvc-1", "67108864", "kubernetes")
		info := must("fs", "subvolume", "info", "files", "pvc-1", "kubernetes")
		require.Contains(t, info, `"bytes_quota": 67108864`)
		_, after, _ := strings.Cut(info, `"path": "`)
		path, _, _ = strings.Cut(after, `"`)
		require.Regexp(t, `^/volumes/kubernetes/pvc-1/[0-9a-f-]{36}$`, path)
		for _, refused := range [][]string{
			{"fs", "subvolume", "create", "files", "pvc-2", "67108864"},
			{"fs", "subvolume", "create", "files", "pvc-2", "67108864", "other"},
			{"fs", "subvolumegroup", "create", "files", "other"},
			{"fs", "subvolumegroup", "rm", "files", "kubernetes"},
			{"fs", "subvolume", "resize", "files", "pvc-1", "1073741824", "kubernetes"},
			{"fs", "rm", "files", "--yes-i-really-mean-it"},
			{"osd", "pool", "create", "mine"},
			{"auth", "ls"},
		} {
			out, err := as(refused...)
			require.Error(t, err, "%v: %s", refused, out)
			require.Contains(t, out+err.Error(), "EACCES", "%v", refused)
		}
	})
	m.Step("it writes there, within the quota, and nowhere else", func(t *testing.T) {
		require.Equal(t, strings.Join([]string{
			"a file of 32 MiB 33554432", "far more than the quota DiskQuotaExceeded", "another quota PermissionDenied",
			"/ PermissionError", "/volumes PermissionError", "/volumes/other PermissionError", "a pool of its own PermissionError",
		}, "\n"), python(t, `
c = mount(sys.argv[1])
says("a file of 32 MiB", lambda: write(c, b"/kept", 32 << 20))
# Clients are told how much there is from time to time.
says("far more than the quota", lambda: write(c, b"/more", 1 << 30))
says("another quota", lambda: c.setxattr(b"/", b"ceph.quota.max_bytes", b"0", 0))
for root in ["/", "/volumes", "/volumes/other"]:
    says(root, lambda: mount(root))
import rados
r = rados.Rados(conffile="/etc/ceph/ceph.conf", name="client.kubernetes-cephfs", conf={"keyring": "/run/kubernetes.keyring"})
r.connect()
def metadata():
    r.open_ioctx("cephfs.files.meta").write_full("x", b"x")
says("a pool of its own", metadata)
`, path))
	})
	m.Step("what was synced is there when the metadata server has died", func(t *testing.T) {
		before := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", "ceph-mds.service")
		n.MustExec("systemctl", "kill", "--signal=KILL", "ceph-mds.service")
		m.within("another one runs", func() error {
			if now := n.MustExec("systemctl", "show", "--value", "-p", "MainPID", "ceph-mds.service"); now == before || now == "0" {
				return fmt.Errorf("it is %s", now)
			}
			return nil
		})
		healthy()
		require.Equal(t, "z 33554432", python(t, `
c = mount(sys.argv[1])
print(read(c, b"/kept")[:1], c.stat(b"/kept").st_size)
`, path))
	})
	m.Step("a second bootstrap changes nothing, and a volume is removed", func(t *testing.T) {
		const applied = "applies "
		before := strings.Count(n.MustExec("journalctl", "-u", "ceph-bootstrap.service", "--no-pager"), applied)
		require.Positive(t, before)
		n.MustExec("systemctl", "restart", "ceph-bootstrap.service")
		require.Equal(t, before, strings.Count(n.MustExec("journalctl", "-u", "ceph-bootstrap.service", "--no-pager"), applied))
		n.MustExec(append(asKubernetes, "fs", "subvolume", "rm", "files", "pvc-1", "kubernetes")...)
		out, err := n.Exec(append(asKubernetes, "fs", "subvolume", "info", "files", "pvc-1", "kubernetes")...)
		require.Error(t, err)
		require.Contains(t, out+err.Error(), "ENOENT")
	})
}
