//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/pcr"
	"spore/builder/secureboot"
	"spore/builder/vm"
	"spore/pki/authenticode"
	"spore/storage/fat"
)

// Scenario: Secure Boot. One machine takes the keys of its medium and starts the signed image; with the same keys its
// firmware refuses an image with one changed byte, and one that is not signed.

// started is what the status line says of the machine's start.
type started struct {
	Firmware *struct {
		SecureBoot bool   `json:"secureBoot"`
		SetupMode  bool   `json:"setupMode"`
		Lockdown   string `json:"lockdown"`
		PCR11      string `json:"pcr11"`
	} `json:"firmware"`
}

func startOf(t *testing.T, s vm.Status) started {
	t.Helper()
	var out started
	require.NoError(t, json.Unmarshal([]byte(s.Raw), &out))
	require.NotNil(t, out.Firmware, s.Raw)
	return out
}

// signedImage is an image with keys of its own, in a folder with the keys.
type signedImage struct {
	disk, uki, keys string
}

// addition is what a signed image has besides the suite's configuration: lines of cluster.yaml and of image.yaml, words
// for the kernel, images that its machines start no more, and formats besides disk and uki.
type addition struct {
	lines   string
	image   string
	words   []string
	revoked []string
	formats string
}

// buildSigned makes keys and the image of the suite's configuration, signed. Under Secure Boot systemd's stub takes no
// words from outside, so those that the emulation needs are in the image.
func buildSigned(t *testing.T, more addition) signedImage {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "edge")
	require.NoError(t, os.CopyFS(config, os.DirFS(filepath.Join(sourceTree, "examples/edge"))))
	add := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(config, name), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	add("cluster.yaml", more.lines)
	add("image.yaml", more.image)
	if words := append(more.words, suite.accel.KernelArguments...); len(words) > 0 {
		add("image.yaml", fmt.Sprintf("kernelArguments: [%s]\n", strings.Join(words, ", ")))
	}
	i := signedImage{filepath.Join(dir, "out", "spore.img"), filepath.Join(dir, "out", "spore.efi"), filepath.Join(dir, "keys")}
	require.NoError(t, spore("keys", "init", i.keys, "--plain"))
	if len(more.revoked) > 0 {
		require.NoError(t, spore(append([]string{"keys", "revoke", "--offline", "--keys", i.keys, "-o", filepath.Join(config, "dbx.auth")}, more.revoked...)...))
	}
	require.NoError(t, spore("build", config, "-o", filepath.Dir(i.disk), "--pki", suite.dir, "--format", "disk,uki"+more.formats,
		"--secure-boot-key", filepath.Join(i.keys, "db.key"), "--secure-boot-cert", filepath.Join(i.keys, "db.crt"),
		"--pcr-key", filepath.Join(i.keys, "pcr.key"), "--enroll", "if-safe"))
	return i
}

// changed is a disk with the image in which one letter of the UKI is another: in the title that boot menus show, so
// that the rest of it works as before.
func (i signedImage) changed(t *testing.T) string {
	t.Helper()
	uki, err := os.ReadFile(i.uki)
	require.NoError(t, err)
	title := bytes.Index(uki, []byte("PRETTY_NAME="))
	require.Positive(t, title)
	disk := copyOf(t, i.disk)
	esp, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	// A file of our FAT lies in one piece.
	const cluster = 4096
	block := make([]byte, cluster)
	for at := esp.Start; at < esp.Start+esp.Size; at += 512 {
		_, err := f.ReadAt(block, at)
		require.NoError(t, err)
		if bytes.Equal(block, uki[:cluster]) {
			require.NoError(t, vm.Flip(disk, at+int64(title+len("PRETTY_NAME=")+2)))
			return disk
		}
	}
	t.Fatal("the UKI is not on the ESP")
	return ""
}

// copyOf is a disk with an image.
func copyOf(t *testing.T, image string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(image, path, diskSize))
	return path
}

// requireRefusal makes sure that the firmware says that it does not start a program, and that no kernel runs.
func requireRefusal(t *testing.T, g *guest, pattern string) {
	t.Helper()
	line := g.awaitLine(pattern)
	t.Log(line.Text)
	g.off()
	_, seen := g.Console.Find(0, regexp.MustCompile(`Linux version|spore stage1`))
	require.False(t, seen)
}

