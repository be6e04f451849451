//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/espfiles"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/test/chance"
)

// Media: flashing, cutting that off, keeping state, installing.

const (
	// defaultKills is how often flash is killed in a run of the tests.
	defaultKills = 3
	// innerDisk is the serial number of the disk that is installed on.
	innerDisk = "INNER001"
)

// emptyFile is a file that stands for a disk.
func emptyFile(t *testing.T, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, size))
	return name
}

// unwritten is an empty disk to install on. An installation reads all of what it is to hold, twice, and of such a file QEMU
// reads nothing that was never written; for the holes of a raw one the host fills its memory with zeros first.
func unwritten(t *testing.T) vm.Disk {
	t.Helper()
	d := vm.Disk{Path: filepath.Join(t.TempDir(), "inner.qcow2"), Format: "qcow2", Serial: innerDisk, BootIndex: 2}
	require.NoError(t, vm.Blank(t.Context(), d.Path, smallDisk))
	return d
}

// rawOf is what such a disk holds, for tools that read disks.
func rawOf(t *testing.T, d vm.Disk) string {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "inner.img")
	run(t, "qemu-img", "convert", "-f", d.Format, "-O", "raw", d.Path, raw)
	return raw
}

// layoutOf is what flash writes of an image.
func layoutOf(t *testing.T, image string) flash.Layout {
	t.Helper()
	f, err := flash.OpenRead(image)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	l, err := flash.Image(f, f.Size())
	require.NoError(t, err)
	return l
}

// holds tells whether a disk has the content of an image.
func holds(t *testing.T, disk, image string) bool {
	t.Helper()
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	want, have := make([]byte, 4<<20), make([]byte, 4<<20)
	for _, e := range layoutOf(t, image).Extents {
		for at := int64(0); at < e.Size; at += int64(len(want)) {
			n := min(int64(len(want)), e.Size-at)
			_, err := e.Content.ReadAt(want[:n], at)
			require.NoError(t, err)
			_, err = f.ReadAt(have[:n], e.At+at)
			require.NoError(t, err)
			if !bytes.Equal(want[:n], have[:n]) {
				return false
			}
		}
	}
	return true
}

// bootable tells whether firmware finds an ESP on a disk: by the first table, or by the last where that is not sound.
func bootable(t *testing.T, disk string) bool {
	t.Helper()
	f, err := flash.OpenRead(disk)
	require.NoError(t, err)
	defer f.Close()
	table, err := gpt.Read(f, f.Size(), 512)
	if err != nil {
		return false
	}
	for _, p := range table.Partitions {
		if p.Type == gpt.ESP {
			return true
		}
	}
	return false
}

// otherImage is an image of the same layout whose root differs in every MiB.
func otherImage(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "other.img")
	require.NoError(t, vm.Copy(suite.image, name, 0))
	l := layoutOf(t, name)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, e := range l.Extents[1:] {
		for at := e.At + 4096; at+512 < e.At+e.Size; at += 1 << 20 {
			b := make([]byte, 512)
			_, err := f.ReadAt(b, at)
			require.NoError(t, err)
			for i := range b {
				b[i] ^= 0xff
			}
			_, err = f.WriteAt(b, at)
			require.NoError(t, err)
		}
	}
	return name
}

