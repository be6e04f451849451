//go:build integration

package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASkeletonOfARoleIsBuiltAsItIs does what `spore init --role` says, and looks at the image with foreign tools.
func TestASkeletonOfARoleIsBuiltAsItIs(t *testing.T) {
	repo, spore := buildSpore(t)
	config, out := filepath.Join(t.TempDir(), "plant"), filepath.Join(t.TempDir(), "out")
	run(t, exec.Command(spore, "init", config, "--example", "edge"))
	said, code := command(t, spore, "init", config, "--role", "historian")
	require.Zero(t, code, said)
	cluster := filepath.Join(config, "cluster.yaml")
	require.Contains(t, said, "in "+cluster+":\n  add historian to services\n"+
		"  add historian to the roles of each node that runs it\nthen: spore validate "+config+"\n")
	edit(t, cluster, "services: [mqtt, dns]", "services: [mqtt, dns, historian]")
	edit(t, cluster, "roles: [mqtt-broker, dns-server]", "roles: [mqtt-broker, dns-server, historian]")
	run(t, exec.Command(spore, "validate", config, "--strict"))

	run(t, exec.Command(spore, "build", config, "-o", out, "--source", repo, "--format", "netboot"))
	root := filepath.Join(t.TempDir(), "root")
	run(t, exec.Command("unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-ignore-errors", "-dest", root,
		filepath.Join(out, "netboot", "root.squashfs"), "etc/systemd", "usr/lib/systemd", "usr/bin", "usr/sbin", "bin", "sbin",
		"lib", "etc/passwd", "etc/group"))
	for _, program := range []string{"sh", "cat", "sleep", "spore-role"} {
		require.FileExists(t, filepath.Join(root, "usr", "bin", program))
	}
	verified, _ := command(t, "systemd-analyze", "verify", "--root="+root, "--man=no", "--generators=no",
		"--recursive-errors=no", "historian.target", "historian.service")
	for line := range strings.Lines(verified) {
		// A host with an older systemd than the image's.
		require.Regexp(t, `Unknown key '(RestartSteps|RestartMaxDelaySec)' in section \[Service\], ignoring`, line)
	}
	require.NoFileExists(t, filepath.Join(root, "etc", "systemd", "system", "multi-user.target.wants", "historian.service"),
		"the role alone starts it")
	accounts, err := os.ReadFile(filepath.Join(root, "etc", "passwd"))
	require.NoError(t, err)
	require.Contains(t, string(accounts), "\nhistorian:x:")
}
