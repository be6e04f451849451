//go:build e2e

package services

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/imageroot"
)

// workDir is the folder of what the tests of this package share.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "spore-services-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(workDir)
		if err := os.Chmod(workDir, 0o755); err != nil { // Brokers run as another user than root.
			panic(err)
		}
		return m.Run()
	}())
}

// imageRoot is the root of an image with brokers of MQTT and of Kafka, which is made when the first test wants it.
var imageRoot = sync.OnceValues(func() (*imageroot.Root, error) {
	return imageroot.Make(context.Background(), "../..", "testdata/image", workDir)
})

// programOfImage is a command that runs a program of the image.
func programOfImage(t *testing.T, path string) (root *imageroot.Root, command string) {
	t.Helper()
	root, err := imageRoot()
	require.NoError(t, err)
	command, err = root.Program(path)
	require.NoError(t, err)
	return root, command
}

// requireOfImage makes sure that a process runs a program of the image with libraries of the image, and that nothing of the
// machine's, which may have both in other versions, is in it.
func requireOfImage(t *testing.T, pid int, path string) {
	t.Helper()
	root, err := imageRoot()
	require.NoError(t, err)
	program, err := filepath.EvalSymlinks(root.At(path))
	require.NoError(t, err)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	mapped := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		// What can be executed (proc_pid_maps(5)); data is mapped, too.
		if f := strings.Fields(line); len(f) == 6 && strings.Contains(f[1], "x") && filepath.IsAbs(f[5]) {
			mapped[f[5]] = true
		}
	}
	require.Contains(t, mapped, program)
	require.Contains(t, mapped, root.At("/usr/lib/x86_64-linux-gnu/libc.so.6"))
	for file := range mapped {
		if strings.HasPrefix(filepath.Base(file), "libnss_") {
			continue // The C library loads what the machine's nsswitch.conf(5) names, such as mdns of a desktop.
		}
		require.True(t, strings.HasPrefix(file, workDir+"/"), "%s is not the image's", file)
	}
}