// Package flash's tests cut after every write and lose what was not flushed; here the program itself is killed.
func TestAFlashThatIsKilledLeavesNoStickThatBootsHalf(t *testing.T) {
	inTurn(t)
	kills, seed := int(setting(t, "SPORE_SOAK", defaultKills)), chance.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 9))
	spore, images := flashTool(t), []string{suite.image, otherImage(t)}
	disk := emptyFile(t, 5<<30)
	flashed := func(image string) *exec.Cmd { return exec.Command(spore, "flash", image, disk, "--yes") }
	whole := func(image string) bool { return holds(t, disk, image) }
	out, err := flashed(images[0]).CombinedOutput()
	require.NoError(t, err, "%s", out)
	state := addForeignState(t, disk)
	before, err := vm.HashRange(disk, state.Start, state.Size)
	require.NoError(t, err)
	start := time.Now()
	out, err = flashed(images[1]).CombinedOutput()
	require.NoError(t, err, "%s", out)
	took := time.Since(start)
	require.Contains(t, string(out), "were there already")
	require.True(t, whole(images[1]))

	var old, none, complete int
	for i := range kills {
		image, other := images[i%2], images[1-i%2]
		after := time.Duration(rng.Int64N(int64(took)))
		cmd := flashed(image)
		require.NoError(t, cmd.Start())
		time.Sleep(after)
		require.NoError(t, cmd.Process.Kill())
		err := cmd.Wait()
		var exit *exec.ExitError
		require.True(t, err == nil || errors.As(err, &exit), "%v", err)
		switch {
		case !bootable(t, disk):
			none++
		case whole(image):
			complete++
		default:
			require.True(t, whole(other),
				"killed after %s of %s: it boots, and is neither the old system nor the new", after, took)
			old++
		}
		kept, err := vm.FindPartition(disk, state.Name)
		require.NoError(t, err, "the state is still named")
		require.Equal(t, state.UUID, kept.UUID)
		out, err := flashed(image).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.True(t, whole(image) && bootable(t, disk), "the next run makes it whole")
	}
	now, err := vm.HashRange(disk, state.Start, state.Size)
	require.NoError(t, err)
	require.Equal(t, before, now, "the state's bytes are as they were")
	t.Logf("%d kills within %s left the old system %d times, none %d times, the new one %d times",
		kills, took.Round(time.Millisecond), old, none, complete)
}

// flashedFor is a stick that was flashed for a node, with its bundle.
func flashedFor(t *testing.T, node string) string {
	t.Helper()
	stick := emptyFile(t, smallDisk)
	out, err := exec.Command(flashTool(t), "flash", suite.image, stick, "--yes", "--node", node, "--pki", suite.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "the machine that boots from it becomes "+node)
	run(t, "sgdisk", "-v", stick)
	return stick
}

// keepsItsState flashes a stick again with another build's content.
func keepsItsState(t *testing.T, stick string) {
	t.Helper()
	p, err := vm.FindPartition(stick, "spore-state")
	require.NoError(t, err)
	before, err := vm.HashRange(stick, p.Start, p.Size)
	require.NoError(t, err)
	out, err := exec.Command(flashTool(t), "flash", otherImage(t), stick, "--yes").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "a system of Spore, and state of")
	require.Contains(t, string(out), "kept the state partition "+strings.ToLower(p.UUID))
	after, err := vm.HashRange(stick, p.Start, p.Size)
	require.NoError(t, err)
	require.Equal(t, before, after)
	again, err := vm.FindPartition(stick, "spore-state")
	require.NoError(t, err)
	require.Equal(t, p.Start, again.Start)
	require.Equal(t, p.Size, again.Size)
}

