//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
)

// TestAPersonChoosesWhichNodeAMachineIs has somebody choose a node with the keys of a machine that matches none. The
// machine restarts as that node. Its disk has no room for state, so that the choice is undone in the same way.
func TestAPersonChoosesWhichNodeAMachineIs(t *testing.T) {
	inTurn(t)
	image, err := os.Stat(suite.image)
	require.NoError(t, err)
	disk := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(t.Context(), suite.image, disk, image.Size()))
	c := stranger("choice", "8", "10.77.0.70", "", bootDisk(disk))
	c.Display, c.Reboots = true, true
	g := boot(t, c)
	s := g.settled()
	require.Empty(t, s.Node, s.Raw)
	require.Contains(t, s.Problem, "in no file of the configuration")
	require.Eventually(t, func() bool {
		now, err := g.Screen()
		return err == nil && hasTitle(now)
	}, bootLimit, time.Second, "the monitor has no page")
	before := g.picture(t, "choice-status")

	turns := func(name string, keys ...string) {
		t.Helper()
		g.press(t, keys...)
		require.Eventually(t, func() bool {
			now, err := g.Screen()
			return err == nil && hasTitle(now) && !same(before, now)
		}, bootLimit, time.Second, "nothing changes when %v is pressed", keys)
		before = g.picture(t, name)
	}
	turns("choice-asked", "n")
	// The list is asked for by a process of its own, which takes as long as it takes; what is typed before is kept.
	turns("choice-typed", "e", "d", "g", "e", "minus", "0", "1")
	from := before
	require.Eventually(t, func() bool {
		g.press(t, "ret") // Until there is a list to take it from, which asks for it again.
		now, err := g.Screen()
		return err == nil && !same(from, now)
	}, bootLimit, 5*time.Second, "the node is not taken from the list")
	before = g.picture(t, "choice-taken")

	turns("choice-wrong", "e", "d", "g", "e", "minus", "0", "2", "ret") // It is another name.
	turns("choice-named", "backspace", "1")
	g.press(t, "ret")
	g.awaitLine(`the node edge-01 was chosen at this machine`)
	s = g.await("a status line of the node", func(s vm.Status) bool { return s.Node == "edge-01" })
	requireMatched(t, s, "edge-01", "esp", "edge-01")
	s = g.settled()
	require.Equal(t, "edge-01", s.Node, s.Raw)
	for _, h := range s.Held {
		require.Contains(t, h.Reason, "no bundle for this node came with the machine", "a choice brings no secret")
	}
	require.NotEmpty(t, s.Held)
	require.Equal(t, "tmpfs", s.State.Kind, s.Raw)

	require.Eventually(t, func() bool {
		now, err := g.Screen()
		return err == nil && hasTitle(now)
	}, bootLimit, time.Second, "the monitor has no page")
	g.press(t, "n")
	undone := regexp.MustCompile(`the choice of the node edge-01 was undone`)
	require.Eventually(t, func() bool {
		if _, ok := g.Console.Find(g.mark, undone); ok {
			return true
		}
		// What was typed before the question was there was meant for a list.
		for range len("edge-01") {
			g.press(t, "backspace")
		}
		g.press(t, "e", "d", "g", "e", "minus", "0", "1")
		g.picture(t, "choice-undo")
		g.press(t, "ret")
		return false
	}, bootLimit, 10*time.Second, "the choice is not undone")
	s = g.await("a status line of a machine that matches no node", func(s vm.Status) bool { return s.Node == "" && s.Problem != "" })
	require.Contains(t, s.Problem, "in no file of the configuration")
}

// press presses keys one after the other, as a person does.
func (g *guest) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, g.Press(k))
	}
}
