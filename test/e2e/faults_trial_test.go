//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/storage/fat"
	"spore/test/faults"
)

// Rows of starts on trial and of the way back: each begins with the staged disk, or pushes with a restart.

func trialRows() []faultRow {
	trial := func(happens, pattern string, want faults.State) faultRow {
		return unit(faults.Trial, happens, want, "./agent/trial", pattern)
	}
	early := 3*anEarlyEnd + aBoot
	return []faultRow{
		{Doing: faults.Trial, Happens: "power cut in stage1, three times", Want: faults.Before, CPU: early, Shares: stagedDisk, Run: trialCut(`spore stage1:`, 3)},
		{Doing: faults.Trial, Happens: "power cut in stage1, twice", Want: faults.New, CPU: early, Shares: stagedDisk, Run: trialCut(`spore stage1:`, 2)},
		{Doing: faults.Trial, Happens: "a bit flipped in the new cluster part", Want: faults.Before, CPU: early, Shares: stagedDisk, Run: trialFlippedPart},
		{Doing: faults.Trial, Happens: "stage1 exits: the partition of the new cluster part is gone", Want: faults.Before, CPU: early, Shares: stagedDisk, Run: trialWithoutPart},
		{Doing: faults.Trial, Happens: "the new UKI on the ESP is torn, so that the loader cannot start it", Want: faults.Before, CPU: early, Shares: stagedDisk, Run: trialTornUKI},
		{Doing: faults.Trial, Happens: "the boot loader on the ESP is torn, so that the firmware cannot start it", Want: faults.New, CPU: aBoot + 10*time.Second, Shares: stagedDisk, Run: trialTornLoader},
		{Doing: faults.Trial, Happens: "four restarts on purpose", Want: faults.New, CPU: 5 * aBoot, Shares: stagedDisk, Soak: true, Run: trialRestarts},
		{Doing: faults.Trial, Happens: "the kernel panics while it settles, three times", Want: faults.Before, CPU: 4 * aBoot, Shares: stagedDisk, Run: trialPanics},
		{Doing: faults.Trial, Happens: "the network comes late", Want: faults.New, CPU: aBoot + 10*time.Second, Shares: stagedDisk, Run: trialWithoutNetwork},
		{Doing: faults.Trial, Happens: "the clock says 2106", Want: faults.New, CPU: aBoot + 5*time.Second, Shares: stagedDisk, Run: trialAt2106},
		{Doing: faults.Trial, Happens: "a bit flipped in the node's record of the push", Want: faults.New, CPU: 2*aBoot + 10*time.Second, Shares: stagedDisk, Run: trialFlippedRecord},
		{Doing: faults.Trial, Happens: "the operator's program is killed when the machine restarts", Want: faults.New, CPU: 2*aBoot + 15*time.Second, Run: operatorLeaves},
		{Doing: faults.WayBack, Happens: "a role's program ends again and again", Want: faults.Before, CPU: 3*aBoot + 20*time.Second, Run: flapsOnTrial},
		{Doing: faults.WayBack, Happens: "power cut when the machine is about to go back", Want: faults.Before, CPU: 4*aBoot + 40*time.Second, Soak: true, Run: cutOnTheWayBack},
		ownTest(faults.Trial, "encrypted state, and the new image fails after the TPM has measured it", faults.Before, "TestEncryptedState", TestEncryptedState),
		ownTest(faults.WayBack, "a role cannot start: its secret is missing", faults.Before, "TestAPushedConfigurationIsTakenAndABadOneComesBackByItself", TestAPushedConfigurationIsTakenAndABadOneComesBackByItself),
		unit(faults.WayBack, "power cut at each write that marks an entry", faults.FileWhole, "./storage/fat", "^TestAfterAPowerCutEachFileIsOldOrNew$/^rename$"),
		trial("a role flaps: each look finds it up, and it was started again", "^TestHowLongATrialLasts$/^(a_role_that_falls_over_every_nine_minutes|an_agent_that_crashes_again_and_again)$", faults.Before),
		trial("roles that fail, are held, stop, or are another node's", "^TestWhatIsUpAndWhatIsNot$", faults.Before),
		trial("roles that come up late, and units that are slow", "^TestRolesThatComeUpLateAreWaitedFor$", faults.New),
		trial("a restart on purpose in each of the three tries", "^TestATryIsGivenBackWhenTheMachineIsRestartedOnPurpose$", faults.New),
	}
}

// onTrial starts the staged disk.
func (l *faultLab) onTrial(t *testing.T, change func(disk string, c *vm.Config)) *subject {
	t.Helper()
	st := l.theStaged(t)
	disk := t.TempDir() + "/disk.img"
	require.NoError(t, vm.Copy(st.disk, disk, 0))
	c := l.machine(t, "trial", bootDisk(disk))
	c.Reboots, c.Vars = true, st.vars
	if change != nil {
		change(disk, &c)
	}
	return l.start(t, c)
}