// The image is started from a disc where the suite builds one, else from a stick, installs itself, and starts from the
// disk: once beside the medium, and then without it. The disk is behind a controller whose driver nothing else needs,
// not that of the disc. The order is an answer file of NoCloud's volume besides the firmware's word; the volume brings
// the bundle, too, which the disk takes along.
func TestAnInstalledMachineStartsWithoutTheMedium(t *testing.T) {
	inTurn(t)
	inner := emptyFile(t, smallDisk)
	medium := vm.Disk{Path: overlay(t), Format: "qcow2", USB: true, Serial: "STICK001", BootIndex: 1}
	iso := filepath.Join(filepath.Dir(suite.image), "spore.iso")
	if exists(iso) {
		medium = vm.Disk{Path: iso, CDROM: true, BootIndex: 1}
	}
	b := newBroker(t)
	c := edge("install", medium)
	c.SMBIOS = b.bundle(t, "edge-01")
	volume := documents(t, map[string]string{
		"user-data":          "spore:\n  bundle: " + base64.StdEncoding.EncodeToString(c.SMBIOS.Credentials["spore.bundle"]) + "\n",
		"spore-answers.yaml": "node: edge-01\ndisk: {serial: " + innerDisk + "}\n",
	})
	c.SMBIOS.Credentials = map[string][]byte{"spore.install": []byte(innerDisk)}
	c.Disks = append(c.Disks, vm.Disk{Path: inner, Serial: innerDisk, BootIndex: 2, Bus: "nvme"}, vm.Disk{Path: volume, CDROM: true})
	c.Reboots, c.Dir = true, t.TempDir()
	g := boot(t, c)
	g.awaitLine(`spore-agent: installing on /dev/nvme0n1 .*serial INNER001.*, which holds: nothing`)
	g.awaitLine(`spore-agent: the disk gets the bundle of NoCloud's user-data`)
	g.awaitLine(`spore-agent: installed on /dev/nvme0n1: wrote \d+ MiB of \d+ MiB.*read back and compared`)
	g.awaitLine(`restarting from the disk`)
	// QEMU puts the medium first at each start; the installer's entry counts all the same, for the next one.
	g.awaitLine(`spore stage1: .*booted by "Boot[0-9A-F]{4} Spore on INNER001"`)
	g.off()
	require.Contains(t, run(t, "sgdisk", "-v", inner), "No problems found")
	require.Equal(t, exists(iso), fromESP(t, inner, espfiles.Installed) != "", "the answer file of a volume counts beside a disc")

	// The medium and the volume are gone, and so is what the firmware knew.
	c = edge("installed", vm.Disk{Path: inner, Serial: innerDisk, BootIndex: 1, Bus: "nvme"})
	g = boot(t, c)
	s := g.running()
	require.Equal(t, "medium", s.Bundle.From, s.Raw)
	require.Contains(t, s.BootDisk, innerDisk)
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, "partition", s.State.Kind)
	require.Equal(t, innerDisk, s.State.Disk)
	require.Equal(t, []string{"dns-server", "mqtt-broker"}, s.Roles, s.Raw)
	requireServes(t, g, edgeIP, "edge-01")
}

// A stick with an answer file installs its node, with the bundle, and switches the machine off. Left in the machine, and
// first in the firmware's order, it does not install again.
func TestAStickWithAnAnswerFileInstallsItsNodeOnce(t *testing.T) {
	inTurn(t)
	answerFile := filepath.Join(t.TempDir(), "edge-01.yaml")
	require.NoError(t, os.WriteFile(answerFile, []byte("node: edge-01\ndisk: {serial: "+innerDisk+"}\nencrypt: none\nthen: power-off\n"), 0o600))
	stick, inner := emptyFile(t, smallDisk), unwritten(t)
	out, err := exec.Command(flashTool(t), "flash", suite.image, stick, "--yes", "--answers", answerFile, "--pki", suite.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "it installs itself on the disk "+innerDisk+" (state: keep), and then: power-off")

	c := edge("answers", vm.Disk{Path: stick, USB: true, Serial: "STICK001", BootIndex: 1})
	c.Disks = append(c.Disks, inner)
	g := boot(t, c)
	g.awaitLine(`spore stage1:.*the ESP has an answer file \(not authenticated\)`)
	g.awaitLine(`spore-agent: installing on /dev/vda .*serial ` + innerDisk + `.*, which holds: nothing`)
	g.awaitLine(`spore-agent: installed on /dev/vda: .*read back and compared`)
	g.awaitLine(`spore-agent: switching the machine off`)
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	require.NoError(t, g.Wait(ctx), "it is off")
	g.release()
	written := rawOf(t, inner)
	require.Contains(t, run(t, "sgdisk", "-v", written), "No problems found")
	require.Equal(t, "edge-01", fromESP(t, written, espfiles.Node))
	require.NotEmpty(t, fromESP(t, written, espfiles.Bundle))
	require.NotEmpty(t, fromESP(t, written, espfiles.Installed))
	require.Empty(t, fromESP(t, written, espfiles.Answers), "the disk does not install itself on another one")

	c.Dir = ""
	g = boot(t, c)
	g.awaitLine(`spore-agent: not installed: .*` + innerDisk + `.*the disk has this system already.*Take the medium out`)
}

// fromESP is a file of a disk's ESP, as mtools reads it; empty where there is none.
func fromESP(t *testing.T, disk, name string) string {
	t.Helper()
	out, err := exec.Command("mtype", "-i", espOf(t, disk), "::"+name).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
