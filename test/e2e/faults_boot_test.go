//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/fat"
	"spore/test/chance"
	"spore/test/faults"
	"spore/test/powercut"
)

// Rows of first boots and of starts of an installed machine.

// firstBootParts are the equal parts of the writes of a first boot, with a cut in each.
var firstBootParts = []string{"first", "second", "last"}

func firstBootRows() []faultRow {
	var rows []faultRow
	for i, part := range firstBootParts {
		rows = append(rows, faultRow{
			Doing: faults.FirstBoot, Happens: "power cut at a write of the " + part + " third", Want: faults.Whole, CPU: aBoot,
			Run: func(t *testing.T, l *faultLab) faults.Outcome {
				rng := rand.New(rand.NewPCG(chance.Seed(t), uint64(i)))
				low, high := l.log.Writes()*i/len(firstBootParts), l.log.Writes()*(i+1)/len(firstBootParts)
				return l.afterCut(t, 1+low+rng.IntN(max(1, high-low)), rng.Uint64())
			},
		})
	}
	return append(rows,
		faultRow{Doing: faults.FirstBoot, Happens: "power cut at a flush, which does not end", Want: faults.Whole, CPU: aBoot, Run: cutAtAFlush},
		faultRow{Doing: faults.FirstBoot, Happens: "the clock says 1970", Want: faults.Whole, CPU: aBoot, Run: firstBootAt("1970-01-01T00:00:00")},
		faultRow{Doing: faults.FirstBoot, Happens: "the clock says 2106", Want: faults.Whole, CPU: aBoot, Run: firstBootAt("2106-02-07T06:00:00")},
		faultRow{Doing: faults.FirstBoot, Happens: "no network until the node is known and its state is made", Want: faults.Whole, CPU: aBoot + 5*time.Second, Run: networkComesLate},
		faultRow{Doing: faults.FirstBoot, Happens: "the disk cannot write where the state's file system begins", Want: faults.NoRoles, CPU: aBoot, Run: stateCannotBeWritten},
		faultRow{Doing: faults.FirstBoot, Happens: "disks and cards in another order, and a disk and a card more", Want: faults.Whole, CPU: aBoot + 2*time.Second, Run: permuted(false)},
		ownTest(faults.FirstBoot, "a state partition of another cluster", faults.NoRoles, "TestSecureBoot", TestSecureBoot),
		ownTest(faults.FirstBoot, "a stick and a disk with the same image", faults.Whole, "TestOfAStickAndADiskWithTheSameImageTheBootedDiskWins", TestOfAStickAndADiskWithTheSameImageTheBootedDiskWins),
		ownTest(faults.FirstBoot, "two disks that fit the state's selector", faults.NoRoles, "TestMetal", TestMetal),
		ownTest(faults.FirstBoot, "the state's disk has somebody's file system, and the clock says 2106", faults.NoRoles, "TestMetal", TestMetal),
		unit(faults.FirstBoot, "power cut while the state partition is made", faults.Whole, "./agent/state", "^TestACutWhileTheNamedDiskIsMade$"),
		unit(faults.FirstBoot, "a start that was cut has left keys in encrypted state", faults.Whole, "./agent/unlock", "^TestKeysThatARunLeftAreRemoved$"),
		unit(faults.FirstBoot, "power cut at each write while a person chooses the machine's node, or takes that back", faults.Asked, "./agent/choice", "^TestAPowerCutLeavesNoChoiceOrAllOfIt$"),
		unit(faults.FirstBoot, "a volume of NoCloud is torn anywhere, or was taken away", faults.NoRoles, "./agent/nocloud", "^TestAVolumeThatIs(TornIsSaid|TakenAwayIsNone)$"),
		unit(faults.FirstBoot, "a volume of NoCloud with bombs, loops, a million entries, files of 1 GiB", faults.NoRoles, "./agent/nocloud", "^TestAHostile(DocumentCostsLittle|DiscCostsLittle|FATCostsLittle)$"),
		ownTest(faults.FirstBoot, "two volumes of NoCloud that disagree, one of them of 1 GiB and with a bomb", faults.NoRoles, "TestAVirtualMachineIsGivenItsNodeAndItsNetworkByAVolume", TestAVirtualMachineIsGivenItsNodeAndItsNetworkByAVolume),
	)
}

