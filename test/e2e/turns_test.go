//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// places is how many tests run at a time: some of them have a machine, and the others prepare theirs, or look at
	// what it has left.
	places = 6
	// gathering is how long a test waits for those that take longer: go test lets all begin at once, in no order.
	gathering = time.Second
)

// longest are the tests that take longest, from 375 CPU seconds to 60, or wait: one that began at the end would have
// the processors to itself.
var longest = []string{
	"TestEncryptedState",
	"TestASystemIsUpdatedAndReturnsFromABadOne",
	"TestTheFaultMatrix",
	"TestOneKafkaNodeServes",
	"TestAPushedConfigurationIsTakenAndABadOneComesBackByItself",
	"TestMetal",
	"TestABundleIsSealedToTheTPM",
	"TestAMachineInstallsItselfFromTheNetworkBesideAnotherDHCPServer",
	"TestSecureBoot",
	"TestRolesOfThePlantsOwnServeAreChangedAndOutliveAPowerCut",
	"TestANodeTakesAnUpdateByItself",
	"TestARehearsalOfTwoNodes",
	"TestAnInstalledMachineStartsWithoutTheMedium",
}

// takeSlots waits until a number of machines may run, and lets others run when the test or release ends.
func takeSlots(t *testing.T, n int) (release func()) {
	t.Helper()
	suite.machines.take(n)
	release = sync.OnceFunc(func() { suite.machines.release(n) })
	t.Cleanup(release)
	return release
}

// turns has tests begin in the order of longest; those that are not in it begin after them, as they came.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []turn
}

type turn struct {
	// rank is the place in longest.
	rank  int
	begin chan struct{}
}

// inTurn has a test run beside others, when it is its turn.
func inTurn(t *testing.T) {
	t.Helper()
	t.Parallel()
	suite.turns.wait(t.Name())
	t.Cleanup(suite.turns.done) // after what the test cleans up itself
}

func (q *turns) wait(test string) {
	mine := turn{slices.Index(longest, test), make(chan struct{})}
	if mine.rank < 0 {
		mine.rank = len(longest)
	}
	q.mu.Lock()
	at, _ := slices.BinarySearchFunc(q.waiting, mine.rank+1, func(o turn, rank int) int { return o.rank - rank })
	q.waiting = slices.Insert(q.waiting, at, mine)
	q.mu.Unlock()
	time.AfterFunc(gathering, q.next)
	<-mine.begin
}

func (q *turns) done() {
	q.mu.Lock()
	q.free++
	q.mu.Unlock()
	q.next()
}

// next has as many tests begin as there are places.
func (q *turns) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.free > 0 && len(q.waiting) > 0 {
		close(q.waiting[0].begin)
		q.waiting = q.waiting[1:]
		q.free--
	}
}

func TestTheLongestTestsBeginFirst(t *testing.T) {
	q := &turns{free: 2}
	began := make(chan string)
	for _, name := range []string{"TestShort", "TestMetal", "TestOther", "TestEncryptedState", "TestASystemIsUpdatedAndReturnsFromABadOne"} {
		go func() {
			q.wait(name)
			began <- name
		}()
		time.Sleep(gathering / 50) // so that they come in this order
	}
	first := []string{<-began, <-began}
	require.ElementsMatch(t, []string{"TestASystemIsUpdatedAndReturnsFromABadOne", "TestEncryptedState"}, first)
	for _, want := range []string{"TestMetal", "TestShort", "TestOther"} {
		select {
		case name := <-began:
			require.Fail(t, "began, and no place was free", name)
		case <-time.After(gathering / 50):
		}
		q.done()
		require.Equal(t, want, <-began)
	}
}

// alone are the tests that do not wait for their turn: those of a stage of their own, and those without a machine.
var alone = []string{
	"TestAClusterOfKubernetesFromTheImageAlone", "TestPodsHaveVolumesOfCeph", "TestAppliances",
	"TestTheFirmwareOfTheTestsWasStartedAndHasNoBootOptions", "TestTheObserverAnswersAndSees", "TestTheObserverIsASwitch",
	"TestAMachineBeginsWhereOthersWait", "TestTheLongestTestsBeginFirst", "TestEachTestWaitsForItsTurn",
}

// A test that does not wait runs before all others, with one machine on processors for several.
func TestEachTestWaitsForItsTurn(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var turn, none []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n(\tinTurn\(t\)\n)?`).FindAllStringSubmatch(string(data), -1) {
			if found[2] != "" {
				turn = append(turn, found[1])
			} else {
				none = append(none, found[1])
			}
		}
	}
	require.ElementsMatch(t, alone, none)
	require.Subset(t, turn, longest)
}
