//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/pki/bundle"
	"spore/test/chance"
	"spore/test/client"
	"spore/test/leak"
	"spore/test/powercut"
)

// Scenario 7: how a bundle comes to its node, and what is left of it.

const (
	// onESP is where stage1 takes the bundle from.
	onESP = "::/spore/bundle"
	// stored is the sealed bundle, seen from the state partition.
	stored = "/lib/spore/bundle.cred"
	// before is how many cuts are made before the removal too, one in every fourth write.
	before, every = 6, 4
	// typistsPause is what a person takes at least until the first key.
	typistsPause = 3 * time.Second
	// smallDisk leaves 1 GiB for state, so that it can be looked at often.
	smallDisk = 6<<30 + 256<<20
)

// withBundle is a copy of the suite's image with a bundle on its ESP.
func withBundle(t *testing.T, data []byte) string {
	t.Helper()
	return imageWithBundle(t, suite.image, data)
}

// imageWithBundle is a copy of an image with a bundle on its ESP.
func imageWithBundle(t *testing.T, image string, data []byte) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(image, disk, smallDisk))
	file := filepath.Join(t.TempDir(), "spore.bundle.cred")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	esp := espOf(t, disk)
	run(t, "mmd", "-D", "s", "-i", esp, "::/spore")
	run(t, "mcopy", "-i", esp, file, onESP)
	return disk
}

// espOf is the ESP of a raw disk as mtools name it.
func espOf(t *testing.T, disk string) string {
	t.Helper()
	p, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	return fmt.Sprintf("%s@@%d", disk, p.Start)
}

// readESP is the bundle file on the ESP, if it is there.
func readESP(t *testing.T, disk string) []byte {
	t.Helper()
	out, err := exec.Command("mtype", "-i", espOf(t, disk), onESP).Output()
	if err != nil {
		return nil
	}
	return out
}

// readState is a file of the state partition; its journal is replayed first, as the kernel does when it mounts it. It
// is empty before there is such a partition.
func readState(t *testing.T, disk, path string) []byte {
	t.Helper()
	p, err := vm.FindPartition(disk, "spore-state")
	if err != nil {
		return nil
	}
	part := filepath.Join(t.TempDir(), "state.img")
	run(t, "dd", "if="+disk, "of="+part, "bs=1M", "conv=sparse", "iflag=skip_bytes,count_bytes", fmt.Sprint("skip=", p.Start), fmt.Sprint("count=", p.Size))
	defer os.Remove(part)
	// 1 says that something was mended.
	if out, err := exec.Command("e2fsck", "-fp", part).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "run make deps")
		require.Equal(t, 1, exit.ExitCode(), "%s", out)
	}
	out, err := exec.Command("debugfs", "-R", "cat "+path, part).Output()
	require.NoError(t, err)
	return out
}

// opened is a bundle of the suite, as its node reads it.
func opened(t *testing.T, data []byte, node string) bundle.Bundle {
	t.Helper()
	keys, err := suite.keys.Public().SigningKeys()
	require.NoError(t, err)
	b, err := bundle.Open(bytes.NewReader(data), bundle.Whose{Cluster: suite.cluster.ID, Node: node, Keys: keys})
	require.NoError(t, err)
	return b
}

// requireNothingLeft makes sure that neither the ESP nor the state partition of a raw disk holds anything of a bundle
// that can be read, nor anything that looks like a secret.
func requireNothingLeft(t *testing.T, disk string, data []byte, node string) {
	t.Helper()
	s := leak.New()
	head, _, _ := strings.Cut(string(data), "\n")
	require.NoError(t, s.Add("the bundle's first line", head))
	for name, value := range opened(t, data, node).Secrets {
		require.NoError(t, s.Add(name, value))
	}
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	for _, name := range []string{"esp", "spore-state"} {
		p, err := vm.FindPartition(disk, name)
		require.NoError(t, err)
		found, err := s.Search(io.NewSectionReader(f, p.Start, p.Size))
		require.NoError(t, err)
		require.Empty(t, found, "in %s", name)
	}
	require.Nil(t, readESP(t, disk), "the file is gone")
}

