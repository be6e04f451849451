package filesystem

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mounts = `22 1 0:20 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a,upperdir=/b
90 22 0:40 / /var/lib/kubelet/one rw,relatime shared:40 - ceph u@f.files=/volumes/kubernetes/one rw,secret=<hidden>,ms_mode=secure
91 90 0:41 / /var/lib/kubelet/one rw - tmpfs tmpfs rw
92 22 0:42 /sub /with\040a\134blank ro,nosuid - ext4 /dev/rbd0 ro
`

func TestTheTableOfMounts(t *testing.T) {
	for path, want := range map[string][2]string{
		"/": {"overlay", "overlay"}, "/var/lib/kubelet/one": {"tmpfs", "tmpfs"}, `/with a\blank`: {"ext4", "/dev/rbd0"}, "/var": {}, "/var/lib/kubelet/one/": {},
	} {
		kind, source, err := sourceIn(strings.NewReader(mounts), path)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{kind, source}, path)
	}
	for _, bad := range []string{"\n", "22 1 0:20 / / rw overlay overlay rw\n", "22 1 - overlay overlay\n", "22 1 0:20 / / rw - overlay\n"} {
		_, _, err := sourceIn(strings.NewReader(bad), "/")
		require.ErrorContains(t, err, "read the table of mounts", "%q", bad)
	}
	kind, _, err := Source("/proc")
	require.NoError(t, err)
	require.Equal(t, "proc", kind, "of this machine")
}

func FuzzSourceIn(f *testing.F) {
	f.Add(mounts, "/")
	f.Add(`1 2 0:1 / /\04 rw - x y\`, `/\04`)
	f.Fuzz(func(t *testing.T, table, path string) {
		if kind, _, err := sourceIn(strings.NewReader(table), path); err == nil && kind != "" {
			require.Contains(t, table, " - ")
		}
	})
}
