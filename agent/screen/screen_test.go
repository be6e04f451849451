package screen

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/arp"
	"spore/agent/delivery"
	"spore/agent/state"
	"spore/agent/status"
)

func TestANodeSaysHowItIs(t *testing.T) {
	got := Text(status.Line{
		Cluster: "plant", Node: "edge-01", System: "running", Roles: []string{"dns-server", "mqtt-broker"}, Addresses: []string{"10.77.0.11"},
	})
	require.Equal(t, clear+rule+"\n \x1b[1mplant · edge-01 · running\x1b[0m\n"+rule+"\n\n"+
		" roles       dns-server mqtt-broker\n addresses   10.77.0.11\n", got)
}

func TestAMachineThatIsNoNodeSaysWhatToDo(t *testing.T) {
	got := Text(status.Line{
		Cluster: "plant", System: "running", Advice: `add one of these to a node in cluster.yaml: macs: ["52:54:00:fe:ed:01"]; then run spore build`,
		Problem: `no node has these values; it has the MAC 52:54:00:fe:ed:01; add one of these to a node in cluster.yaml: macs: ["52:54:00:fe:ed:01"]; then run spore build`,
	})
	require.Contains(t, got, "plant · this machine does not match any node · running")
	require.Contains(t, got, " problem     no node has these values; it has the MAC 52:54:00:fe:ed:01\n")
	require.Contains(t, got, "\n\n what to do  add one of these to a node in cluster.yaml: macs:\n")
	require.Equal(t, 1, strings.Count(got, "add one of these"))
}

func TestWhatIsWrongIsShown(t *testing.T) {
	got := Text(status.Line{
		Node: "a", System: "degraded", Held: []activate.Held{{Role: "mqtt-broker", Reason: "x is missing"}}, Failed: []string{"x.service", "y.service"},
		Waiting: map[string]string{"kafka": "waiting for b", "ceph-mon": "waiting for a"}, Conflicts: []arp.Used{{IP: netip.MustParseAddr("10.77.0.3"), MAC: "52:55:0a:4d:00:03"}},
		Bundle: &delivery.Info{Problem: "waiting for the passphrase"}, State: &state.Info{Warning: "on a tmpfs"},
	})
	for _, want := range []string{
		" held        mqtt-broker: x is missing\n", " failed      x.service y.service\n", " waiting     waiting for a\n waiting     waiting for b\n",
		" conflict    10.77.0.3 is also the address of 52:55:0a:4d:00:03\n", " secrets     waiting for the passphrase\n", " state       on a tmpfs\n",
	} {
		require.Contains(t, got, want)
	}
}

func TestTextFromElsewhereChangesNoTerminal(t *testing.T) {
	got := Text(status.Line{Node: "a", Problem: "serial \x1b[2J\x07\u009b31m\nx"})
	require.Equal(t, 3, strings.Count(got, "\x1b")-1, "its own: clear, home, bold, plain")
	require.NotContains(t, got, "\x07")
	require.NotContains(t, got, "\u009b")
}

func FuzzText(f *testing.F) {
	f.Add("a", "a problem that is longer than one line of a screen has columns, so that it is broken between two words; and more", "and more")
	f.Add("b", strings.Repeat("x", 200), "")
	f.Fuzz(func(t *testing.T, node, problem, advice string) {
		got := strings.TrimPrefix(Text(status.Line{Node: node, Problem: problem, Advice: advice}), clear)
		for i, line := range strings.Split(got, "\n") {
			if i > 2 {
				require.LessOrEqual(t, len([]rune(line)), columns-1)
				require.NotContains(t, line, "\x1b")
			}
		}
	})
}