// requireServes makes sure that a node's broker works with the bundle's certificate and passwords.
func requireServes(t *testing.T, g *guest, ip, node string) {
	t.Helper()
	op := newBroker(t).mustDial(t, g, ip, node, "operator")
	require.NoError(t, op.Subscribe("commands/#"))
	require.NoError(t, op.Publish("commands/a", "1", false))
	m, err := op.Await("commands/a", time.Minute)
	require.NoError(t, err)
	require.Equal(t, client.Message{Payload: "1"}, m)
}

// A stick is flashed for mqtt-01, and brings the bundle to a machine without a TPM, whose card is that of edge-01. The
// first boot is recorded; the power goes after each of the writes of the removal, and one of these disks, chosen by the
// seed, is booted. From the stick the machine is then installed on its disk, by its operator.
func TestABundleOnTheStickIsSealedAndThenRemoved(t *testing.T) {
	inTurn(t)
	older := readESP(t, flashedFor(t, "mqtt-01"))
	disk := flashedFor(t, "mqtt-01")
	data := readESP(t, disk)
	serial := opened(t, data, "mqtt-01").Serial
	require.Less(t, opened(t, older, "mqtt-01").Serial, serial)
	start := filepath.Join(t.TempDir(), "start.img")
	require.NoError(t, vm.Copy(disk, start, 0))

	machine := func(name string, d vm.Disk) vm.Config {
		d.Serial = "FLASHED1"
		c := edge(name, d)
		c.SMBIOS = vm.SMBIOS{UUID: machineUUID("mqtt-01")}
		c.NICs[0].DHCPStart, c.NICs[0].Forwards = mqttIP, forwards(mqttIP)
		return c
	}
	d := bootDisk(disk)
	d.WriteLog = filepath.Join(t.TempDir(), "writes.log")
	g := boot(t, machine("stick", d))
	g.awaitLine(fmt.Sprintf(`spore-agent: sealed bundle %d to the host key`, serial))
	g.awaitLine(`spore-agent: removed the bundle from the boot medium`)
	s := g.running()
	requireMatched(t, s, "mqtt-01", "esp", "mqtt-01")
	require.Contains(t, s.BootDisk, "FLASHED1")
	require.Equal(t, []string{"mqtt-broker"}, s.Roles, s.Raw)
	require.Equal(t, "partition", s.State.Kind)
	require.Equal(t, serial, s.Bundle.Serial)
	require.Equal(t, "medium", s.Bundle.From)
	require.Equal(t, "host", s.Bundle.Sealed)
	require.Empty(t, s.Bundle.Problem)
	requireServes(t, g, mqttIP, "mqtt-01")
	g.off()
	requireNothingLeft(t, disk, data, "mqtt-01")
	sealed := readState(t, disk, stored)
	require.NotEmpty(t, sealed)
	t.Run("the state is kept when the stick is flashed again", func(t *testing.T) { keepsItsState(t, disk) })

	log := readLog(t, d.WriteLog)
	first, last := removal(t, log, disk)
	rng := rand.New(rand.NewPCG(chance.Seed(t), 7))
	chosen := first + rng.IntN(last-first+1)
	t.Logf("the removal is in the writes %d to %d; cut %d is booted", first, last, chosen)
	booted := ""
	var cuts []int
	for i := before; i > 0; i-- {
		cuts = append(cuts, max(1, first-i*every))
	}
	for n := first; n <= last; n++ {
		cuts = append(cuts, n)
	}
	for _, n := range cuts {
		cut, err := log.Cut(n, rng.Uint64())
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cut.img")
		require.NoError(t, vm.Copy(start, path, 0))
		replay(t, log, cut, path)
		whole := bytes.Equal(readESP(t, path), data)
		kept := bytes.Equal(readState(t, path, stored), sealed)
		require.True(t, whole || kept, "%s: the bundle is neither on the stick nor sealed", cut)
		t.Logf("%s: on the stick %v, sealed %v", cut, whole, kept)
		if n == chosen {
			booted = path
		} else {
			require.NoError(t, os.Remove(path))
		}
	}

	c := machine("stick-after-cut", bootDisk(booted))
	c.SMBIOS = delivering("mqtt-01", older)
	inner := emptyFile(t, smallDisk)
	c.Disks = append(c.Disks, vm.Disk{Path: inner, Serial: innerDisk, BootIndex: 2, Bus: "nvme"})
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: mqttAPI})
	c.Reboots, c.Dir = true, t.TempDir()
	g = boot(t, c)
	s = g.running()
	t.Run("after the cut it serves", func(t *testing.T) {
		require.Equal(t, []string{"mqtt-broker"}, s.Roles, s.Raw)
		require.Equal(t, "host", s.Bundle.Sealed)
		requireServes(t, g, mqttIP, "mqtt-01")
	})
	t.Run("an older bundle is refused", func(t *testing.T) {
		require.Equal(t, serial, s.Bundle.Serial)
		require.Contains(t, s.Bundle.Problem, fmt.Sprintf("the bundle that the firmware gave has the serial %d and was refused", opened(t, older, "mqtt-01").Serial))
	})
	t.Run("its operator installs it on its disk", func(t *testing.T) { isInstalledByItsOperator(t, g, serial) })
	g.off()
	t.Run("nothing is left", func(t *testing.T) {
		requireNothingLeft(t, booted, data, "mqtt-01")
		requireNothingLeft(t, inner, data, "mqtt-01")
	})
}

