//go:build integration

package image

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/explainfile"
	"spore/builder/manifest"
)

// ownFolder is examples/edge with files and units of a user's own.
func ownFolder(t *testing.T, repo string) (dir string, write func(name, text string, mode os.FileMode)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "configs")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(repo, "examples", "edge"))))
	write = func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), mode))
		require.NoError(t, os.Chmod(p, mode))
	}
	write("overlay/etc/plant/line", "7\n", 0o600)
	write("overlay/opt/plant/report", "#!/bin/sh\ncat /etc/plant/line\n", 0o755)
	write("overlay/etc/modules-load.d/plant.conf", "snd-hda-intel\n", 0o644)
	require.NoError(t, os.Symlink("../opt/plant/report", filepath.Join(dir, "overlay", "etc", "report")))
	write("overlay.yaml", "files:\n  /etc/plant/line: {group: mosquitto, mode: \"0640\"}\n", 0o644)
	write("units/plant-report.service", "[Unit]\nWants=network-online.target\nAfter=network-online.target\n"+
		"[Service]\nType=oneshot\nUser=mosquitto\nExecStart=/opt/plant/report\n", 0o644)
	write("units/plant-report.timer", "[Timer]\nOnBootSec=1min\n[Install]\nWantedBy=timers.target\n", 0o644)
	return dir, write
}

