//go:build integration

package initrd

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// GNU cpio reads each archive to its end and finds what the kernel will: owners, modes, device nodes.
func TestGNUCpioReadsTheArchives(t *testing.T) {
	init, err := InitArchive([]byte("\x7fELF program"))
	require.NoError(t, err)
	config, err := ConfigArchive([]byte(`{"a":1}`))
	require.NoError(t, err)
	base, err := archive(skeleton)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		archive []byte
		want    []string
	}{
		"init":     {init, []string{`-rwxr-xr-x +1 root +root +12 Jan +1 +1970 init\n`}},
		"config":   {config, []string{`drwxr-xr-x .* etc/spore\n`, `-rw-r--r-- +1 root +root +7 Jan +1 +1970 etc/spore/stage1.json\n`}},
		"skeleton": {base, []string{`crw------- +1 root +root +5, +1 Jan +1 +1970 dev/console\n`, `dr-xr-xr-x .* proc\n`}},
	} {
		t.Run(name, func(t *testing.T) {
			zstd := exec.Command("zstd", "-dc")
			zstd.Stdin = bytes.NewReader(tt.archive)
			plain, err := zstd.Output()
			require.NoError(t, err, "run make deps")
			list := exec.Command("cpio", "-itv", "--quiet")
			list.Stdin = bytes.NewReader(plain)
			list.Env = []string{"PATH=/usr/bin:/bin", "TZ=UTC", "LC_ALL=C"}
			text, err := list.CombinedOutput()
			require.NoError(t, err, "run make deps: %s", text)
			for _, w := range tt.want {
				require.Regexp(t, w, string(text))
			}
		})
	}
}