// mqttAPI is where mqtt-01 has the node's API.
const mqttAPI = mqttIP + ":8643"

// isInstalledByItsOperator has mqtt-01, which runs from its stick and has taken its bundle from there, put its system
// on its disk, and restarts it. The disk has the bundle that the stick has no more.
func isInstalledByItsOperator(t *testing.T, g *guest, serial uint64) {
	at, err := g.Address("tcp", mqttAPI)
	require.NoError(t, err)
	ask := askerOf(t, "mqtt-01", at, verbsBound)
	out, errs, ok := ask("install", "mqtt-01", innerDisk, "--dry-run", "--json")
	require.True(t, ok, errs)
	require.Contains(t, out, `"holds": "nothing"`)
	require.Contains(t, out, `"bundle": "state"`)
	_, errs, ok = ask("install", "mqtt-01", "FLASHED1", "--confirm", "FLASHED1")
	require.False(t, ok)
	require.Contains(t, errs, "the machine was started from this disk")
	_, errs, ok = ask("install", "mqtt-01", innerDisk, "--confirm", innerDisk)
	require.True(t, ok, errs)
	require.Regexp(t, `mqtt-01: installed on /dev/nvme0n1 in .*: wrote \d+ MiB of \d+ MiB.*read back and compared`, errs)
	require.Contains(t, errs, "leads to it and is the first")

	_, errs, ok = ask("reboot", "--node", "mqtt-01")
	require.True(t, ok, errs)
	g.awaitLine(`reboot: Restarting system`)
	s := g.running()
	require.Contains(t, s.BootDisk, innerDisk)
	require.Equal(t, "partition", s.State.Kind)
	require.Equal(t, innerDisk, s.State.Disk)
	require.Equal(t, serial, s.Bundle.Serial)
	requireServes(t, g, mqttIP, "mqtt-01")
}

// readLog reads a write log.
func readLog(t *testing.T, path string) *powercut.Log {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	log, err := powercut.Read(f, info.Size())
	require.NoError(t, err)
	require.Positive(t, log.Writes())
	return log
}

// replay makes the disk that a cut leaves of the one that the log began with.
func replay(t *testing.T, log *powercut.Log, cut powercut.Cut, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, log.Replay(f, cut))
	require.NoError(t, f.Close())
}