// wentBack waits for the start of what ran before.
func (s *subject) wentBack(pushed string) faults.Outcome {
	s.t.Helper()
	o := s.whole(true)
	require.Equal(s.t, "NXDOMAIN", s.name(pushed))
	o.After = faults.Before
	return o
}

// tookIt waits until the start is judged good.
func (s *subject) tookIt(pushed string) faults.Outcome {
	s.t.Helper()
	mark := s.mark
	o := s.whole(true)
	require.Equal(s.t, "NOERROR", s.name(pushed))
	s.awaitFrom(mark, `spore-agent: the configuration is good`)
	o.After, o.Took = faults.New, time.Since(s.began)
	return o
}

// awaitFrom is awaitLine from a mark on.
func (s *subject) awaitFrom(mark int, pattern string) {
	s.t.Helper()
	s.mark = mark
	s.awaitLine(pattern)
}

func trialCut(when string, times int) func(*testing.T, *faultLab) faults.Outcome {
	return func(t *testing.T, l *faultLab) faults.Outcome {
		s := l.onTrial(t, nil)
		for range times {
			s.awaitLine(when)
			require.NoError(t, s.Reset())
			s.mark = s.Console.Mark()
		}
		s.began = time.Now()
		if times < 3 {
			return s.end(s.tookIt("staged"))
		}
		return s.end(s.wentBack("staged"))
	}
}

func trialFlippedPart(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(disk string, _ *vm.Config) {
		p, err := vm.FindPartition(disk, "cluster-b")
		require.NoError(t, err)
		require.NoError(t, vm.Flip(disk, p.Start+40))
	})
	return s.end(s.wentBack("staged"))
}

func trialWithoutPart(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(disk string, _ *vm.Config) {
		run(t, "sgdisk", "-u", fmt.Sprint(numberOf(t, disk, "cluster-b"))+":deadbeef-0000-4000-8000-000000000002", disk)
	})
	o := s.wentBack("staged")
	_, seen := s.Console.Find(0, stage1Failed)
	require.True(t, seen)
	return s.end(o)
}

// trialTornUKI leaves half of the new entry, under its name. systemd-boot 257 ends when it cannot load an entry, and
// has no setting by which it starts the machine again; the firmware goes on to the next of its options, which starts it
// once more, until no try is left.
func trialTornUKI(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(disk string, _ *vm.Config) {
		p, err := vm.FindPartition(disk, "esp")
		require.NoError(t, err)
		f, err := os.OpenFile(disk, os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		name, content := countedEntry(t, f, p)
		t.Log(name)
		e, err := fat.Edit(section{sectionOf(f, p), f, p.Start}, p.Size)
		require.NoError(t, err)
		require.NoError(t, e.Remove("/EFI/Linux", name))
		half := content[:len(content)/2]
		require.NoError(t, e.Create("/EFI/Linux", name, int64(len(half)), bytes.NewReader(half), time.Unix(1_800_000_000, 0)))
	})
	for range 3 {
		s.awaitLine(`Error loading .*spore_.*\+`)
	}
	o := s.wentBack("staged")
	s.awaitFrom(0, `the loader counted an entry that it could not start; what runs is not on trial`)
	return s.end(o)
}

// trialTornLoader leaves a boot loader without its first half: the firmware takes the second copy.
func trialTornLoader(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(disk string, _ *vm.Config) {
		withESP(t, disk, func(e *fat.Editor) {
			torn := fileOnESP(t, e, loaderPath)
			clear(torn[:len(torn)/2])
			require.NoError(t, e.Replace(filepath.Dir(loaderPath), filepath.Base(loaderPath), int64(len(torn)), bytes.NewReader(torn),
				time.Unix(1_800_000_000, 0)))
		})
	})
	s.awaitLine(`BdsDxe: failed to load`)
	return s.end(s.tookIt("staged"))
}

// offAndOn turns the machine off and on each time that the loader has given up, which is when the firmware has nothing
// more to start, because no update has given it more. The loader has used up one try each time.
func (s *subject) offAndOn() faults.Outcome {
	s.t.Helper()
	for range 3 {
		s.awaitLine(`Error loading .*spore_.*\+|BdsDxe: failed to start`)
		time.Sleep(2 * time.Second)
		require.NoError(s.t, s.Reset())
		s.mark = s.Console.Mark()
	}
	s.began = time.Now()
	o := s.whole(true)
	o.After = faults.OffAndOn
	return o
}