// afterCut starts a disk that went through a cut of the first boot, at its nth write.
func (l *faultLab) afterCut(t *testing.T, n int, seed uint64) faults.Outcome {
	cut, err := l.log.Cut(n, seed)
	require.NoError(t, err)
	return l.afterThisCut(t, cut, false)
}

// afterThisCut starts it; kept says that it has to have what was acknowledged.
func (l *faultLab) afterThisCut(t *testing.T, cut powercut.Cut, kept bool) faults.Outcome {
	t.Log(cut)
	path := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(suite.image, path, smallDisk))
	replay(t, l.log, cut, path)
	s := l.start(t, l.machine(t, "cut", bootDisk(path)))
	o := s.whole(kept)
	o.Note = fmt.Sprintf("write %d of %d; of later ones %d pieces kept, %d lost", cut.Write, l.log.Writes(), cut.Kept, cut.Dropped)
	return s.end(o)
}

// cutAtAFlush cuts right after a write that a flush follows: the flush was asked for and did not end.
func cutAtAFlush(t *testing.T, l *faultLab) faults.Outcome {
	var at []int
	writes := 0
	for _, e := range l.log.Entries {
		if e.Flush && writes > 0 && !slices.Contains(at, writes) {
			at = append(at, writes)
		}
		if e.Length > 0 && !e.Discard {
			writes++
		}
	}
	require.NotEmpty(t, at)
	rng := rand.New(rand.NewPCG(chance.Seed(t), 99))
	t.Logf("%d flushes have writes before them", len(at))
	return l.afterCut(t, at[rng.IntN(len(at))], rng.Uint64())
}

func firstBootAt(clock string) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		c := l.machine(t, "clock", bootDisk(overlay(t)))
		c.RTC = clock
		s := l.start(t, c)
		return s.end(s.whole(false))
	}
}

func networkComesLate(t *testing.T, l *faultLab) faults.Outcome {
	s := l.start(t, l.machine(t, "late-network", bootDisk(overlay(t))))
	require.NoError(t, s.Cable(0, false))
	st := s.found()
	require.Equal(t, "edge-01", st.Node)
	require.Equal(t, "partition", st.State.Kind, st.Raw)
	time.Sleep(15 * time.Second)
	require.NoError(t, s.Cable(0, true))
	s.began = time.Now()
	return s.end(s.whole(false))
}

func stateCannotBeWritten(t *testing.T, l *faultLab) faults.Outcome {
	p, err := vm.FindPartition(l.installed, "spore-state")
	require.NoError(t, err)
	d := l.over(t, suite.image)
	d.Errors = []vm.DiskError{{Write: true, At: p.Start + 1024}} // the first superblock
	s := l.start(t, l.machine(t, "no-state", d))
	return s.end(s.noRoles())
}

// noRoles waits for a machine that runs without the roles that need its state, and says why.
func (s *subject) noRoles() faults.Outcome {
	s.t.Helper()
	st := s.settled()
	require.Equal(s.t, "edge-01", st.Node)
	require.Empty(s.t, st.Roles, st.Raw)
	require.NotEmpty(s.t, st.Held, st.Raw)
	require.NotEmpty(s.t, st.State.Warning+st.Problem, st.Raw)
	s.t.Log(st.State.Warning, st.Problem)
	return faults.Outcome{After: faults.NoRoles, Took: time.Since(s.began)}
}

