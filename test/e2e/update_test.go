//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/lock"
	"spore/builder/vm"
	"spore/test/client"
	"spore/test/oldlock"
)

// system is what a status line says of the system that runs.
type system struct {
	Configuration struct {
		RootHash    string `json:"rootHash"`
		ClusterHash string `json:"clusterHash"`
		Serial      uint64 `json:"serial"`
		Trial       bool   `json:"trial"`
	} `json:"configuration"`
}

func systemOf(t *testing.T, s vm.Status) system {
	t.Helper()
	var out system
	require.NoError(t, json.Unmarshal([]byte(s.Raw), &out))
	return out
}

// olderImage builds, in a folder, the image of a configuration and its keys as it was with an older kernel and an older
// OpenSSL. It returns the image, the release of its kernel and that of an image of today.
func olderImage(t *testing.T, dir, configs, keys string) (image, oldKernel, newKernel string) {
	t.Helper()
	folder := filepath.Join(dir, "configs")
	require.NoError(t, os.CopyFS(folder, os.DirFS(configs)))
	require.NoError(t, spore("lock", folder))
	name := filepath.Join(folder, lock.Name)
	now, err := lock.Read(name)
	require.NoError(t, err)
	older, changed, err := oldlock.Older(context.Background(), now, "openssl", "util-linux", "systemd")
	require.NoError(t, err)
	t.Logf("the update brings %v", changed)
	require.NoError(t, older.Write(name))
	require.NoError(t, spore("build", folder, "-o", dir, "--pki", keys, "--locked", "--format", "disk"))
	return filepath.Join(dir, "spore.img"), older.Kernel, now.Kernel
}

// brokenImage builds an image whose broker's program ends at once: a new root with which a role does not come up.
func brokenImage(t *testing.T, configs string) string {
	return imageWithBroker(t, configs, "ExecStart=/usr/bin/false")
}

// imageWithBroker builds an image in which a line stands in place of the ExecStart= of the broker's unit.
func imageWithBroker(t *testing.T, configs, line string) string {
	t.Helper()
	return imageOfSource(t, configs, func(source string) {
		unit := filepath.Join(source, "units", "mosquitto.service")
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		changed := regexp.MustCompile(`(?m)^ExecStart=.*$`).ReplaceAllString(string(text), line)
		require.NotEqual(t, string(text), changed)
		require.NoError(t, os.WriteFile(unit, []byte(changed), 0o644))
	})
}

// imageOfSource builds an image from a source that is not quite this one.
func imageOfSource(t *testing.T, configs string, change func(source string)) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	out, err := exec.Command("sh", "-c", "cd "+sourceTree+" && git ls-files -z | cpio -0 -pdm --quiet "+source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	change(source)
	require.NoError(t, spore("build", configs, "-o", dir, "--pki", suite.dir, "--format", "disk", "--source", source))
	return filepath.Join(dir, "spore.img")
}

// A machine that was installed with an older kernel and an older OpenSSL gets those of today, serves its clients again
// and has lost nothing; from a root that does not come up it returns by itself, and from a good one because somebody
// says so.
func TestASystemIsUpdatedAndReturnsFromABadOne(t *testing.T) {
	inTurn(t)
	configs := editedConfigs(t, [3]string{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialMinutes: 3\ntrialSettle: 1\n"})
	older, oldKernel, newKernel := olderImage(t, t.TempDir(), configs, suite.dir)
	builder := filepath.Join(t.TempDir(), "spore")
	out, err := exec.Command("go", "build", "-o", builder, sourceTree+"/builder").CombinedOutput()
	require.NoError(t, err, "%s", out)

	b := newBroker(t)
	disk := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), older, disk, diskSize))
	c := edge("update", bootDisk(disk))
	c.SMBIOS, c.Reboots = b.bundle(t, "edge-01"), true
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	g := boot(t, c)
	first := systemOf(t, g.running()).Configuration
	ran := func(kernel string) {
		t.Helper()
		_, ok := g.Console.Find(0, regexp.MustCompile(regexp.QuoteMeta("Linux version "+kernel)))
		require.True(t, ok, "the kernel %s ran", kernel)
	}
	ran(oldKernel)
	require.NoError(t, b.mustDial(t, g, edgeIP, "edge-01", "sensor").Publish("sensors/line", "acknowledged before", true))

	api, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	push := func(image string, more ...string) (string, error) {
		start := time.Now()
		args := append([]string{"push", configs, "--image", image, "--pki", suite.dir, "--node", "edge-01", "--address", "edge-01=" + api}, more...)
		out, err := exec.Command(builder, args...).CombinedOutput()
		t.Logf("push %s took %.0f s:\n%s", strings.Join(more, " "), time.Since(start).Seconds(), out)
		return string(out), err
	}
	reboot := []string{"--reboot", "--without", "mqtt-01,dns-01"} // They share its roles, and are in no network of this test.
	serves := func() {
		t.Helper()
		m := b.mustDial(t, g, edgeIP, "edge-01", "operator")
		require.NoError(t, m.Subscribe("sensors/#"))
		got, err := m.Await("sensors/line", time.Minute)
		require.NoError(t, err)
		require.Equal(t, client.Message{Payload: "acknowledged before", Retained: true}, got)
		checkDNS(t, g, edgeIP)
	}
	// runs waits for the next status line of a root that is on no trial.
	runs := func(rootHash string) {
		t.Helper()
		g.await("a status line of the root "+rootHash[:12], func(s vm.Status) bool {
			c := systemOf(t, s).Configuration
			return c.RootHash == rootHash && !c.Trial && s.System == "running"
		})
	}

	text, err := push(suite.image, "--dry-run")
	require.NoError(t, err)
	require.Contains(t, text, "edge-01")

	text, err = push(suite.image, reboot...)
	require.NoError(t, err)
	require.Contains(t, text, "edge-01 is up with it")
	ran(newKernel)
	second := systemOf(t, g.await("a status line of another root", func(s vm.Status) bool {
		return systemOf(t, s).Configuration.RootHash != first.RootHash
	})).Configuration
	runs(second.RootHash)
	require.NotZero(t, second.Serial)
	serves()

	text, err = push(suite.image, "--back", "--without", "mqtt-01,dns-01")
	require.NoError(t, err)
	require.Contains(t, text, "edge-01")
	runs(first.RootHash)
	serves()

	text, err = push(brokenImage(t, configs), append(reboot, "--give-up-way-back")...)
	require.Error(t, err)
	require.Contains(t, text, "mosquitto.service")
	g.awaitLine(`going back to the one before`)
	runs(first.RootHash)
	serves()
}