// TestFilesAndUnitsOfAUserAreInTheRoot looks with foreign tools at an image that has them, changes one, and takes all
// away again.
func TestFilesAndUnitsOfAUserAreInTheRoot(t *testing.T) {
	repo, spore := buildSpore(t)
	config, write := ownFolder(t, repo)
	out := filepath.Join(t.TempDir(), "out")
	run(t, exec.Command(spore, "build", config, "-o", out, "--source", repo, "--format", "disk,netboot"))
	squashfs := filepath.Join(out, "netboot", "root.squashfs")

	t.Run("unsquashfs finds them with owner and mode", func(t *testing.T) {
		list, err := exec.Command("unsquashfs", "-lln", squashfs).Output()
		require.NoError(t, err)
		for _, want := range []string{
			`-rw-r----- 0/700 +2 .* squashfs-root/etc/plant/line\n`,
			`-rwxr-xr-x 0/0 .* squashfs-root/opt/plant/report\n`,
			`lrwxrwxrwx 0/0 .* squashfs-root/etc/report -> \.\./opt/plant/report\n`,
			`-rw-r--r-- 0/0 .* squashfs-root/etc/systemd/system/plant-report\.service\n`,
			`squashfs-root/etc/systemd/system/timers\.target\.wants/plant-report\.timer -> /etc/systemd/system/plant-report\.timer\n`,
			`squashfs-root/etc/systemd/system/network-online\.target\.wants/systemd-networkd-wait-online\.service -> `,
			`squashfs-root/usr/lib/modules/[^/]+/kernel/sound/pci/hda/snd-hda-intel\.ko`,
		} {
			require.Regexp(t, want, string(list))
		}
		require.NotContains(t, string(list), "wants/plant-report.service")
		data, err := exec.Command("unsquashfs", "-cat", squashfs, "etc/plant/line").Output()
		require.NoError(t, err)
		require.Equal(t, "7\n", string(data))
	})
	t.Run("systemd finds nothing wrong with the units", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "root")
		run(t, exec.Command("unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-ignore-errors", "-dest", root, squashfs,
			"etc/systemd", "usr/lib/systemd", "opt/plant", "etc/plant", "usr/bin", "usr/sbin", "bin", "sbin", "lib", "etc/passwd", "etc/group"))
		verified, code := command(t, "systemd-analyze", "verify", "--root="+root, "--man=no", "--generators=no", "--recursive-errors=no", "plant-report.timer", "plant-report.service")
		require.Zero(t, code, verified)
	})
	t.Run("they are accounted for", func(t *testing.T) {
		a, err := explainfile.Explain(openImage(t, out), "/etc/systemd/system/plant-report.timer", false)
		require.NoError(t, err)
		require.Equal(t, "the configuration: units/plant-report.timer", a.File.Source)
		text, err := os.ReadFile(filepath.Join(out, "spore.manifest.json"))
		require.NoError(t, err)
		var m manifest.Manifest
		require.NoError(t, json.Unmarshal(text, &m))
		var from []string
		for _, f := range m.Own {
			from = append(from, f.From)
		}
		require.Equal(t, []string{
			"overlay/etc/modules-load.d/plant.conf", "overlay/etc/plant/line", "overlay/etc/report", "overlay/opt/plant/report",
			"units/plant-report.service", "units/plant-report.timer",
		}, from)
		for _, bill := range []string{"spore.cdx.json", "spore.spdx.json", "spore.provenance.json"} {
			text, err := os.ReadFile(filepath.Join(out, bill))
			require.NoError(t, err)
			require.Contains(t, string(text), "overlay/etc/plant/line", bill)
			require.Contains(t, string(text), m.Own[1].SHA256, bill)
		}
		inspected, code := command(t, spore, "inspect", filepath.Join(out, "spore.img"))
		require.Zero(t, code)
		require.Regexp(t, `/etc/plant/line +overlay/etc/plant/line +0640 +root:mosquitto +`+m.Own[1].SHA256, inspected)
	})
	t.Run("another configuration for the image names what it would need", func(t *testing.T) {
		write("overlay/etc/plant/line", "8\n", 0o600)
		refused, code := command(t, spore, "customize", filepath.Join(out, "spore.img"), "--config", config)
		require.Equal(t, 1, code)
		require.Contains(t, refused, "overlay/etc/plant/line:1:1: error: the image was built with another content of this file\n")
	})
	t.Run("a changed file costs a second of a processor", func(t *testing.T) {
		before := build(t, spore, repo, config, out)
		write("overlay/etc/plant/line", "9\n", 0o600)
		edited, took := measuredBuild(t, spore, repo, config, out)
		t.Logf("a file of overlay/: %s", took)
		require.NotEqual(t, before.RootHash, edited.RootHash)
		require.Less(t, took, time.Second)
		write("units/plant-report.timer", "[Timer]\nOnBootSec=2min\n[Install]\nWantedBy=timers.target\n", 0o644)
		require.NotEqual(t, edited.RootHash, build(t, spore, repo, config, out).RootHash)
	})
	t.Run("what cannot be is refused by the build, with its place", func(t *testing.T) {
		for name, tc := range map[string]struct{ file, text, want string }{
			"a package's file": {"overlay/usr/bin/cat", "x", "overlay/usr/bin/cat: /usr/bin/cat is of package coreutils; to replace it, write into overlay.yaml:"},
			"a program":        {"units/plant.service", "[Service]\nExecStart=/usr/bin/python3 -m plant\n", "units/plant.service:2: ExecStart=/usr/bin/python3 is not in the image; add its package to packages of image.yaml, or the program to overlay/"},
			"a file of ours":   {"overlay/usr/lib/sysctl.d/50-spore.conf", "x", "overlay/usr/lib/sysctl.d/50-spore.conf: /usr/lib/sysctl.d/50-spore.conf is there already, of Spore, and cannot be replaced; choose another path"},
		} {
			write(tc.file, tc.text, 0o644)
			refused, code := command(t, spore, "build", config, "-o", out, "--source", repo)
			require.Equal(t, 1, code, name)
			require.Contains(t, strings.ReplaceAll(refused, config+"/", ""), tc.want, name)
			require.NoError(t, os.Remove(filepath.Join(config, tc.file)))
		}
	})
	t.Run("without them the image is as one that never had any", func(t *testing.T) {
		plain := build(t, spore, repo, filepath.Join(repo, "examples", "edge"), filepath.Join(t.TempDir(), "plain"))
		for _, name := range []string{"overlay", "overlay.yaml", "units"} {
			require.NoError(t, os.RemoveAll(filepath.Join(config, name)))
		}
		require.NoError(t, os.Mkdir(filepath.Join(config, "units"), 0o755))
		without := build(t, spore, repo, config, out)
		require.Equal(t, plain.RootHash, without.RootHash)
		require.Equal(t, plain.ClusterHash, without.ClusterHash)
	})
}
