package locate

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// machine has lamps, a shelf and two consoles.
func machine(t *testing.T) *node.Machine {
	t.Helper()
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	for name, text := range map[string]string{
		"/sys/class/leds/disk1/max_brightness": "255\n", "/sys/class/leds/disk1/brightness": "7\n",
		"/sys/class/leds/disk1/trigger":   "none kbd-numlock [disk-activity] timer\n",
		"/sys/class/leds/dead/brightness": "0\n", "/sys/class/leds/dead/max_brightness": "0\n",
		"/sys/class/enclosure/0:0:8:0/Slot 01/locate": "0\n",
		"/sys/class/tty/console/active":               "tty0 ttyS0\n",
		"/dev/tty1":                                   "", "/dev/ttyS0": "",
	} {
		nodetest.Put(t, m, name, text)
	}
	require.NoError(t, atomicfile.WriteJSON(m.Root.At(paths.Status), status.Line{Spore: 1, Node: "node-00000", System: "running"}))
	return m
}

func text(t *testing.T, m *node.Machine, name string) string {
	t.Helper()
	data, err := os.ReadFile(m.Root.At(name))
	require.NoError(t, err)
	return string(data)
}

// with is the verb on a machine with these cards.
func with(c Cards) verbs.Handler {
	return func(ctx context.Context, r *verbs.Run) (string, error) { return locate(ctx, r, c) }
}

func TestAMachineShowsWhereItIsAndIsAsBefore(t *testing.T) {
	m := machine(t)
	r := &rack{fails: map[string]error{"ens2": unix.EOPNOTSUPP}}
	a := verbstest.Call(t, m, "locate", nodeapi.Order{Arguments: map[string]string{"for": "1s"}}, with(r.cards("ens1", "ens2")))
	require.NoError(t, a.Err)
	require.Equal(t, "used 2 lamps, 1 network cards and 2 consoles for 1s", a.Done)
	require.Equal(t, "network cards whose driver has no lamp to blink: ens2", a.Said[0])
	require.Greater(t, r.asked["ens1"], 2)
	require.JSONEq(t, `{"lamps":["leds/disk1","enclosure/0:0:8:0/Slot 01"],"cards":["ens1"],"consoles":["/dev/tty1","/dev/ttyS0"]}`, string(a.Results[0]))
	require.Contains(t, text(t, m, "/dev/ttyS0"), `HERE IS "node-00000" of cluster "plant"`)
	require.Contains(t, text(t, m, "/dev/ttyS0"), `"anna" looks for this machine`)
	require.Equal(t, 1, strings.Count(text(t, m, "/dev/ttyS0"), "HERE IS"))
	require.True(t, strings.HasPrefix(text(t, m, "/dev/tty1"), "\x1b[2J"), "the screen is as before")
	// A file keeps what was longer; sysfs does not.
	require.True(t, strings.HasPrefix(text(t, m, "/sys/class/leds/disk1/brightness"), "7"))
	require.True(t, strings.HasPrefix(text(t, m, "/sys/class/leds/disk1/trigger"), "disk-activity"))
	require.Equal(t, "0\n", text(t, m, "/sys/class/enclosure/0:0:8:0/Slot 01/locate"))
}

func TestALookLightsNothing(t *testing.T) {
	m := machine(t)
	r := &rack{}
	a := verbstest.Call(t, m, "locate", nodeapi.Order{DryRun: true}, with(r.cards("ens1")))
	require.NoError(t, a.Err)
	require.Equal(t, "would use 2 lamps and 2 consoles for 1m0s, and would try the lamps of 1 network cards; nothing was done", a.Done)
	require.Contains(t, string(a.Results[0]), `"cards":["ens1"]`)
	require.Empty(t, r.asked)
	require.Empty(t, text(t, m, "/dev/tty1"))
	require.Equal(t, "7\n", text(t, m, "/sys/class/leds/disk1/brightness"))
}

func TestAMachineWithoutLampsSaysSo(t *testing.T) {
	m, _ := nodetest.New(t, 1)
	nodetest.Is(t, m, "node-00000")
	a := verbstest.Call(t, m, "locate", nodeapi.Order{Arguments: map[string]string{"for": "1s"}}, with(new(rack).cards()))
	require.NoError(t, a.Err)
	require.Equal(t, "used 0 lamps, 0 network cards and 0 consoles for 1s", a.Done)
}

func TestTheTimeHasBounds(t *testing.T) {
	m := machine(t)
	for _, span := range []string{"0s", "999ms", "61m", "-1m", "long", "1"} {
		a := verbstest.Call(t, m, "locate", nodeapi.Order{Arguments: map[string]string{"for": span}}, Locate)
		require.ErrorContains(t, a.Err, "is not a time from 1s to 1h0m0s", span)
	}
}

func TestTheTriggerOfALampIsTheOneInBrackets(t *testing.T) {
	for list, want := range map[string]string{
		"[none] timer": "none", "none [mmc0] timer": "mmc0", "": "", "none timer": "", "none [mmc0": "", "]a[": "",
	} {
		require.Equal(t, want, chosen(list), list)
	}
}

func FuzzChosen(f *testing.F) {
	f.Add("none [mmc0] timer")
	f.Fuzz(func(t *testing.T, list string) { require.LessOrEqual(t, len(chosen(list)), len(list)) })
}