// permuted starts a machine with a foreign disk and a foreign card before its own, on other places of the bus.
func permuted(installed bool) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		d := bootDisk(overlay(t))
		if installed {
			d = l.fresh(t)
		}
		c := l.machine(t, "permuted", d)
		own := c.NICs[0]
		c.NICs = []vm.NIC{{MAC: foreignMAC + "e", Net: "10.79.0.0/24", DHCPStart: "10.79.0.70"}, own}
		c.Disks = []vm.Disk{{Path: blankDisk(t, 64<<20), Serial: "FOREIGN1"}, {Path: blankDisk(t, 64<<20), Serial: "FOREIGN2", Bus: "sata"}, d}
		s := l.start(t, c)
		o := s.whole(installed)
		for _, foreign := range c.Disks[:2] {
			f, err := os.ReadFile(foreign.Path)
			require.NoError(t, err)
			require.Equal(t, bytes.Count(f, []byte{0}), len(f), "the foreign disk is as it was")
		}
		return s.end(o)
	}
}

func startRows() []faultRow {
	return []faultRow{
		{Doing: faults.Start, Happens: "a bit flipped in the root's superblock", Want: faults.Stops, CPU: anEarlyEnd, Run: flippedPart("root-a", at(40))},
		{Doing: faults.Start, Happens: "a bit flipped in the root's hash tree", Want: faults.Stops, CPU: anEarlyEnd, Run: flippedPart("verity-a", at(verityBlock+10))},
		{Doing: faults.Start, Happens: "a bit flipped in a program that each start reads (journald)", Want: faults.Stops, CPU: anEarlyEnd, Run: flippedPart("root-a", of(journaldPath))},
		{Doing: faults.Start, Happens: "a bit flipped in a role's program (mosquitto)", Want: faults.Stops, CPU: aBoot, Run: flippedPart("root-a", of(mosquittoPath))},
		{Doing: faults.Start, Happens: "a bit flipped in the cluster part", Want: faults.Stops, CPU: anEarlyEnd, Run: flippedPart("cluster-a", at(40))},
		{Doing: faults.Start, Happens: "the same in one that a push brought and that had stayed", Want: faults.Before, CPU: 2*aBoot + 3*anEarlyEnd, Shares: stagedDisk, Run: keptFlippedPart},
		{Doing: faults.Start, Happens: "stage1 exits: the UKI names a root that no disk has", Want: faults.Stops, CPU: anEarlyEnd, Run: anotherRoot},
		{Doing: faults.Start, Happens: "a bit flipped in the first partition table", Want: faults.Whole, CPU: aBoot, Run: flippedTable(true)},
		{Doing: faults.Start, Happens: "a bit flipped in the backup of the partition table", Want: faults.Whole, CPU: aBoot, Run: flippedTable(false)},
		{Doing: faults.Start, Happens: "a bit flipped in the superblock of the state", Want: faults.NoRoles, CPU: aBoot, Run: flippedState},
		{Doing: faults.Start, Happens: "the ESP's first sector is torn", Want: faults.Asks, CPU: anEarlyEnd, Run: tornESP},
		{Doing: faults.Start, Happens: "the ESP has half of a newer system, as a torn copy leaves it", Want: faults.Whole, CPU: aBoot + 5*time.Second, Run: halfASystem},
		{Doing: faults.Start, Happens: "the same in a machine whose firmware has not started this disk before", Want: faults.OffAndOn, CPU: 2 * aBoot, Run: halfASystemOnANewBoard},
		{Doing: faults.Start, Happens: "the boot loader on the ESP is torn, and no update ever came", Want: faults.Whole, CPU: aBoot, Run: tornLoader},
		{Doing: faults.Start, Happens: "the firmware keeps an option for a disk that was flashed anew", Want: faults.Whole, CPU: aBoot, Run: deadOption},
		unit(faults.Start, "power cut at each write and each flush while a damaged copy of the boot loader is written once more", faults.Whole, "./agent/bootloader", "^TestUpkeepCanBeCutOffAtAnyWrite$"),
		{Doing: faults.Start, Happens: "the clock says 1970", Want: faults.Whole, CPU: aBoot, Run: startAt("1970-01-01T00:00:00")},
		{Doing: faults.Start, Happens: "the clock says 2106", Want: faults.Whole, CPU: aBoot, Run: startAt("2106-02-07T06:00:00")},
		{Doing: faults.Start, Happens: "disks and cards in another order, and two disks and a card more", Want: faults.Whole, CPU: aBoot + 2*time.Second, Run: permuted(true)},
		{Doing: faults.Start, Happens: "a clone of the disk is in the machine", Want: faults.Whole, CPU: aBoot + 2*time.Second, Run: cloned},
		{Doing: faults.Start, Happens: "the disk cannot read a place of a role's program (mosquitto)", Want: faults.Limps, CPU: aBoot, Run: programCannotBeRead},
		{Doing: faults.Start, Happens: "power cut at the first line of systemd, three times", Want: faults.Whole, CPU: aBoot + 25*time.Second, Run: cutThreeTimes},
		ownTest(faults.Start, "stage1 finds no root: it says what it saw, and starts the machine again", faults.Stops, "TestMetal", TestMetal),
		ownTest(faults.Start, "the clock says 1970, and a time server has another time", faults.Whole, "TestMetal", TestMetal),
		ownTest(faults.Start, "encrypted state, and the TPM was cleared: the recovery key is asked for", faults.Partly, "TestEncryptedState", TestEncryptedState),
		ownTest(faults.FirstBoot, "encrypted state, and a power cut while it is made", faults.Whole, "TestEncryptedState", TestEncryptedState),
	}
}

