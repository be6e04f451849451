//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/luks"
	"spore/builder/secureboot"
	"spore/builder/vm"
	"spore/pki/authenticode"
	"spore/pki/siglist"
	"spore/test/chance"
	"spore/test/leak"
	"spore/test/powercut"
)

// Scenario: encrypted state under Secure Boot. The first start makes it with the recovery key of the bundle on the
// stick, the next ones open it by the TPM, and everything else wants the recovery key on the console: Secure Boot
// switched off, words from outside, other keys in the firmware, a cleared TPM. Reset leaves nothing that could be
// opened.

const (
	// secretText is what a program keeps in /var.
	secretText = "what nobody reads who finds this disk"
	// spoiled is where a running machine puts an image that is to be tried at the next start.
	spoiled = "/tmp/esp/EFI/Linux/spore_9000000000001_0123456789ab+3.efi"
)

// requireProcessorsAES makes sure that the volume is encrypted with the processor's AES instructions: the kernel keeps
// the implementation that it had when the volume was opened, and the one without them is ten times slower.
func requireProcessorsAES(t *testing.T, g *guest) {
	t.Helper()
	var driver, used string
	for _, l := range g.shell("cat /proc/crypto") {
		name, value, _ := strings.Cut(l, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "driver":
			driver = value
		case "refcnt":
			if strings.HasPrefix(driver, "xts") && value != "1" {
				used += driver + " "
			}
		}
	}
	require.Regexp(t, `^xts-aes-(aesni|vaes)`, used, "of the drivers of XTS, this one is in use")
}

// encryption is what the status line says of encrypted state.
type encryption struct {
	Opened, Next, Policy string
}

