//go:build integration

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/manifest"
)

// TestScannersFindThePackagesOfAnUnpackedRoot asks dpkg-query what the root says of itself, and holds against it what the
// files beside the image say.
func TestScannersFindThePackagesOfAnUnpackedRoot(t *testing.T) {
	t.Parallel()
	repo, spore := buildSpore(t)
	out := filepath.Join(t.TempDir(), "out")
	run(t, exec.Command(spore, "build", filepath.Join(repo, "examples", "edge"), "-o", out, "--format", "netboot,uki", "--source", repo, "--provenance", "full"))
	root := filepath.Join(t.TempDir(), "root")
	run(t, exec.Command("unsquashfs", "-no-progress", "-no-xattrs", "-d", root, filepath.Join(out, "netboot", "root.squashfs"),
		"usr/lib/dpkg", "usr/lib/os-release", "etc/debian_version", "usr/bin", "var"))

	m := readManifest(t, filepath.Join(out, "spore.manifest.json"))
	want := map[string]string{}
	for _, p := range m.Packages {
		if !p.Absent {
			want[p.Name] = p.Version + " " + p.Arch + " installed"
		}
	}
	// Where syft and grype look (lib/dpkg/status below any folder), in the form that dpkg reads.
	text, err := exec.Command("dpkg-query", "--admindir", filepath.Join(root, "usr/lib/dpkg"), "-W", "-f", "${Package}\t${Version} ${Architecture} ${db:Status-Status}\n").CombinedOutput()
	require.NoError(t, err, "%s", text)
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "\t")
		require.True(t, ok, line)
		got[name] = rest
	}
	require.Equal(t, want, got)
	require.Contains(t, got, "mosquitto")
	require.NotContains(t, got, "dpkg", "it was dropped")
	require.NoFileExists(t, filepath.Join(root, "usr/bin/dpkg"))
	require.Greater(t, len(got), 80)

	// trivy takes the release from debian_version; grype takes VERSION_ID, where there is one, for a version of ID_LIKE.
	version, err := os.ReadFile(filepath.Join(root, "etc/debian_version"))
	require.NoError(t, err)
	require.Equal(t, m.DebianVersion, strings.TrimSpace(string(version)))
	require.Regexp(t, `^\d+(\.\d+)?$`, m.DebianVersion)
	release, err := os.ReadFile(filepath.Join(root, "usr/lib/os-release"))
	require.NoError(t, err)
	require.Contains(t, string(release), "ID_LIKE=\"debian\"\n")
	require.Contains(t, string(release), "VERSION_CODENAME=\"trixie\"\n")
	require.NotContains(t, string(release), "VERSION_ID=")
	below, err := os.ReadDir(filepath.Join(root, "var"))
	require.NoError(t, err)
	require.Empty(t, below, "state is mounted there")

	requireProvenance(t, repo, out, m)
}

func readManifest(t *testing.T, name string) manifest.Manifest {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var m manifest.Manifest
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// requireProvenance checks each hash of the provenance that can be taken again here.
func requireProvenance(t *testing.T, repo, out string, m manifest.Manifest) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "spore.provenance.json"))
	require.NoError(t, err)
	type resource struct {
		Name, URI string
		Digest    map[string]string
	}
	var s struct {
		Subject   []resource
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   struct{ Configuration map[string]map[string]string }
				ResolvedDependencies []resource
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &s))

	files := 0
	for _, r := range s.Subject {
		path := filepath.Join(out, r.Name)
		if _, err := os.Stat(path); err == nil {
			require.Equal(t, hash(t, path), r.Digest["sha256"], r.Name)
			files++
		}
	}
	var beside int
	require.NoError(t, filepath.WalkDir(out, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "spore.provenance.json" {
			beside++
		}
		return err
	}))
	require.Equal(t, beside, files, "every file of the folder is named")

	config := s.Predicate.BuildDefinition.ExternalParameters.Configuration
	require.Contains(t, config, "cluster.yaml")
	for name, digest := range config {
		require.Equal(t, hash(t, filepath.Join(repo, "examples", "edge", name)), digest["sha256"], name)
	}

	byName := map[string]map[string]string{}
	for _, r := range s.Predicate.BuildDefinition.ResolvedDependencies {
		byName[r.Name] = r.Digest
	}
	for _, p := range m.Packages {
		require.Equal(t, p.SHA256, byName[p.Name]["sha256"], p.Name)
	}
	require.Contains(t, byName["github.com/coredns/coredns"], "dirHash")
	// The command of docs/accountable.md.
	for _, dir := range []string{"units", "overlay"} {
		cmd := exec.Command("sh", "-c", "find . -type f | cut -c3- | LC_ALL=C sort | tr '\\n' '\\0' | xargs -0 -r sha256sum")
		cmd.Dir = filepath.Join(repo, dir)
		list, err := cmd.Output()
		require.NoError(t, err)
		sum := sha256.Sum256(list)
		require.Equal(t, hex.EncodeToString(sum[:]), byName["source: "+dir]["dirHash"], dir)
	}
}