// keptFlippedPart damages what a push brought after it had stayed, when the boot loader counts its starts no more:
// stage1 does, and has the system before be started.
func keptFlippedPart(t *testing.T, l *faultLab) faults.Outcome {
	var disk string
	s := l.onTrial(t, func(path string, _ *vm.Config) { disk = path })
	s.tookIt("staged")
	s.awaitFrom(0, `when this system cannot be started any more, spore_.* is started instead`)
	s.off()
	p, err := vm.FindPartition(disk, "cluster-b")
	require.NoError(t, err)
	require.NoError(t, vm.Flip(disk, p.Start+40))
	c := l.machine(t, "stayed", bootDisk(disk))
	c.Reboots, c.Vars = true, s.Config.VarsPath()
	s = l.start(t, c)
	s.awaitLine(`start 2 of 3: the one before failed, and after the last the system before is started instead`)
	s.awaitLine(`2 starts of this system failed: unless this one succeeds, the next takes the one before`)
	o := s.wentBack("staged")
	s.awaitFrom(0, `could not be started 3 times, and this one before it was: its partitions are damaged; push again`)
	return s.end(o)
}

// at is an offset, of that of a file's first block.
func at(offset int64) func(*testing.T) int64 { return func(*testing.T) int64 { return offset } }
func of(path string) func(*testing.T) int64 {
	return func(t *testing.T) int64 { return blockOf(t, path) }
}

// flippedPart starts the installed disk with a flipped byte in a partition.
func flippedPart(partition string, offset func(*testing.T) int64) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		disk := l.copied(t)
		p, err := vm.FindPartition(disk, partition)
		require.NoError(t, err)
		require.NoError(t, vm.Flip(disk, p.Start+offset(t)))
		return l.start(t, l.machine(t, "flip", bootDisk(disk))).stops(corrupted)
	}
}

// anotherRoot changes one digit of the root hash on the UKI's command line.
func anotherRoot(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	inESP(t, disk, "roothash=", func(rest []byte) {
		i := bytes.IndexAny(rest, "02468") // the next digit differs in one bit
		rest[i] ^= 1
	})
	return l.start(t, l.machine(t, "another-root", bootDisk(disk))).stops(`spore stage1: .*starting the machine again`)
}

// inESP changes what follows the first place of a text on the ESP of a disk, up to 64 bytes.
func inESP(t *testing.T, disk, text string, change func(rest []byte)) {
	t.Helper()
	p, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	data := make([]byte, p.Size)
	_, err = f.ReadAt(data, p.Start)
	require.NoError(t, err)
	i := bytes.Index(data, []byte(text))
	require.Positive(t, i)
	i += len(text)
	change(data[i : i+64])
	_, err = f.WriteAt(data[i:i+64], p.Start+int64(i))
	require.NoError(t, err)
}