func TestSecureBoot(t *testing.T) {
	inTurn(t)
	image := buildSigned(t, addition{formats: ",netboot", image: shellLines()})
	f, err := os.Open(image.uki)
	require.NoError(t, err)
	predicted, err := pcr.Predict(f)
	require.NoError(t, err)
	list, err := pcr.ReadSignatures(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	secure := func(name, disk, vars string) vm.Config {
		c := edge(name, bootDisk(disk))
		c.Firmware, c.Vars, c.Dir = vm.SecureBoot, vars, t.TempDir()
		return c
	}
	c := secure("secureboot", copyOf(t, image.disk), "")
	c.TPM, c.Reboots = filepath.Join(t.TempDir(), "tpm"), true
	c.SMBIOS = newBroker(t).bundle(t, "edge-01")
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	c.Disks = append(c.Disks, vm.Disk{Path: documents(t, hostileDocuments), CDROM: true})
	g := boot(t, c)
	g.awaitLine(`Custom Secure Boot keys successfully enrolled`)
	g.awaitLine(`stage1: .*the image has a signature of PCR 11`)
	s := g.running()
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, "tpm2", s.Bundle.Sealed, "a bundle is sealed to the TPM and to none of its registers, signed image or not: %s", s.Raw)
	at := startOf(t, s).Firmware
	require.True(t, at.SecureBoot, s.Raw)
	require.False(t, at.SetupMode, s.Raw)
	require.Equal(t, "integrity", at.Lockdown, s.Raw)
	t.Run("the TPM has measured what was predicted", func(t *testing.T) {
		require.Equal(t, predicted.Enter(pcr.StateOpen).String(), at.PCR11, "and nothing has the TPM open the state any more")
		public, err := os.ReadFile(filepath.Join(image.keys, "pcr.pub"))
		require.NoError(t, err)
		require.NoError(t, pcr.Check(list, predicted, public))
	})
	t.Run("a volume of NoCloud changes nothing that is signed", func(t *testing.T) {
		requireMatched(t, s, "edge-01", "mac", edgeMAC)
		require.Equal(t, []string{edgeIP}, s.Addresses, s.Raw)
		require.Equal(t, []string{"the volume /dev/sr0 (iso9660)"}, s.NoCloud.From)
		require.Empty(t, s.NoCloud.Problem)
		require.Equal(t, []string{
			"user-data: bootcmd", "user-data: runcmd", "user-data: spore.kernelArguments", "user-data: spore.roles", "user-data: ssh_authorized_keys", "user-data: users", "user-data: write_files",
			"network-config: the configuration describes the network of edge-01",
		}, s.NoCloud.NotTaken)
	})
	t.Run("its glass is broken by a grant", func(t *testing.T) { breaksItsGlass(t, g, untouched) })
	t.Run("its operator works on it", func(t *testing.T) { worksForItsOperator(t, g) })
	t.Run("an update by another key is refused, and nothing of it is written", func(t *testing.T) {
		refusesAnotherKey(t, g, buildSigned(t, addition{}))
	})
	g.off()
	t.Run("the disk has one system and one boot loader", func(t *testing.T) {
		withESP(t, c.Disks[0].Path, func(e *fat.Editor) {
			require.Nil(t, fileOnESP(t, e, loaderTried))
			list, err := e.List("/EFI/Linux")
			require.NoError(t, err)
			require.Len(t, slices.DeleteFunc(list, func(f fat.Entry) bool { return !strings.HasSuffix(f.Name, ".efi") }), 1)
		})
	})
	t.Run("the firmware has the keys of the folder", func(t *testing.T) {
		fd, err := os.ReadFile(c.VarsPath())
		require.NoError(t, err)
		vars, err := secureboot.StoredVariables(fd)
		require.NoError(t, err)
		for _, name := range []string{"PK", "KEK", "db"} {
			want, err := os.ReadFile(filepath.Join(image.keys, name+".esl"))
			require.NoError(t, err)
			var have []byte
			for _, v := range vars {
				if v.Name == name {
					have = v.Data
				}
			}
			require.Equal(t, want, have, name)
		}
	})
	changed, enrolled := image.changed(t), c.VarsPath()
	t.Run("an image with one changed byte is refused", func(t *testing.T) {
		g := boot(t, secure("secureboot-changed", changed, enrolled))
		g.awaitLine(`BdsDxe: starting Boot`) // its boot loader is as it was
		requireRefusal(t, g, `(?i)access denied|security violation`)
	})
	t.Run("an image that is not signed is refused", func(t *testing.T) {
		g := boot(t, secure("secureboot-unsigned", overlay(t), enrolled))
		requireRefusal(t, g, `(?i)BdsDxe: failed to (load|start).*(access denied|security violation)`)
	})
	t.Run("words from outside are refused", func(t *testing.T) {
		c := secure("secureboot-words", copyOf(t, image.disk), enrolled)
		c.SMBIOS.KernelArguments = []string{"spore.console"}
		g := boot(t, c)
		g.awaitLine(`FAILED: .*with Secure Boot on, words that are not the image's are refused: "spore.console"`)
		g.off()
	})
	// That the one that is not signed starts there is what all the other tests show.
	t.Run("without Secure Boot the changed one starts", func(t *testing.T) {
		at := startOf(t, leavesForeignStateAlone(t, changed, switchedOff(t, enrolled))).Firmware
		require.False(t, at.SecureBoot)
		require.False(t, at.SetupMode, "the keys are there")
		require.Equal(t, "none", at.Lockdown)
	})
	t.Run("PXE", func(t *testing.T) { testPXE(t, filepath.Dir(image.disk), enrolled) })
}