func encryptionOf(t *testing.T, s vm.Status) encryption {
	t.Helper()
	var out struct {
		State struct {
			Encryption *encryption `json:"encryption"`
		} `json:"state"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.Raw), &out))
	require.NotNil(t, out.State.Encryption, s.Raw)
	return *out.State.Encryption
}

// fullPolicy is what the TPM wants to see.
const fullPolicy = "PCR 7, PCR 12, signed PCR 11"

// onESPOf writes a file to the ESP of a disk that no machine uses.
func onESPOf(t *testing.T, disk, name string, data []byte) {
	t.Helper()
	file, esp := filepath.Join(t.TempDir(), "file"), espOf(t, disk)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	for at := 1; at < len(name); at++ {
		if name[at] == '/' {
			_ = exec.Command("mmd", "-D", "s", "-i", esp, "::"+name[:at]).Run() // It may be there; mcopy says when it is not.
		}
	}
	run(t, "mcopy", "-o", "-i", esp, file, "::"+name)
}

func TestEncryptedState(t *testing.T) {
	inTurn(t)
	// The console is in the signed image: from outside nobody gets it, as this test shows.
	signed := buildSigned(t, addition{lines: "\nstate: {encrypt: tpm2}\n", words: []string{"spore.console"}, revoked: []string{suite.image}})
	data := suite.bundle(t, "edge-01")
	image := signed.disk
	recovery := opened(t, data, "edge-01").Secrets["state-recovery-key"]
	require.Len(t, recovery, 71)
	disk, tpm := imageWithBundle(t, image, data), t.TempDir()
	onESPOf(t, disk, "/spore/node", []byte("edge-01")) // As spore flash --node makes a stick.
	start := filepath.Join(t.TempDir(), "start.img")
	require.NoError(t, vm.Copy(disk, start, 0))
	machine := func(name, disk, tpm, vars string) vm.Config {
		c := edge(name, bootDisk(disk))
		c.TPM, c.Reboots, c.Firmware, c.Vars, c.Dir = tpm, true, vm.SecureBoot, vars, t.TempDir()
		c.SMBIOS = vm.SMBIOS{UUID: machineUUID("edge-01")}
		c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
		return c
	}
	serves := func(g *guest, s vm.Status) {
		require.Equal(t, "partition", s.State.Kind, s.Raw)
		require.Equal(t, "/dev/mapper/spore-state", s.State.Device)
		require.Empty(t, s.State.Warning, s.Raw)
		require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles, s.Raw)
		require.Equal(t, "host", s.Bundle.Sealed, "behind the lock of the state: %s", s.Raw)
		requireServes(t, g, edgeIP, "edge-01")
	}

	c := machine("encrypted", disk, tpm, "")
	c.Disks[0].WriteLog = filepath.Join(t.TempDir(), "writes.log")
	g := boot(t, c)
	g.awaitLine(`Custom Secure Boot keys successfully enrolled`)
	g.awaitLine(`stage1: .*the image has a signature of PCR 11`)
	// What power cuts of this start leave in the firmware: its dbx changes later, and not before the TPM has a slot for
	// that.
	early := filepath.Join(t.TempDir(), "early.fd")
	require.NoError(t, vm.Copy(c.VarsPath(), early, 0))
	began := g.mark
	s := g.running()
	settled := g.mark
	g.mark = began
	g.awaitLine(`the firmware has taken 1 revoked programs into its dbx`)
	g.mark = max(g.mark, settled)
	require.Equal(t, encryption{"recovery-key", "tpm2", fullPolicy}, encryptionOf(t, s), s.Raw)
	require.Equal(t, "medium", s.Bundle.From)
	serves(g, s)
	g.awaitShell()
	g.shell("echo '" + secretText + "' > /var/lib/spore/marker; sync")

	require.NoError(t, g.CtrlAltDel())
	g.awaitLine(`reboot: Restarting system`)
	s = g.running()
	require.Equal(t, encryption{"tpm2", "tpm2", fullPolicy}, encryptionOf(t, s), "nobody was there, and Spore has changed dbx")
	require.Equal(t, "state", s.Bundle.From)
	serves(g, s)
	g.awaitShell()
	require.Equal(t, secretText, strings.Join(g.shell("cat /var/lib/spore/marker"), "\n"))
	requireProcessorsAES(t, g)
	t.Run("root of the running node does not have the TPM open it again", func(t *testing.T) {
		out := strings.Join(g.shell("timeout 20 systemd-cryptenroll --unlock-tpm2-device=auto --recovery-key /dev/disk/by-partlabel/spore-state </dev/null && echo IT''OPENED"), "\n")
		require.NotContains(t, out, "ITOPENED")
		require.Contains(t, out, "TPM2")
	})
	g.off()
	enrolled := c.VarsPath()
	t.Run("the firmware has the revoked image in its dbx", func(t *testing.T) {
		fd, err := os.ReadFile(enrolled)
		require.NoError(t, err)
		vars, err := secureboot.StoredVariables(fd)
		require.NoError(t, err)
		i := slices.IndexFunc(vars, func(v secureboot.Stored) bool { return v.Name == "dbx" })
		require.GreaterOrEqual(t, i, 0)
		hashes, err := siglist.Hashes(vars[i].Data)
		require.NoError(t, err)
		require.Len(t, hashes, 1)
	})
	t.Run("and starts it no more, although the key of the machine has signed it", func(t *testing.T) {
		c := machine("encrypted-revoked", signed.withRevoked(t), "", enrolled)
		requireRefusal(t, boot(t, c), `(?i)(access denied|security violation)`)
	})
	t.Run("nothing of it can be read on the disk", func(t *testing.T) { requireUnreadable(t, disk, data, recovery) })

	log := readLog(t, c.Disks[0].WriteLog)
	t.Run("after a power cut in the first start the next one is whole", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(chance.Seed(t), 11))
		first, last := stateWrites(t, log, disk)
		// In the first quarter of the writes: what comes later is of the next start.
		cut, err := log.Cut(first+rng.IntN(max(1, (last-first)/4)), rng.Uint64())
		require.NoError(t, err)
		t.Logf("writes %d to %d are the state's: %s", first, last, cut)
		path := filepath.Join(t.TempDir(), "cut.img")
		require.NoError(t, vm.Copy(start, path, 0))
		replay(t, log, cut, path)
		g := boot(t, machine("encrypted-cut", path, tpm, early))
		s := g.running()
		t.Logf("it was opened by %+v, the bundle came from %s", encryptionOf(t, s), s.Bundle.From)
		require.Equal(t, "tpm2", encryptionOf(t, s).Next)
		serves(g, s)
		g.off()
		require.NoError(t, os.Remove(path))
	})

	t.Run("with Secure Boot off nothing opens it, and words from outside give no shell on it", func(t *testing.T) {
		c := machine("encrypted-off", disk, tpm, switchedOff(t, enrolled))
		c.SMBIOS.KernelArguments = []string{"spore.console"}
		g := boot(t, c)
		g.awaitLine(`TPM does not open the state: Secure Boot is off`)
		g.awaitLine(`waiting for somebody who types the recovery key`)
		g.off()
	})

	// Somebody lays a file where systemd's stub takes it for the system, and then changes the firmware's keys.
	vars := enrolled
	t.Run("what lies beside the image, and other keys in the firmware, want the recovery key", func(t *testing.T) {
		onESPOf(t, disk, "/loader/credentials/tmpfiles.extra.cred", []byte("f /var/lib/spore/mine - - - - x\n"))
		onESPOf(t, disk, "/dbx.auth", foreignDBX(t, signed.keys))
		onESPOf(t, disk, "/spoiled.efi", measured(t, signed))
		c := machine("encrypted-foreign", disk, tpm, vars)
		g := boot(t, c)
		g.awaitLine(`something from outside of the image was measured \(PCR 12\)`)
		g.answer(0, `Recovery key of the state of edge-01:`, recovery)
		require.Equal(t, encryption{"recovery-key", "tpm2", fullPolicy}, encryptionOf(t, g.running()))
		g.awaitShell()
		g.shell("mkdir -p /tmp/esp; mount /dev/disk/by-partlabel/esp /tmp/esp; rm /tmp/esp/loader/credentials/tmpfiles.extra.cred; cp /tmp/esp/dbx.auth /var/lib/spore/; mv /tmp/esp/spoiled.efi " + spoiled + "; umount /tmp/esp; sync")

		// A new image that measures and then fails is tried three times in one start, and leaves PCR 11 as nobody signed it.
		// The system before restarts once, and its TPM opens the state: nobody is asked for the recovery key.
		require.NoError(t, g.CtrlAltDel())
		g.awaitLine(`reboot: Restarting system`)
		restarted := g.mark
		g.awaitLine(`another image was tried before this one in the same start`)
		g.awaitLine(`reboot: Restarting system`)
		// It is that of the first restart, with the dbx that Spore has changed: a start by the TPM leaves one for the next.
		s := g.running()
		require.Equal(t, encryption{"tpm2", "tpm2", fullPolicy}, encryptionOf(t, s), "the slot was left as it was")
		require.Equal(t, "state", s.Bundle.From)
		require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles, s.Raw)
		for _, l := range g.Console.Lines(restarted) {
			require.NotContains(t, l.Text, "waiting for somebody who types")
		}
		g.awaitShell()
		// NV, boot services, run time, authenticated by time, append (UEFI 2.10, section 8.2.1).
		g.shell(`chattr -i /sys/firmware/efi/efivars/dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f; (printf '\147\000\000\000'; cat /var/lib/spore/dbx.auth) > /tmp/write; cat /tmp/write > /sys/firmware/efi/efivars/dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f; sync`)

		require.NoError(t, g.CtrlAltDel())
		g.awaitLine(`reboot: Restarting system`)
		g.awaitLine(`the firmware's keys for Secure Boot are others`)
		g.answer(g.mark, `Recovery key of the state of edge-01:`, recovery)
		require.Equal(t, encryption{"recovery-key", "tpm2", fullPolicy}, encryptionOf(t, g.running()), "it is asked for once")
		g.off()
		vars = c.VarsPath()
	})

	// The same as a machine whose TPM was cleared, or that the disk was moved to.
	g = boot(t, machine("encrypted-cleared", disk, t.TempDir(), vars))
	g.awaitLine(`this machine's TPM does not open the state: was it cleared`)
	g.answer(0, `Recovery key of the state of edge-01:`, "cbdefghi-of-another-node")
	g.awaitLine(`what was typed does not open the state; nothing was changed`)
	g.answer(g.mark, `That does not open it\. Recovery key of the state of edge-01:`, recovery)
	s = g.running()
	require.Equal(t, encryption{"recovery-key", "tpm2", fullPolicy}, encryptionOf(t, s), "and the new TPM has a slot")
	require.Equal(t, "state", s.Bundle.From)
	serves(g, s)
	g.awaitShell()
	require.Equal(t, secretText, strings.Join(g.shell("cat /var/lib/spore/marker"), "\n"))
	for _, l := range g.Console.Lines(0) {
		require.NotContains(t, l.Text, recovery)
	}
	t.Run("reset", func(t *testing.T) {
		part, err := vm.FindPartition(disk, "spore-state")
		require.NoError(t, err)
		require.Contains(t, strings.Join(g.shell("spore-agent reset --disk OTHER"), "\n"), "nothing was changed")
		require.Contains(t, strings.Join(g.shell("spore-agent reset --disk DISK0001"), "\n"), "is in use; nothing was changed")
		at, err := g.Address("tcp", apiPort)
		require.NoError(t, err)
		_, errs, ok := asker(t, at, verbsBound)("reset", "edge-01", "--confirm", "DISK0001")
		require.True(t, ok, errs)
		require.Contains(t, errs, "edge-01: deleted all state on the boot disk")
		g.awaitLine(`reboot: Restarting system`)
		s := g.settled()
		require.Equal(t, "tmpfs", s.State.Kind, s.Raw)
		require.True(t, s.State.Refused)
		require.Contains(t, s.State.Warning, "the recovery key is in this node's bundle: none came with the machine")
		g.off()
		f, err := os.Open(disk)
		require.NoError(t, err)
		defer f.Close()
		_, err = luks.Read(io.NewSectionReader(f, part.Start, part.Size))
		require.ErrorIs(t, err, luks.ErrNone)
		keys := make([]byte, 16<<20)
		_, err = f.ReadAt(keys, part.Start)
		require.NoError(t, err)
		require.True(t, bytes.Equal(make([]byte, len(keys)), keys), "both headers and all key slots are gone")
		_, err = vm.FindPartition(disk, "spore-state")
		require.ErrorContains(t, err, "has 0 partitions named spore-state")
	})
}

