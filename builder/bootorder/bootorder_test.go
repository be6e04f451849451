package bootorder

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesOutliveVersions(t *testing.T) {
	for p, want := range map[string]string{
		"/usr/lib/modules/6.12.117+deb13-amd64/kernel/net/9p/9pnet.ko.xz": "/usr/lib/modules/*/kernel/net/9p/9pnet.ko.xz",
		"/usr/lib/modules/6.12.117+deb13-amd64/modules.dep.bin":           "/usr/lib/modules/*/modules.dep.bin",
		"/usr/lib/x86_64-linux-gnu/libzstd.so.1.5.7":                      "/usr/lib/x86_64-linux-gnu/libzstd.so.*",
		"/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.so":      "/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-*.so",
		"/usr/bin/bash": "/usr/bin/bash",
	} {
		require.Equal(t, want, Name(p))
	}
}

func TestWhatABootReadsIsSorted(t *testing.T) {
	lines := strings.Fields(recorded)
	last := strings.Replace(lines[len(lines)-1], "*", "7", 1)
	first := strings.Replace(lines[0], "*", "7", 1)
	require.Equal(t, []string{first, last}, Sort([]string{"/a", last, "/b", first}))
}

func TestTheRecordedOrderHasNamesOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSuffix(recorded, "\n"), "\n") {
		require.True(t, strings.HasPrefix(line, "/"), line)
		require.Equal(t, Name(line), line)
		require.False(t, seen[line], line)
		seen[line] = true
	}
	// Without these no machine starts: the record is of a boot.
	for _, name := range []string{"/usr/lib/systemd/systemd", "/usr/lib/x86_64-linux-gnu/libc.so.*", "/usr/bin/spore-agent"} {
		require.True(t, seen[name], name)
	}
}