// removal finds the writes to the ESP that the running system made, counted from 1. Those before the first write
// elsewhere are the boot loader's.
func removal(t *testing.T, log *powercut.Log, disk string) (first, last int) {
	t.Helper()
	esp, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	n, elsewhere := 0, false
	for _, e := range log.Entries {
		if e.Length == 0 || e.Discard {
			continue
		}
		n++
		inside := e.Offset >= esp.Start && e.Offset < esp.Start+esp.Size
		elsewhere = elsewhere || !inside
		if inside && elsewhere {
			if first == 0 {
				first = n
			}
			last = n
		}
	}
	require.Positive(t, first, "the removal writes to the ESP")
	return first, last
}

// A machine that DHCP alone knows is brought its bundle on its stick, and has a TPM. The power goes as soon as the
// bundle is sealed.
func TestABundleIsSealedToTheTPM(t *testing.T) {
	inTurn(t)
	data := suite.bundle(t, "mqtt-01")
	serial := opened(t, data, "mqtt-01").Serial
	disk, tpm := withBundle(t, data), t.TempDir()
	machine := func(name, tpm string) vm.Config {
		c := stranger(name, "8", mqttIP, "", bootDisk(disk))
		c.SMBIOS, c.TPM = vm.SMBIOS{UUID: machineUUID("mqtt-01")}, tpm
		c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: mqttIP + ":8643"})
		return c
	}
	g := boot(t, machine("tpm", tpm))
	g.awaitLine(fmt.Sprintf(`spore-agent: sealed bundle %d to the TPM`, serial))
	g.off()

	c := machine("tpm-again", tpm)
	c.Reboots = true
	g = boot(t, c)
	requireStored := func() {
		s := g.running()
		require.Equal(t, "ip", s.Matched.By)
		require.Equal(t, []string{"mqtt-broker"}, s.Roles, s.Raw)
		require.Equal(t, serial, s.Bundle.Serial)
		require.Equal(t, "state", s.Bundle.From)
		require.Equal(t, "tpm2", s.Bundle.Sealed)
		require.Empty(t, s.Bundle.Problem)
		requireServes(t, g, mqttIP, "mqtt-01")
	}
	requireStored()
	require.NoError(t, g.CtrlAltDel())
	g.awaitLine(`reboot: Restarting system`)
	requireStored() // Now the stick has nothing.
	serial = requireSent(t, g, serial, data)
	requireServes(t, g, mqttIP, "mqtt-01")
	requireSwitchedOff(t, g, "mqtt-01", mqttIP)
	requireNothingLeft(t, disk, data, "mqtt-01")

	t.Run("another TPM does not open it", func(t *testing.T) {
		sealed := readState(t, disk, stored)
		g := boot(t, machine("tpm-other", t.TempDir()))
		s := g.running()
		require.Empty(t, s.Roles)
		require.Len(t, s.Held, 1, s.Raw)
		require.Zero(t, s.Bundle.Serial)
		require.Contains(t, s.Bundle.Problem, "this machine's TPM does not open it (was it cleared, or the disk moved?)")
		require.Contains(t, s.Bundle.Problem, "spore pki bundle --node mqtt-01")
		g.off()
		require.Equal(t, sealed, readState(t, disk, stored), "it is kept: the disk may go back")
	})
	t.Run("its operator writes the stick anew, and the other TPM seals another bundle", func(t *testing.T) {
		out, err := exec.Command(flashTool(t), "flash", suite.image, disk, "--yes", "--node", "mqtt-01", "--pki", suite.dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "kept the state partition")
		g := boot(t, machine("tpm-repaired", t.TempDir()))
		s := g.await("a broker that serves", func(s vm.Status) bool { return s.Services["mosquitto.service"] == "active" })
		require.Positive(t, s.Bundle.Serial)
		require.Equal(t, "tpm2", s.Bundle.Sealed)
		requireServes(t, g, mqttIP, "mqtt-01")
	})
}

