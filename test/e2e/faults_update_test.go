//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/chance"
	"spore/test/faults"
	"spore/test/powercut"
)

// Rows of an update of the root or the kernel, of its trial, and of the way back from it.

func updateRows() []faultRow {
	stage := func(happens, pattern string, want faults.State) faultRow {
		return unit(faults.Update, happens, want, "./agent/slot", pattern)
	}
	const (
		cuts    = "^TestAPowerCutAtAnyPointOfAnUpdateOfTheRoot$/^"
		refused = "^TestWhatIsRefusedOfARootIsNotWritten$/^"
		trial   = "^TestHowLongATrialLasts$/^"
	)
	return []faultRow{
		stage("power cut at each write and each flush", cuts+"with_(another_configuration|the_same)$", faults.Either),
		stage("the same where a configuration is staged", cuts+"over_a_staged_configuration$", faults.Either),
		stage("the same where another root is staged", cuts+"over_another_staged_root$", faults.Either),
		stage("the same where the free slot has the root already", cuts+"where_the_root_is_there_already$", faults.Either),
		stage("the same where only the backup of the partition table is sound", cuts+"where_a_cut_left", faults.Either),
		stage("the operator is killed after each message, and the node restarts: the next push goes on", "^TestABrokenTransferGoesOnWhereItStopped$", faults.New),
		stage("a message is cut in the middle: the next one goes on", "^TestAMessageThatIsCutKeepsWhatCame$", faults.New),
		stage("the disk keeps something else than what is written", "^TestADiskThatKeepsAnotherRootIsFoundOut$", faults.Before),
		stage("pieces come wrong: flipped, longer, shorter, or of something else", "^TestAnObjectThatWasChangedOnTheWayIsAskedForAgain$", faults.Before),
		stage("bits flipped in the root that runs, or in its index: what it cannot give is sent", "^TestPiecesThatTheMachineCannotGiveAreSent$", faults.New),
		stage("the disk cannot read a place of the root that runs: what it cannot give is sent", "^TestAPieceThatCannotBeReadIsSent$", faults.New),
		stage("the state has no room for what comes", "^TestAPieceThatCouldNotBeWrittenIsNotSaidToBeThere$", faults.Before),
		stage("the UKI loses a bit before it is on the ESP", "^TestAUKIThatLostABitIsNeverOnTheESP$", faults.Before),
		stage("the root that lies in the free slot was damaged since", "^TestARootThatIsThereAlreadyIsNotSentAgain$/^but_it_was_damaged_since$", faults.New),
		stage("what the node keeps of a broken transfer is flipped, empty, or something else", "^TestWorkingFilesMayBeAnything$", faults.New),
		stage("two updates at once: the older one is refused", "^TestTwoUpdatesAtOnce$", faults.New),
		stage("no clock of a time server (1970, 2106), and the node fetches it, or fetches one that is stale", refused+"fetched_", faults.Refused),
		stage("no clock of a time server (1970, 2106), and an operator pushes it", "^TestWhatIsFetchedIsTakenWhileItIsNews$", faults.New),
		stage("the slot is too small for the root or its hash tree", refused+"a_slot_too_small", faults.Refused),
		stage("the disk has no second slot, or was written anew since the start", refused+"(no_second|the_running_root)", faults.Refused),
		stage("the ESP is full", refused+"an_ESP_that_is_full$", faults.Refused),
		stage("an older serial", refused+"an_older_one$", faults.Refused),
		stage("an update of another cluster, or without the node", refused+"(another_cluster|without_the_node)$", faults.Refused),
		stage("another signer, none, or another key for PCR 11", refused+"(unsigned_|signed_by|with_another_key)", faults.Refused),
		stage("Secure Boot, and a kernel or boot loader that db does not let start, or dbx forbids", "^TestWhatTheFirmwareWouldNotStartIsRefused$", faults.Refused),
		stage("the state is not this node's", refused+"state_of_another_node$", faults.Refused),
		stage("a machine that started from the network", refused+"from_the_network$", faults.Refused),
		stage("a machine from a disc, under BIOS, without an ESP or without state", "^TestWhatIsRefusedIsNotWritten$/^(from_a_disc|by_a_BIOS|without_an_ESP|without_state)$", faults.Refused),
		stage("the node's record of the last update is damaged", "^TestADamagedRecord", faults.Refused),
		stage("a kernel without the driver of a device that the node needs", "^TestARootIsLookedAtBeforeAnythingStartsIt$", faults.Before),
		stage("older programs, which do not read the node's data", "^TestAnUpdateOrAWayBackThatWouldNotReadTheDataIsRefused$", faults.Refused),
		unit(faults.Update, "the head is cut, changed, or of another key", faults.Refused, "./wire/update", "^TestWhatIsRefused$"),
		unit(faults.Update, "the server or the stick has wrong pieces, lacks some, or has something else in their place", faults.Before, "./agent/pull", "^TestWhatIsNotFetched$"),
		unit(faults.Update, "other nodes of a site are dead, slow, or give wrong pieces", faults.New, "./agent/pull", "^TestASiteFetchesEachPieceOnceOrTwice$/^when_a_node_"),
		unit(faults.Update, "the server does not answer", faults.Before, "./agent/pull", "^TestAServerThatDoesNotAnswerIsGivenUp$"),
		unit(faults.Update, "the node keeps nothing of what it is sent, or asks for what is not in the update", faults.Before, "./wire/update", "^TestATransferEndsWithANodeThatDoesNotKeepOrAsksForOther$"),
		{Doing: faults.Update, Happens: "the operator's program is killed in the transfer, and pushes again", Want: faults.New, CPU: 6 * aBoot, Soak: true, Run: operatorKilledInAnUpdate},
		{Doing: faults.Update, Happens: "power cut at a write of the root, the tables or the ESP", Want: faults.Either, CPU: 10 * aBoot, Soak: true, Run: cutInAnUpdate},
		ownTest(faults.Update, "an older root, kernel and OpenSSL run: it serves its clients with the new ones", faults.New, "TestASystemIsUpdatedAndReturnsFromABadOne", TestASystemIsUpdatedAndReturnsFromABadOne),

		unit(faults.Trial, "a new root's role falls over in minute nine", faults.Before, "./agent/trial", trial+"a_role_that_falls_over_(in_minute_nine_and_stays_down|every_nine_minutes)$"),
		unit(faults.Trial, "a new root's agent crashes again and again", faults.Before, "./agent/trial", trial+"an_agent_that_crashes_again_and_again$"),
		unit(faults.Trial, "a new root's roles are restarted on purpose, and its agent crashes once", faults.New, "./agent/trial", trial+"(restarts_on_purpose_are_not_counted|an_agent_that_crashes_in_minute_nine_and_not_again)$"),
		unit(faults.Trial, "a bit flipped in the node's record, and the start is good", faults.New, "./agent/trial", "^TestAStartThatIsGoodIsKeptAlsoWhereItsRecordIsDamaged$"),
		unit(faults.Trial, "systemd hangs", faults.Before, "./agent/trial", "^TestASystemdThatHangsEndsTheTrialAtItsBound$"),
		unit(faults.Trial, "the program that judges it crashes: it is started again, and has no more time", faults.New, "./agent/trial", "^TestAJudgeThatIsStartedAgainHasNoMoreTime$"),
		ownTest(faults.WayBack, "a new root's role does not start", faults.Before, "TestASystemIsUpdatedAndReturnsFromABadOne", TestASystemIsUpdatedAndReturnsFromABadOne),
		ownTest(faults.WayBack, "a new root is good, and an operator goes back", faults.Before, "TestASystemIsUpdatedAndReturnsFromABadOne", TestASystemIsUpdatedAndReturnsFromABadOne),
		unit(faults.WayBack, "power cut at each write of an operator's way back to another root", faults.Before, "./agent/slot", "^TestANodeGoesBackToTheSystemBefore$"),
		unit(faults.WayBack, "the system before is not on the disk any more, or was bad", faults.Refused, "./agent/slot", "^TestANodeDoesNotGoBackToWhatIsNotThere$"),
		unit(faults.Push, "a configuration that would take the way back to another root", faults.Refused, "./agent/slot", "^TestTheWayBackToAnotherRootIsGivenUpByWordAlone$"),

		ownTest(faults.Start, "the disk does not answer any more while stage1 works: the watchdog resets the machine", faults.Stops, "TestAStartThatHangsIsReset", TestAStartThatHangsIsReset),
		ownTest(faults.Serving, "systemd hangs: the watchdog restarts the machine", faults.Whole, "TestMetal", TestMetal),
	}
}