// requireUnreadable makes sure that the disk has nothing of what is in /var that could be read, and that its volume is
// what it should be.
func requireUnreadable(t *testing.T, disk string, data []byte, recovery string) {
	t.Helper()
	part, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	header, err := luks.Read(io.NewSectionReader(f, part.Start, part.Size))
	require.NoError(t, err)
	require.Equal(t, []int{0}, header.Plain(), "that of the recovery key")
	require.Len(t, header.Tokens, 1)
	s := leak.New()
	require.NoError(t, s.Add("the marker", secretText))
	require.NoError(t, s.Add("the recovery key", recovery))
	// Both are in state.json, which every unencrypted state partition begins with.
	require.NoError(t, s.Add("the binding", `{"cluster":"`+suite.cluster.ID+`","node":"edge-01"`))
	for name, value := range opened(t, data, "edge-01").Secrets {
		require.NoError(t, s.Add(name, value))
	}
	for _, name := range []string{"esp", "spore-state"} {
		p, err := vm.FindPartition(disk, name)
		require.NoError(t, err)
		found, err := s.Search(io.NewSectionReader(f, p.Start, p.Size))
		require.NoError(t, err)
		require.Empty(t, found, "in %s", name)
	}
}

// withRevoked is a disk with the image, on which the kernel of the suite's image is in the place of its own: revoked,
// and signed with the same key.
func (i signedImage) withRevoked(t *testing.T) string {
	t.Helper()
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return data
	}
	signer, err := secureboot.NewSigner(read(filepath.Join(i.keys, "db.key")), read(filepath.Join(i.keys, "db.crt")))
	require.NoError(t, err)
	uki, err := signer.SignPE(read(filepath.Join(filepath.Dir(suite.image), "spore.efi")))
	require.NoError(t, err)
	require.NoError(t, authenticode.CheckSigner(uki, signer.Certificate))
	disk := copyOf(t, i.disk)
	name := strings.TrimPrefix(strings.TrimSpace(run(t, "mdir", "-b", "-i", espOf(t, disk), "::EFI/Linux")), "::")
	require.Regexp(t, `^/EFI/Linux/spore_[^/\n]+\.efi$`, name)
	onESPOf(t, disk, name, uki)
	return disk
}

// foreignDBX is a write of dbx that a key of the machine signs and that Spore has not brought.
func foreignDBX(t *testing.T, keys string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(keys, "KEK.key"))
	require.NoError(t, err)
	key, err := secureboot.ParseKey(text)
	require.NoError(t, err)
	text, err = os.ReadFile(filepath.Join(keys, "KEK.crt"))
	require.NoError(t, err)
	certificate, err := secureboot.ParseCertificate(text)
	require.NoError(t, err)
	v, err := (&secureboot.Signer{Key: key, Certificate: certificate}).Revoke([]authenticode.Hash{{1}}, time.Now())
	require.NoError(t, err)
	return v.Auth
}

// stateWrites finds the first and the last write to the state partition, counted from 1.
func stateWrites(t *testing.T, log *powercut.Log, disk string) (first, last int) {
	t.Helper()
	part, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	n := 0
	for _, e := range log.Entries {
		if e.Length == 0 || e.Discard {
			continue
		}
		n++
		if e.Offset >= part.Start && e.Offset < part.Start+part.Size {
			if first == 0 {
				first = n
			}
			last = n
		}
	}
	require.Positive(t, first)
	return first, last
}