// hostileDocuments are what somebody who can write a volume, and nothing that is signed, would have a machine do: other
// addresses and nameservers for the card that its file describes, another name, programs, a user, an erased disk.
var hostileDocuments = map[string]string{
	"meta-data": "instance-id: i-1\nlocal-hostname: mqtt-01\n",
	"user-data": "#cloud-config\nspore: {roles: [mqtt-broker], kernelArguments: [spore.console]}\nusers: [{name: hostile, sudo: ALL}]\n" +
		"ssh_authorized_keys: [ssh-ed25519 AAAA]\nbootcmd: [[touch, /run/hostile]]\nruncmd: [[touch, /run/hostile]]\n" +
		"write_files: [{path: /run/hostile, content: x}]\n",
	"network-config": "version: 2\nethernets:\n  id0:\n    match: {macaddress: '" + edgeMAC + "'}\n    addresses: [" + hostileIP + "/24]\n" +
		"    gateway4: " + hostileIP + "\n    nameservers: {addresses: [" + hostileIP + "]}\n",
	"spore-answers.yaml": "node: edge-01\ndisk: {byID: virtio-1}\nstate: erase\n",
}

// hostileIP is nobody's address.
const hostileIP = "10.77.0.66"

// untouched is that the machine has nothing of them: neither in what networkd and the resolver are told, nor a file, nor
// a user, nor a name.
var untouched = look{
	command: "echo $(cat /proc/sys/kernel/hostname), $(cat /etc/systemd/network/* /run/systemd/network/* /etc/resolv.conf | grep -c " + hostileIP +
		") lines, $(ls -d /run/hostile 2>/dev/null | wc -l) files, $(grep -c hostile /etc/passwd) users",
	says: "edge-01, 0 lines, 0 files, 0 users",
}

// refusesAnotherKey pushes an image whose boot loader and UKI another key signed to a machine whose firmware does not
// have its certificate. Nothing would count the starts of such a loader.
func refusesAnotherKey(t *testing.T, g *guest, other signedImage) {
	t.Helper()
	builder, err := compiled()
	require.NoError(t, err)
	api, err := g.Address("tcp", apiPort)
	require.NoError(t, err)
	cmd := exec.Command(builder, "push", filepath.Join(filepath.Dir(other.keys), "edge"), "--image", other.disk,
		"--pki", suite.dir, "--node", "edge-01", "--address", "edge-01="+api,
		"--secure-boot-key", filepath.Join(other.keys, "db.key"), "--secure-boot-cert", filepath.Join(other.keys, "db.crt"),
		"--pcr-key", filepath.Join(other.keys, "pcr.key"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.Error(t, err)
	certificate, err := os.ReadFile(filepath.Join(other.keys, "db.crt"))
	require.NoError(t, err)
	c, err := secureboot.ParseCertificate(certificate)
	require.NoError(t, err)
	require.Contains(t, string(out), "would not start the boot loader of the update: it is signed by")
	require.Contains(t, string(out), authenticode.Fingerprint(c)[:16])
	// On its console the machine says only what is new.
	text, errs, ok := asker(t, api, 2*time.Minute)("status", "--node", "edge-01", "--json")
	require.True(t, ok, errs)
	var nodes []struct{ Status json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(text), &nodes))
	require.Len(t, nodes, 1)
	s := vm.Status{Raw: string(nodes[0].Status)}
	require.Contains(t, s.Raw, `"edge-01"`)
	require.Empty(t, loaderOf(t, s), s.Raw)
	require.Empty(t, configurationOf(t, s).Configuration.Staged, s.Raw)
}

// switchedOff is the firmware's variables with the switch of its setup off (SecurityPkg of EDK II, SecureBootEnable).
func switchedOff(t *testing.T, vars string) string {
	t.Helper()
	fd, err := os.ReadFile(vars)
	require.NoError(t, err)
	list, err := secureboot.StoredVariables(fd)
	require.NoError(t, err)
	found := false
	for _, v := range list {
		if v.Name == "SecureBootEnable" && len(v.Data) == 1 {
			v.Data[0], found = 0, true // a part of fd
		}
	}
	require.True(t, found)
	off := filepath.Join(t.TempDir(), "off.fd")
	require.NoError(t, os.WriteFile(off, fd, 0o600))
	return off
}