func trialRestarts(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, nil)
	for range 4 {
		// Before it has settled.
		s.await("a status line of a system on trial", func(st vm.Status) bool { return st.Node == "edge-01" && len(st.Roles) == 2 })
		require.NoError(t, s.CtrlAltDel())
		s.awaitLine(`reboot: Restarting system`)
	}
	s.began = time.Now()
	return s.end(s.tookIt("staged"))
}

func trialPanics(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(_ string, c *vm.Config) { c.SMBIOS.KernelArguments = []string{"spore.console"} })
	for range 3 {
		s.awaitLine(`login: root \(automatic login\)`)
		s.awaitShell()
		require.NoError(t, s.Type("echo c > /proc/sysrq-trigger\r"))
		s.awaitLine(`Kernel panic - not syncing`)
	}
	s.began = time.Now()
	return s.end(s.wentBack("staged"))
}

// trialWithoutNetwork plugs the cable in when systemd has run for a while.
func trialWithoutNetwork(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, nil)
	require.NoError(t, s.Cable(0, false))
	s.found()
	time.Sleep(20 * time.Second)
	require.NoError(t, s.Cable(0, true))
	s.began = time.Now()
	return s.end(s.tookIt("staged"))
}

func trialAt2106(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(_ string, c *vm.Config) { c.RTC = "2106-02-07T06:00:00" })
	return s.end(s.tookIt("staged"))
}

// pushedAway pushes a configuration with a restart, and does not wait for what becomes of it; leave kills the program.
func (s *subject) pushedAway(configs string) (leave func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.push(ctx, configs, s.api, "--reboot")
	}()
	leave = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(leave)
	s.awaitLine(`reboot: Restarting system`)
	s.awaitLine(`spore stage1:`)
	return leave
}

// trialFlippedRecord damages what the node knows of the push. The start is judged all the same; the next push is taken
// by the operator's word alone, and those after it as always.
func trialFlippedRecord(t *testing.T, l *faultLab) faults.Outcome {
	s := l.onTrial(t, func(disk string, _ *vm.Config) {
		record := readState(t, disk, "/lib/spore/update.json")
		require.Contains(t, string(record), "clusterHash")
		p, err := vm.FindPartition(disk, "spore-state")
		require.NoError(t, err)
		require.NoError(t, vm.Flip(disk, p.Start+placeOf(t, disk, p, record)+1))
	})
	mark := s.mark
	o := s.tookIt("staged")
	s.mark = mark // It says so from its first line on.
	s.await("a status line that says so", func(st vm.Status) bool {
		return strings.Contains(st.Raw, "record of what was pushed to it last is damaged") && strings.Contains(st.Raw, "a push with --force")
	})
	s.pki = l.laterKeys(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*pushBound)
	defer cancel()
	text, err := s.push(ctx, withName(t, "after-flip"), s.api)
	require.Error(t, err)
	require.Contains(t, text, "push the newest folder again with --force")
	text, err = s.push(ctx, withName(t, "after-flip"), s.api, "--force")
	require.NoError(t, err)
	require.Contains(t, text, "edge-01 has it in effect")
	require.Equal(t, "NOERROR", s.name("after-flip"))
	s.pushes("after-force")
	o.Note = "the next push asks for --force"
	return s.end(o)
}

func operatorLeaves(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "left-alone", l.fresh(t))
	c.Reboots = true
	s := l.start(t, c)
	s.whole(true)
	leave := s.pushedAway(withName(t, "left-alone"))
	leave()
	s.began = time.Now()
	return s.end(s.tookIt("left-alone"))
}

func flapsOnTrial(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "flaps", l.fresh(t))
	c.Reboots = true
	s := l.start(t, c)
	s.whole(true)
	s.pushedAway(withName(t, "flapping", flapping...))
	s.began = time.Now()
	s.awaitLine(`the configuration is bad, going back to the one before`)
	s.awaitLine(`reboot: Restarting system`)
	return s.end(s.wentBack("flapping"))
}

// cutOnTheWayBack presses the reset button when the agent says that it goes back: it may have marked the entry, or not.
func cutOnTheWayBack(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "way-back", l.fresh(t))
	c.Reboots = true
	s := l.start(t, c)
	s.whole(true)
	s.pushedAway(withName(t, "bad", badConfig...))
	s.awaitLine(`the configuration is bad, going back to the one before`)
	require.NoError(t, s.Reset())
	s.mark = s.Console.Mark()
	s.began = time.Now()
	// It may be tried again first, and go back then.
	st := s.await("a status line of what ran before", func(st vm.Status) bool {
		return st.System == "running" && len(st.Roles) == 2 && st.Times["running"] > 0
	})
	require.Equal(t, "partition", st.State.Kind)
	o := faults.Outcome{After: faults.Before, Took: time.Since(s.began), Lost: s.serves(true)}
	require.Equal(t, "NXDOMAIN", s.name("bad"))
	return s.end(o)
}