// requireSent has an operator look at the bundle of mqtt-01 and send it a newer one, which the node keeps and runs
// with; it takes no older one. The serial of the newer one is returned.
func requireSent(t *testing.T, g *guest, serial uint64, data []byte) uint64 {
	t.Helper()
	at, err := g.Address("tcp", mqttIP+":8643")
	require.NoError(t, err)
	ask := askerOf(t, "mqtt-01", at, verbsBound)
	out, errs, ok := ask("bundle", "--node", "mqtt-01")
	require.True(t, ok, errs)
	require.Regexp(t, fmt.Sprintf(`^mqtt-01: bundle %d, made \S+, from the state partition, sealed to the TPM; the first certificate ends`, serial), out)
	require.Regexp(t, `mqtt-server +\d{4}-\d\d-\d\d +\d{4}`, out)

	newer := suite.bundle(t, "mqtt-01")
	next := opened(t, newer, "mqtt-01").Serial
	older, file := filepath.Join(t.TempDir(), "older.bundle"), filepath.Join(t.TempDir(), "mqtt-01.bundle")
	require.NoError(t, os.WriteFile(older, data, 0o600))
	require.NoError(t, os.WriteFile(file, newer, 0o600))
	_, errs, ok = ask("bundle", "--node", "mqtt-01", "--send", file, "--dry-run")
	require.True(t, ok, errs)
	require.Contains(t, errs, fmt.Sprintf("mqtt-01: has bundle %d, and would be sent bundle %d; nothing was done", serial, next))
	_, errs, ok = ask("bundle", "--node", "mqtt-01", "--send", file)
	require.True(t, ok, errs)
	require.Regexp(t, fmt.Sprintf(`mqtt-01: runs with bundle %d, made \S+, from the network, sealed to the TPM; the first certificate ends`, next), errs)
	_, errs, ok = ask("bundle", "--node", "mqtt-01", "--send", older)
	require.False(t, ok)
	require.Contains(t, errs, fmt.Sprintf("it has bundle %d, and takes no older one, such as %d", next, serial))
	return next
}

// requireSwitchedOff has an operator switch a machine off, and waits until the power is off.
func requireSwitchedOff(t *testing.T, g *guest, node, ip string) {
	t.Helper()
	at, err := g.Address("tcp", ip+":8643")
	require.NoError(t, err)
	_, errs, ok := askerOf(t, node, at, verbsBound)("shutdown", "--node", node)
	require.True(t, ok, errs)
	require.Contains(t, errs, node+": answers no more, and switches itself off")
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	require.NoError(t, g.Wait(ctx))
	g.awaitLine(`reboot: Power down`)
	g.release()
}

// A bundle that is not for this node, or not as it was signed. The seed chooses which; package bundle's tests have them
// all.
func TestABundleThatIsNotTheNodesOwnIsRefused(t *testing.T) {
	inTurn(t)
	own, other := suite.bundle(t, "edge-01"), suite.bundle(t, "mqtt-01")
	flipped := bytes.Clone(own)
	flipped[len(flipped)/2] ^= 1
	cases := []struct {
		name, want string
		data       []byte
	}{
		{"another node's", `it is for node "mqtt-01", and this is "edge-01"`, other},
		{"another cluster's", "not signed by this cluster", foreignBundle(t)},
		{"one that was cut short", "not signed by this cluster, or was changed or cut short", own[:len(own)-100]},
		{"one with a flipped bit", "not signed by this cluster, or was changed or cut short", flipped},
	}
	tt := cases[rand.New(rand.NewPCG(chance.Seed(t), 8)).IntN(len(cases))]
	t.Log(tt.name)
	c := edge("refused", bootDisk(overlay(t)))
	c.SMBIOS = delivering("edge-01", tt.data)
	g := boot(t, c)
	s := g.running()
	require.Equal(t, []string{"dns-server"}, s.Roles)
	require.Len(t, s.Held, 1, s.Raw)
	require.Equal(t, "mqtt-broker", s.Held[0].Role)
	require.Zero(t, s.Bundle.Serial)
	require.Contains(t, s.Bundle.Problem, "the bundle that the firmware gave was refused")
	require.Contains(t, s.Bundle.Problem, tt.want)
	_, err := newBroker(t).dial(t, g, edgeIP, "edge-01", "operator", nil)
	requireNobodyListens(t, err)
	for _, password := range passwords {
		for _, l := range g.Console.Lines(0) {
			require.NotContains(t, l.Text, password)
		}
	}
	g.off()
	g.requireNoAccess()
}

