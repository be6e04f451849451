package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/paths"
)

func TestAClockThatIsFoundWrongLaterIsKnownToBeWrong(t *testing.T) {
	m := &node.Machine{Root: paths.Root(t.TempDir()), Say: func(s string) { t.Error(s) }, Now: time.Now}
	a := &agent{m: m}
	a.beginClock()
	require.False(t, a.clock.last.Wrong)
	require.False(t, a.clockIsWrong())
	m.Mark(paths.ClockWrong, true) // as what takes a bundle does, which is another process
	require.True(t, a.clockIsWrong())
	m.Mark(paths.ClockWrong, false)
	require.False(t, a.clockIsWrong())
}
