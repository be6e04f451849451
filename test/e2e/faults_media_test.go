//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/fat"
	"spore/storage/flash"
	"spore/storage/gpt"
	"spore/test/chance"
	"spore/test/faults"
)

// Rows of media, installations, bundles and certificates; most of them are tests of before.

func installationRows() []faultRow {
	disk := func(happens, pattern string, want faults.State) faultRow {
		return unit(faults.Installation, happens, want, "./storage/flash", pattern)
	}
	return []faultRow{
		disk("power cut at each write and each flush, over a system with state, data of somebody, an empty disk", "^TestWhereverItIsCutOffTheDiskIsWholeOrDoesNotBoot$", faults.Flashed),
		disk("the disk returns an error at each write and each flush", "^TestAnErrorOfTheDiskEndsTheRun$", faults.Flashed),
		disk("a worn disk keeps something else than what is written", "^TestAMediumThatDoesNotKeepWhatIsWrittenIsFoundOut$", faults.Flashed),
		disk("the person interrupts it", "^TestACancelledRunLeavesADiskThatDoesNotBoot$", faults.Flashed),
		disk("the disk has lost its partition table", "^TestASoundDiskThatLostItsTableIsCompletedWithoutItsContent$", faults.Flashed),
		unit(faults.Installation, "the named disk is another one, is there twice, or has state of another node", faults.NoRoles, "./agent/install", "^TestADiskThatIsNotMeantIsNotWritten$"),
		unit(faults.Installation, "the transfer from the server breaks, the server is gone for a while, or sends wrong blocks", faults.Whole, "./agent/stage1/netroot", "^Test(ATransferThatBreaksGoesOnWhereItWas|AServerThatIsGoneForAWhileIsWaitedFor|ABlockThatCameWrongOnceIsAskedForAgain|NothingButTheImageOfThisKernelIsAccepted)$"),
		ownTest(faults.Installation, "the program that flashes is killed", faults.Flashed, "TestAFlashThatIsKilledLeavesNoStickThatBootsHalf", TestAFlashThatIsKilledLeavesNoStickThatBootsHalf),
		ownTest(faults.Installation, "the medium stays in the machine, and the firmware starts it again", faults.Whole, "TestAnInstalledMachineStartsWithoutTheMedium", TestAnInstalledMachineStartsWithoutTheMedium),
		{Doing: faults.Installation, Happens: "power cut in the middle of it", Want: faults.Whole, CPU: 4 * aBoot, Run: cutInAnInstallation},
	}
}

func deliveryRows() []faultRow {
	return []faultRow{
		ownTest(faults.Delivery, "power cut before and after each write that removes it from the medium", faults.Sealed, "TestABundleOnTheStickIsSealedAndThenRemoved", TestABundleOnTheStickIsSealedAndThenRemoved),
		ownTest(faults.Delivery, "power cut as soon as it is sealed to the TPM", faults.Sealed, "TestABundleIsSealedToTheTPM", TestABundleIsSealedToTheTPM),
		ownTest(faults.Delivery, "another TPM, or one that was cleared", faults.Partly, "TestABundleIsSealedToTheTPM", TestABundleIsSealedToTheTPM),
		ownTest(faults.Delivery, "a bundle with a flipped bit, cut short, of another node, or of another cluster", faults.Partly, "TestABundleThatIsNotTheNodesOwnIsRefused", TestABundleThatIsNotTheNodesOwnIsRefused),
		ownTest(faults.Delivery, "nobody types its passphrase, or a wrong one", faults.Partly, "TestAnEncryptedBundleIsAskedForOnTheConsole", TestAnEncryptedBundleIsAskedForOnTheConsole),
		unit(faults.Delivery, "power cut at each step between the medium, the seal and the removal", faults.Sealed, "./agent/delivery", "^TestACutAtAnyPointLosesNothingAndLeavesNothing$"),
		unit(faults.Delivery, "power cut at each step of the removal", faults.Sealed, "./agent/medium", "^TestARemovalThatIsCutAnywhereIsFinishedLater$"),
		unit(faults.Delivery, "a write that was cut has left a file beside the sealed bundle", faults.Sealed, "./agent/sealed", "^TestWhatAWriteThatWasCutLeftIsRemoved$"),
		unit(faults.Delivery, "the medium cannot be written", faults.Sealed, "./agent/medium", "^TestAMediumThatCannotBeMountedIsSaid$"),
		{Doing: faults.Delivery, Happens: "a bit flipped in the sealed bundle, and the medium has none any more", Want: faults.Partly, CPU: aBoot, Run: flippedBundle},
	}
}

func renewalRows() []faultRow {
	return []faultRow{
		ownTest(faults.Renewal, "the machine was off for longer than its certificates last", faults.Issued, "TestACertificateThatRanOutIsMadeAgainAtBoot", TestACertificateThatRanOutIsMadeAgainAtBoot),
		unit(faults.Renewal, "a wrong clock has made certificates of another time", faults.Issued, "./pki/reissue", "^TestWhatAWrongClockMadeIsNotUsed$"),
		unit(faults.Renewal, "power cut while a program is given its new files", faults.Issued, "./agent/config/live", "^TestWhatWasCutOffIsMended$"),
		unit(faults.Renewal, "files of it are cut, empty, or of another key", faults.Issued, "./pki/reissue", "^TestWhatIsBrokenOrMissingIsMadeOrSaid$"),
		unit(faults.Renewal, "the master that is asked is gone: the next one is", faults.Issued, "./agent/renewal", "^TestTheNextMasterIsAsked$"),
		unit(faults.Renewal, "the master answers with wrong certificates", faults.Issued, "./agent/renewal", "^TestWhatAMasterAnswersIsNotBelieved$"),
		unit(faults.Renewal, "a program does not come up with its new certificate, or another node is down", faults.Issued, "./agent/renewal", "^Test(OneThatFailsDoesNotKeepTheOthers|NobodyIsRestartedWhileAnotherIsDown)$"),
	}
}