// indexAfter is how much of an update goes through before the operator is killed, in bytes: the index of the root is on
// its way, and pieces follow.
const indexAfter = 64 << 10

// updated are a root that is none of the suite's image, and a configuration that comes with it: its trial is short.
func updated(t *testing.T) (image, configs string) {
	t.Helper()
	configs = withName(t, "updated", [3]string{"cluster.yaml", "domain: plant.example\n", "domain: plant.example\n\ntrialMinutes: 5\ntrialSettle: 1\n"})
	return imageWithBroker(t, configs, "ExecStart=/usr/bin/spore-agent render mosquitto -- /usr/sbin/mosquitto -v -c /run/mosquitto/mosquitto.conf"), configs
}

// updates brings an update to a machine, and waits until it is kept.
func (s *subject) updates(image, configs string) faults.Outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*pushBound)
	defer cancel()
	text, err := s.push(ctx, configs, s.api, "--image", image, "--reboot")
	require.NoError(s.t, err)
	require.Contains(s.t, text, "edge-01 is up with it")
	return s.tookIt("updated")
}

func operatorKilledInAnUpdate(t *testing.T, l *faultLab) faults.Outcome {
	c := l.machine(t, "killed-update", l.fresh(t))
	c.Reboots = true
	s := l.start(t, c)
	s.whole(true)
	image, configs := updated(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.push(ctx, configs, line(t, s.api, indexAfter, false, cancel), "--image", image)
	require.ErrorContains(t, err, "killed")
	s.again()
	require.Equal(t, "NXDOMAIN", s.name("updated"))
	return s.end(s.updates(image, configs))
}

func cutInAnUpdate(t *testing.T, l *faultLab) faults.Outcome {
	image, configs := updated(t)
	staged := l.copied(t)
	d := bootDisk(staged)
	d.WriteLog = filepath.Join(t.TempDir(), "writes.log")
	s := l.start(t, l.machine(t, "staged-update", d))
	s.whole(true)
	ctx, cancel := context.WithTimeout(t.Context(), 4*pushBound)
	defer cancel()
	_, err := s.push(ctx, configs, s.api, "--image", image)
	require.NoError(t, err)
	s.off()
	data, err := os.ReadFile(d.WriteLog)
	require.NoError(t, err)
	log, err := powercut.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	first, last := writesOfPush(t, log, staged, "root-b")

	rng := rand.New(rand.NewPCG(chance.Seed(t), 22))
	cut, err := log.Cut(first+rng.IntN(last-first+1), rng.Uint64())
	require.NoError(t, err)
	t.Logf("the push is in the writes %d to %d: %s", first, last, cut)
	disk := l.copied(t)
	replay(t, log, cut, disk)
	c := l.machine(t, "cut-update", bootDisk(disk))
	c.Reboots = true
	s = l.start(t, c)
	o := s.eitherSystem(t, "updated")
	s.pki = l.laterKeys(t)
	s.updates(image, configs)
	o.After = faults.Either
	return s.end(o)
}
