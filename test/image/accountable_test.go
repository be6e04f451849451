//go:build integration

package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/compare"
	"spore/builder/explainfile"
	"spore/builder/manifest"
	"spore/builder/offline"
	"spore/builder/rootfs"
	"spore/builder/size"
	"spore/builder/tree"
	"spore/cluster/spec"
)

func openImage(t *testing.T, name string) *rootfs.Image {
	t.Helper()
	i, err := rootfs.Open(name)
	require.NoError(t, err)
	t.Cleanup(i.Close)
	return i
}

// TestAnImageIsAccountable asks each form of a real image where its files come from, what takes its room and what
// fetches.
func TestAnImageIsAccountable(t *testing.T) {
	t.Parallel()
	repo, spore := buildSpore(t)
	out := filepath.Join(t.TempDir(), "out")
	build := func(out, source string) {
		run(t, exec.Command(spore, "build", filepath.Join(repo, "examples", "edge"), "-o", out, "--source", source, "--format", "disk,iso,netboot"))
	}
	build(out, repo)
	disk := openImage(t, filepath.Join(out, "spore.img"))
	var m manifest.Manifest
	text, err := os.ReadFile(filepath.Join(out, "spore.manifest.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))

	t.Run("every form tells the same", func(t *testing.T) {
		for name, format := range map[string]string{"": spec.FormatDisk, "spore.iso": spec.FormatISO, "netboot": spec.FormatNetboot} {
			i := openImage(t, filepath.Join(out, name))
			require.Equal(t, format, i.Format)
			require.Equal(t, disk.Origins, i.Origins)
			d, err := compare.Images(disk, i)
			require.NoError(t, err)
			d.Parts = nil // Media differ in what is around.
			require.True(t, d.Same(), "%+v", d)
			r, err := size.Of(i)
			require.NoError(t, err)
			requireWhole(t, i, r)
			requireIndexed(t, i)
		}
	})
	t.Run("every file has the origin that the manifest beside the image says", func(t *testing.T) {
		require.Len(t, disk.Root.Entries, len(m.Files))
		for n, f := range m.Files {
			require.Equal(t, f.Path, disk.Root.Entries[n].Path)
			require.NotEmpty(t, f.Origin, f.Path)
			require.Equal(t, f.Origin, disk.Origins[n], f.Path)
		}
	})
	t.Run("what explain-file says is what unsquashfs unpacks", func(t *testing.T) {
		squashfs := filepath.Join(out, "netboot", "root.squashfs")
		for _, p := range []string{"/usr/sbin/mosquitto", "/usr/bin/coredns", "/etc/systemd/system/mosquitto.service"} {
			a, err := explainfile.Explain(disk, p, true)
			require.NoError(t, err)
			data, err := exec.Command("unsquashfs", "-cat", squashfs, p[1:]).Output()
			require.NoError(t, err)
			sum := sha256.Sum256(data)
			require.Equal(t, hex.EncodeToString(sum[:]), a.File.SHA256, p)
			require.EqualValues(t, len(data), a.File.Size)
			require.NotEmpty(t, a.File.Source)
		}
		a, err := explainfile.Explain(disk, "/usr/sbin/mosquitto", true)
		require.NoError(t, err)
		require.Equal(t, []string{"mosquitto (mqtt-broker)"}, a.File.Package.AskedBy)
		require.Len(t, a.File.Package.SHA256, 64)
	})
	t.Run("every package has a reason", func(t *testing.T) {
		seen := map[string]bool{}
		for n, e := range disk.Root.Entries {
			name, _, ok := strings.Cut(strings.TrimPrefix(disk.Origins[n], "deb:"), "_")
			if !ok || seen[name] || e.Type != tree.Regular || !strings.HasPrefix(disk.Origins[n], "deb:") {
				continue
			}
			seen[name] = true
			a, err := explainfile.Explain(disk, e.Path, false)
			require.NoError(t, err)
			require.NotEmpty(t, a.File.Package.AskedBy, "%s of %s", e.Path, name)
		}
		require.Greater(t, len(seen), 50)
	})
	t.Run("the commands", func(t *testing.T) {
		left, code := command(t, spore, "explain-file", out, "/usr/share/man/man1/ls.1.gz")
		require.Zero(t, code)
		require.Regexp(t, `because +documentation`, left)
		none, code := command(t, spore, "explain-file", out, "/usr/bin/opensl")
		require.Equal(t, 1, code)
		require.Contains(t, none, "/usr/bin/openssl")
		_, code = command(t, spore, "inspect", out, "--offline", "--size")
		require.Equal(t, 2, code)
		same, code := command(t, spore, "diff", out, filepath.Join(out, "spore.img"), "--exit-code")
		require.Zero(t, code, same)
		require.Equal(t, "the same\n", same)
	})
	t.Run("nothing fetches", func(t *testing.T) { requireOffline(t, disk) })
	t.Run("what is planted is found, by the check and by the comparison", func(t *testing.T) {
		source := filepath.Join(t.TempDir(), "source")
		require.NoError(t, copyTree(repo, source))
		unit := filepath.Join(source, "units", "mosquitto.service")
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(unit, append(text, "ExecStartPost=/usr/bin/mosquitto_ctrl https://example.test/list\n"...), 0o644))
		pod := filepath.Join(source, "overlay", "usr", "share", "pods", "x.yaml")
		require.NoError(t, os.MkdirAll(filepath.Dir(pod), 0o755))
		require.NoError(t, os.WriteFile(pod, []byte("containers:\n- image: example.test/app:1\n"), 0o644))
		fetching := filepath.Join(t.TempDir(), "fetching")
		build(fetching, source)
		found, code := command(t, spore, "inspect", fetching, "--offline")
		require.Equal(t, 1, code)
		require.Regexp(t, `/etc/systemd/system/mosquitto.service:\d+: it names a place on a network: https://`, found)
		require.Contains(t, found, "/usr/share/pods/x.yaml:2: the root does not carry the image example.test/app:1")
		require.Contains(t, found, "2 things in it could fetch")

		d, err := compare.Images(disk, openImage(t, fetching))
		require.NoError(t, err)
		var paths []string
		for _, f := range d.Root {
			paths = append(paths, f.Change+" "+f.Path)
		}
		require.Equal(t, []string{"changed /etc/systemd/system/mosquitto.service", "added /usr/share/pods", "added /usr/share/pods/x.yaml"}, paths)
		requireMostlyShared(t, disk, openImage(t, fetching))
		require.Empty(t, d.Packages)
		require.Empty(t, d.Cluster)
		_, code = command(t, spore, "diff", out, fetching, "--exit-code")
		require.Equal(t, 1, code)
	})
}

// TestAnImageWithEveryServiceFetchesNothing looks at the one that `make image` made.
func TestAnImageWithEveryServiceFetchesNothing(t *testing.T) {
	t.Parallel()
	repo, _ := buildSpore(t)
	name := filepath.Join(repo, "out", "spore.img")
	if _, err := os.Stat(name); err != nil {
		t.Skip("there is no image of every service: run make image")
	}
	i := openImage(t, name)
	require.Contains(t, i.Manifest.Programs, "kubelet")
	requireOffline(t, i)
	r, err := size.Of(i)
	require.NoError(t, err)
	requireWhole(t, i, r)
}

// requireWhole makes sure that each byte of an image is counted, and once.
func requireWhole(t *testing.T, i *rootfs.Image, r *size.Report) {
	t.Helper()
	if i.Info != nil {
		require.Equal(t, i.Info.Size, r.Bytes)
	}
	require.Zero(t, r.Root.Unused)
	require.Equal(t, i.Root.Size, r.Root.Data+r.Root.Metadata+r.Root.Padding)
	for _, list := range [][]size.Item{append(append(append([]size.Item{}, r.Root.Packages...), r.Root.Payloads...), r.Root.Own...), r.Root.Directories, r.Root.Files} {
		var sum int64
		for _, item := range list {
			sum += item.Bytes
		}
		require.Equal(t, r.Root.Data, sum)
	}
	var sum int64
	for _, p := range r.UKI {
		sum += p.Bytes
	}
	require.Equal(t, i.UKISize, sum)
}

// requireIndexed makes sure that the index behind the hash tree lists all bytes of the root.
func requireIndexed(t *testing.T, i *rootfs.Image) {
	t.Helper()
	require.Equal(t, i.Root.Size, i.Pieces.Size())
	f, err := os.Open(i.Root.File)
	require.NoError(t, err)
	defer f.Close()
	at := i.Root.Offset
	for n, p := range i.Pieces {
		content := make([]byte, p.Size)
		_, err := f.ReadAt(content, at)
		require.NoError(t, err)
		require.True(t, p.Same(content), "piece %d at %d", n, at)
		at += p.Size
	}
}

// requireMostlyShared makes sure that a root whose packages are those of another one has its pieces but for tables and
// what is made at the build.
func requireMostlyShared(t *testing.T, from, to *rootfs.Image) {
	t.Helper()
	fresh := to.Pieces.Beyond(from.Pieces).Size()
	require.NotZero(t, fresh)
	require.Less(t, fresh, int64(768<<10))
}

func requireOffline(t *testing.T, i *rootfs.Image) {
	t.Helper()
	r, err := offline.Look(i)
	require.NoError(t, err)
	for _, c := range r.Checks {
		require.NotEmpty(t, c.Evidence, c.Name)
		require.Empty(t, c.Findings, c.Name)
	}
}

// command runs a program and returns all that it says, with its exit code.
func command(t *testing.T, name string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = io.Writer(&out), &out
	err := cmd.Run()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