// flippedTable flips a bit of the checksum of one of the two partition tables.
func flippedTable(primary bool) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		disk := l.copied(t)
		info, err := os.Stat(disk)
		require.NoError(t, err)
		header := info.Size() - 512
		if primary {
			header = 512
		}
		require.NoError(t, vm.Flip(disk, header+16))
		s := l.start(t, l.machine(t, "table", bootDisk(disk)))
		return s.end(s.whole(true))
	}
}

// flippedState damages the first superblock of the state. Nobody mends a file system whose damage is not known: the
// machine leaves it as it is.
func flippedState(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	p, err := vm.FindPartition(disk, "spore-state")
	require.NoError(t, err)
	require.NoError(t, vm.Flip(disk, p.Start+1024+0x20)) // s_blocks_per_group
	before, err := vm.HashRange(disk, p.Start, p.Size)
	require.NoError(t, err)
	s := l.start(t, l.machine(t, "state", bootDisk(disk)))
	o := s.end(s.noRoles())
	after, err := vm.HashRange(disk, p.Start, p.Size)
	require.NoError(t, err)
	require.Equal(t, before, after, "the partition is as it was")
	return o
}

// tornESP leaves the ESP without its first sector.
func tornESP(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	p, err := vm.FindPartition(disk, "esp")
	require.NoError(t, err)
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 512), p.Start)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s := l.start(t, l.machine(t, "no-esp", bootDisk(disk)))
	s.awaitLine(`No bootable option|UEFI Interactive Shell|EFI Shell|Start PXE`)
	return s.end(faults.Outcome{After: faults.Asks, Took: time.Since(s.began)})
}

// withHalfASystem is a machine whose ESP has the first half of a UKI, under the name of a newer system on trial.
func (l *faultLab) withHalfASystem(t *testing.T) vm.Config {
	t.Helper()
	disk := l.copied(t)
	uki, err := os.ReadFile(filepath.Join(filepath.Dir(suite.image), "spore.efi"))
	require.NoError(t, err)
	onESPOf(t, disk, "/EFI/Linux/spore_9000000000001_0123456789ab+3.efi", uki[:len(uki)/2])
	c := l.machine(t, "half", bootDisk(disk))
	c.Reboots = true
	return c
}

// halfASystem has the firmware start the loader once more each time that it has given up, by the options that the node
// made at its first boot: no update ever came.
func halfASystem(t *testing.T, l *faultLab) faults.Outcome {
	c := l.withHalfASystem(t)
	c.Vars = filepath.Join(l.dir, firstBootVars)
	s := l.start(t, c)
	for range 3 {
		s.awaitLine(`Error loading .*spore_.*\+`)
	}
	return s.end(s.whole(true))
}

// halfASystemOnANewBoard has firmware that keeps no option for this disk.
func halfASystemOnANewBoard(t *testing.T, l *faultLab) faults.Outcome {
	s := l.start(t, l.withHalfASystem(t))
	return s.end(s.offAndOn())
}

// tornLoader leaves a boot loader without its first half: the firmware takes the second copy, and the node writes the
// first one once more.
func tornLoader(t *testing.T, l *faultLab) faults.Outcome {
	disk := l.copied(t)
	var good []byte
	withESP(t, disk, func(e *fat.Editor) {
		good = fileOnESP(t, e, loaderPath)
		torn := bytes.Clone(good)
		clear(torn[:len(torn)/2])
		require.NoError(t, e.Replace(filepath.Dir(loaderPath), filepath.Base(loaderPath), int64(len(torn)), bytes.NewReader(torn),
			time.Unix(1_800_000_000, 0)))
	})
	c := l.machine(t, "torn-loader", bootDisk(disk))
	c.Vars = filepath.Join(l.dir, firstBootVars)
	s := l.start(t, c)
	s.awaitLine(`BdsDxe: failed to load`)
	s.awaitLine(`BOOTX64.EFI on the ESP is damaged; it is written once more`)
	o := s.end(s.whole(true))
	withESP(t, disk, func(e *fat.Editor) { require.True(t, bytes.Equal(good, fileOnESP(t, e, loaderPath))) })
	return o
}