// stage1Failed is how stage1 ends when it exits.
var stage1Failed = regexp.MustCompile(`spore stage1: .*FAILED: `)

// numberOf is the number of a partition in its table.
func numberOf(t *testing.T, disk, name string) int {
	t.Helper()
	f, err := flash.OpenRead(disk)
	require.NoError(t, err)
	defer f.Close()
	table, err := gpt.Read(f, f.Size(), 512)
	require.NoError(t, err)
	for _, p := range table.Partitions {
		if p.Name == name {
			return p.Number
		}
	}
	require.Fail(t, "no partition "+name)
	return 0
}

func sectionOf(f *os.File, p vm.Partition) *io.SectionReader {
	return io.NewSectionReader(f, p.Start, p.Size)
}

// countedEntry is the entry of an ESP whose starts are counted, with its content.
func countedEntry(t *testing.T, f *os.File, p vm.Partition) (name string, content []byte) {
	t.Helper()
	fsys, err := fat.Open(sectionOf(f, p), p.Size)
	require.NoError(t, err)
	list, err := fsys.List("/EFI/Linux")
	require.NoError(t, err)
	for _, e := range list {
		if !strings.Contains(e.Name, "+") {
			continue
		}
		r, err := fsys.Open(e)
		require.NoError(t, err)
		content, err = io.ReadAll(r)
		require.NoError(t, err)
		return e.Name, content
	}
	require.Fail(t, "no entry is counted")
	return "", nil
}

// flippedBundle flips a bit of the copy that the machine sealed for itself, and starts it without another one.
func flippedBundle(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	sealed := readState(t, disk, stored)
	require.Greater(t, len(sealed), 512)
	p, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	require.NoError(t, vm.Flip(disk, p.Start+placeOf(t, disk, p, sealed[:512])+300))
	c := l.machine(t, "flipped-bundle", bootDisk(disk))
	c.SMBIOS.Credentials = nil
	s := l.start(t, c)
	st := s.settled()
	require.Equal(t, []string{"dns-server"}, st.Roles, st.Raw)
	require.Len(t, st.Held, 1, st.Raw)
	require.Zero(t, st.Bundle.Serial)
	require.Contains(t, st.Bundle.Problem, "spore pki bundle --node edge-01")
	return s.end(faults.Outcome{After: faults.Partly, Took: time.Since(s.began)})
}

// placeOf is the offset of some bytes in a partition.
func placeOf(t *testing.T, disk string, p vm.Partition, want []byte) int64 {
	t.Helper()
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	const step = 64 << 20
	buf := make([]byte, step+len(want))
	for at := int64(0); at < p.Size; at += step {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), p.Size-at)], p.Start+at)
		if err != io.EOF {
			require.NoError(t, err)
		}
		if i := bytes.Index(buf[:n], want); i >= 0 {
			return at + int64(i)
		}
	}
	require.Fail(t, "the partition does not have it")
	return 0
}

// cutInAnInstallation installs on an empty disk, cuts that, and starts the medium again.
func cutInAnInstallation(t *testing.T, l *faultLab) faults.Outcome {
	machine := func(name, disk, log string) vm.Config {
		medium := vm.Disk{Path: overlay(t), Format: "qcow2", USB: true, Serial: "STICK001", BootIndex: 1}
		c := l.machine(t, name, medium)
		c.SMBIOS.Credentials = map[string][]byte{"spore.install": []byte(innerDisk), "spore.bundle": c.SMBIOS.Credentials["spore.bundle"]}
		c.Disks = append(c.Disks, vm.Disk{Path: disk, Serial: innerDisk, BootIndex: 2, WriteLog: log})
		c.Reboots = true
		return c
	}
	log := t.TempDir() + "/writes.log"
	s := l.start(t, machine("install", emptyFile(t, smallDisk), log))
	s.awaitLine(`spore-agent: installed on /dev/vda: `)
	s.off()

	writes := readLog(t, log)
	rng := rand.New(rand.NewPCG(chance.Seed(t), 31))
	cut, err := writes.Cut(1+rng.IntN(max(1, writes.Writes()*9/10)), rng.Uint64())
	require.NoError(t, err)
	t.Log(cut)
	disk := emptyFile(t, smallDisk)
	replay(t, writes, cut, disk)
	require.False(t, bootable(t, disk), "nothing starts from a disk that is half written")
	s = l.start(t, machine("install-again", disk, ""))
	s.awaitLine(`spore-agent: installed on /dev/vda: `)
	s.awaitLine(`spore stage1: .*booted by "Boot[0-9A-F]{4} Spore on INNER001"`)
	o := s.whole(false)
	return s.end(o)
}
