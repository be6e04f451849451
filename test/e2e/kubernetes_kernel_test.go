//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
)

// hasItsModulesInTheCloudKernel builds examples/kubernetes, whose kernel is Debian's for virtual machines, while the
// nodes run the one for all machines: whatever of the network they have loaded is in that one, too, and what storage-01
// has for its disks and for Ceph. It comes after the update: both kernels are of one version then.
func (l *lab) hasItsModulesInTheCloudKernel(t *testing.T) {
	dir := t.TempDir()
	_, err := buildPlant("examples/kubernetes", dir, nil, "uki")
	require.NoError(t, err)
	own, cloud := modulesOf(t, l.next), modulesOf(t, dir)
	for _, pod := range []string{lookMaster, lookWorker} {
		loaded, err := l.in(pod, "cat", "/proc/modules")
		require.NoError(t, err)
		needed := networking(loaded, own)
		require.Subset(t, needed, []string{"nf_tables", "veth", "vxlan"}, pod)
		require.Subset(t, slices.Collect(maps.Keys(cloud)), needed, pod)
	}
	defer l.storage.within(t)()
	require.Subset(t, l.storage.g.shell("cut -d ' ' -f 1 /proc/modules"), ofStorage)
	require.Subset(t, slices.Collect(maps.Keys(cloud)), ofStorage)
}

// ofStorage are the modules by which a machine has OSDs, one of them encrypted, and a file system of Ceph. NVMe is in
// the cloud kernel itself.
var ofStorage = []string{"ahci", "dm_crypt", "libceph", "ceph"}

// networking are those modules of /proc/modules whose place in the kernel is that of the network and its devices.
func networking(loaded string, places map[string]string) []string {
	var out []string
	for line := range strings.Lines(loaded) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if place := places[name]; strings.HasPrefix(place, "net/") || strings.HasPrefix(place, "drivers/net/") {
			out = append(out, name)
		}
	}
	return out
}

// modulesOf are the modules of the image in a folder, by the names that the kernel has for them, with their places in
// it.
func modulesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range manifestOf(t, dir).Files {
		_, place, ok := strings.Cut(f.Path, "/kernel/")
		if name, _, module := strings.Cut(path.Base(place), ".ko"); ok && module && strings.HasPrefix(f.Path, "/usr/lib/modules/") {
			out[strings.ReplaceAll(name, "-", "_")] = place
		}
	}
	return out
}

// manifestOf is the manifest of the image in a folder.
func manifestOf(t *testing.T, dir string) manifest.Manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "spore.manifest.json"))
	require.NoError(t, err)
	var m manifest.Manifest
	require.NoError(t, json.Unmarshal(data, &m))
	return m
}