// deadOption has the firmware keep an option of ours for a partition that no disk has, as for a disk that was flashed
// anew. The firmware of QEMU takes such options away itself when it starts, so it is made on the running machine, from
// that for the second try: the GUID is behind attributes, length, description, and the place of the partition.
func deadOption(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "dead-option", l.fresh(t))
	c.Vars, c.SMBIOS.KernelArguments = filepath.Join(l.dir, firstBootVars), []string{"spore.console"}
	s := l.start(t, c)
	o := s.whole(true)
	s.awaitShell()
	const variable = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
	s.shell("cd /sys/firmware/efi/efivars; cat Boot0003" + variable + " > /tmp/was; " +
		"(head -c 70 /tmp/was; printf ABCDEFGHIJKLMNOP; tail -c +87 /tmp/was) > /tmp/option; cat /tmp/option > Boot00F0" + variable)
	require.Contains(t, strings.Join(s.shell("ls /sys/firmware/efi/efivars/Boot00F0*"), "\n"), "Boot00F0"+variable)
	s.began = time.Now()
	mark := s.mark
	s.shell("systemctl start spore-loader.service")
	left := strings.Join(s.shell("cd /sys/firmware/efi/efivars; ls Boot0*; systemctl is-failed spore-loader.service"), "\n")
	require.NotContains(t, left, "Boot00F0")
	require.Contains(t, left, "Boot0003"+variable)
	require.NotContains(t, left, "failed")
	s.awaitFrom(mark, `removing the boot option Boot00F0 "Spore, second try": no disk of this machine has its EFI partition`)
	o.Took = time.Since(s.began)
	return s.end(o)
}

func startAt(clock string) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		c := l.machine(t, "clock", l.fresh(t))
		c.RTC = clock
		s := l.start(t, c)
		return s.end(s.whole(true))
	}
}

// cutThreeTimes presses the reset button when systemd begins, three times.
func cutThreeTimes(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "cut", l.fresh(t))
	c.Reboots = true
	s := l.start(t, c)
	for range 3 {
		s.awaitLine(`systemd\[1\]: systemd \d+|Welcome to|` + regexp.QuoteMeta(`systemd[1]`))
		require.NoError(t, s.Reset())
		s.mark = s.Console.Mark()
	}
	s.began = time.Now()
	return s.end(s.whole(true))
}

// cloned starts a machine that has the same disk twice.
func cloned(t *testing.T, l *faultLab) faults.Outcome {
	clone := l.copied(t)
	before := hashFile(t, clone)
	c := l.machine(t, "cloned", l.fresh(t))
	c.Disks = []vm.Disk{{Path: clone, Serial: "CLONE001"}, c.Disks[0]}
	s := l.start(t, c)
	o := s.whole(true)
	o = s.end(o)
	require.Equal(t, before, hashFile(t, clone), "the clone is as it was")
	return o
}

func programCannotBeRead(t *testing.T, l *faultLab) faults.Outcome {
	p, err := vm.FindPartition(l.installed, "root-a")
	require.NoError(t, err)
	d := l.fresh(t)
	d.Errors = []vm.DiskError{{At: p.Start + blockOf(t, mosquittoPath)}}
	s := l.start(t, l.machine(t, "unreadable", d))
	s.await("a status line that tells which unit is not up", func(st vm.Status) bool {
		return st.Services["coredns.service"] == "active" && st.Services["mosquitto.service"] != "active" && st.Times["activated"] > 0
	})
	require.Equal(t, "NOERROR", s.name("edge-01"))
	return s.end(faults.Outcome{After: faults.Limps, Took: time.Since(s.began)})
}