// foreignBundle is for a node of the same name in a cluster with other keys.
func foreignBundle(t *testing.T) []byte {
	t.Helper()
	p, err := makeKeys("examples/edge", t.TempDir(), nil)
	require.NoError(t, err)
	return p.bundle(t, "edge-01")
}

// The smallest machine that is supported asks for the passphrase of its bundle.
func TestAnEncryptedBundleIsAskedForOnTheConsole(t *testing.T) {
	inTurn(t)
	const passphrase = "correct horse battery staple"
	dir := t.TempDir()
	secret, file := filepath.Join(dir, "passphrase"), filepath.Join(dir, "bundle.age")
	require.NoError(t, os.WriteFile(secret, []byte(passphrase+"\n"), 0o600))
	require.NoError(t, spore("pki", "bundle", "examples/edge", "--dir", suite.dir, "--node", "edge-01", "--encrypt", "--bundle-passphrase-file", secret, "-o", file))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	c := edge("passphrase", bootDisk(overlay(t)))
	c.SMBIOS, c.Memory = delivering("edge-01", data), 512
	c.Watchdog = true
	g := boot(t, c)

	s := g.settled()
	require.Equal(t, []string{"dns-server"}, s.Roles, "who needs no secret does not wait")
	require.Len(t, s.Held, 1, s.Raw)
	require.Contains(t, s.Bundle.Problem, "waiting for the passphrase")
	require.NotNil(t, s.Watchdog, s.Raw)
	require.True(t, s.Watchdog.Held, s.Raw)
	g.nobodyTypes()
	// Somebody else's line may have ended that of the question, and be the one that was just seen.
	g.answer(0, `Passphrase of the secret bundle of edge-01:`, "a wrong one")
	g.awaitLine(`the passphrase was wrong`)
	g.answer(g.mark, `That was wrong\. Passphrase of the secret bundle of edge-01:`, passphrase)
	s = g.await("a status line with a broker", func(s vm.Status) bool { return s.Services["mosquitto.service"] == "active" })
	require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles)
	require.Empty(t, s.Held)
	require.Empty(t, s.Bundle.Problem, s.Raw)
	require.Equal(t, "firmware", s.Bundle.From)
	require.Equal(t, "host", s.Bundle.Sealed)
	requireServes(t, g, edgeIP, "edge-01")
	for _, l := range g.Console.Lines(0) {
		require.NotContains(t, l.Text, passphrase)
	}
}

// answer waits for a question in the console from a mark on, and answers it.
func (g *guest) answer(from int, question, text string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	mark, err := g.Console.AwaitQuestion(ctx, from, regexp.MustCompile(question))
	require.NoError(g.t, err)
	g.mark = max(g.mark, mark)
	// systemd writes the question before it turns the echo off.
	time.Sleep(typistsPause)
	require.NoError(g.t, g.Type(text+"\r"))
}

// signingKeys are those of a folder as an image carries them.
func signingKeys(t *testing.T, p *plant) (out []string) {
	t.Helper()
	keys, err := p.keys.Public().SigningKeys()
	require.NoError(t, err)
	for _, k := range keys {
		out = append(out, base64.StdEncoding.EncodeToString(k))
	}
	return out
}
