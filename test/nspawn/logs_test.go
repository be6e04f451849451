//go:build e2e

package nspawn

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logsLimit bounds how long lines take to the store when all run, on a busy machine.
const logsLimit = 5 * time.Minute

// logsLab is a cluster with a store of logs, and the lines of which it is known that journals have them.
type logsLab struct {
	*Lab
	observer, edge, other *Node
	// synced has how many numbered lines a node's journal has on its disk, by their identifier.
	synced map[*Node]map[string]int
}

// TestLogsOutliveTheirMachines has three nodes whose journals one keeps. What a journal had on its disk is found in the
// store, whatever loses its power.
func TestLogsOutliveTheirMachines(t *testing.T) {
	l := &logsLab{Lab: New(t, Options{
		Source: "../..", Configs: "testdata/logs", Secrets: map[string]string{"mqtt-password-operator": edgePassword},
	}), synced: map[*Node]map[string]int{}}
	l.observer, l.edge, l.other = l.Node("observer"), l.Node("edge-1"), l.Node("edge-2")
	l.StartAll()

	l.Step("each listens where its rows say, and nowhere else", l.listenWhereTheirRowsSay)
	l.Step("the store has what all nodes say", func(t *testing.T) {
		for _, n := range l.Nodes() {
			l.write(n, "first", 200)
		}
		l.arrived()
	})
	l.Step("a browser with a certificate sees pages about all, and another sees why not", l.pages)
	l.Step("hostile lines are found, and are lines", l.hostile)
	l.Step("it has what a machine said that is gone", func(t *testing.T) {
		l.write(l.edge, "last", 50)
		l.arrived()
		l.edge.PowerLoss()
		require.Len(t, l.stored(l.edge, "last"), 50)
		l.edge.Start()
		l.edge.Running()
	})
	l.Step("what was written while it had no power arrives when it has", func(t *testing.T) {
		l.observer.PowerLoss()
		l.write(l.edge, "alone", 500)
		l.write(l.other, "alone", 500)
		l.other.PowerLoss()
		l.other.Start()
		l.other.Running()
		l.write(l.other, "later", 100)
		l.observer.Start()
		l.observer.Running()
		l.arrived()
	})
	l.Step("nothing is missing after cuts at any moment", l.cuts)
	l.Step("beside a node that floods, lines of another arrive", l.flood)
	l.Step("a store whose disk is full takes everything when it has room", l.full)
	l.Step("what a flood lost is counted", l.dropped)
	l.Step("it knows no secret of any node", func(t *testing.T) { l.storeHasNoSecret(t) })
	l.Step("readers do not ask it for more than they may", func(t *testing.T) {
		out, errs, ok := l.spore(t.Context(), "logs", "--all", "--since", "1h", "--source", "audit", "--lines", "5")
		require.True(t, ok, errs) // The keys of the test are an administrator's.
		require.Empty(t, out, "no node runs Kubernetes")
	})
}

// write has a node say numbered lines, and returns when its journal has them on its disk.
func (l *logsLab) write(n *Node, name string, lines int) {
	l.t.Helper()
	from := l.synced[n][name]
	l.say(n, name, from, from+lines)
	l.sync(n, name, from+lines)
}

func (l *logsLab) say(n *Node, name string, from, to int) {
	l.t.Helper()
	n.MustExec("sh", "-ec", fmt.Sprintf("seq -f '%s %%06.0f' %d %d | systemd-cat --identifier=%s", name, from+1, to, name))
}

func (l *logsLab) sync(n *Node, name string, to int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		out, err := n.Exec("journalctl", "--quiet", "--output=cat", "--lines=1", "--identifier="+name)
		return err == nil && strings.HasSuffix(out, fmt.Sprintf(" %06d", to))
	}, time.Minute, 100*time.Millisecond, "journald of %s takes the lines %s", n.Facts.Name, name)
	n.MustExec("journalctl", "--sync")
	if l.synced[n] == nil {
		l.synced[n] = map[string]int{}
	}
	l.synced[n][name] = to
}

// stored asks the store for a node's lines of an identifier, and returns how often it has each.
func (l *logsLab) stored(n *Node, name string) map[int]int {
	l.t.Helper()
	out, errs, ok := l.quiet(context.Background(), "logs", "--node", n.Facts.Name, "--since", "2d", "--grep", "^"+name+" [0-9]+$", "--lines", "10000", "--json")
	require.True(l.t, ok, errs)
	found := map[int]int{}
	for line := range strings.Lines(out) {
		var entry struct {
			Node    string `json:"node"`
			Cluster string `json:"cluster"`
			Role    string `json:"role"`
			Message string `json:"MESSAGE"`
			From    string `json:"SYSLOG_IDENTIFIER"`
		}
		require.NoError(l.t, json.Unmarshal([]byte(line), &entry), line)
		require.Equal(l.t, n.Facts.Name, entry.Node)
		require.Equal(l.t, l.Cluster.Name, entry.Cluster)
		require.Equal(l.t, name, entry.From)
		number, err := strconv.Atoi(strings.TrimPrefix(entry.Message, name+" "))
		require.NoError(l.t, err)
		found[number]++
	}
	return found
}

// arrived waits until the store has each line that the journals had on their disks, and holds that it shows each once.
func (l *logsLab) arrived() {
	l.t.Helper()
	for n, names := range l.synced {
		for name, lines := range names {
			var found map[int]int
			ok := eventually(logsLimit, time.Second, func() bool {
				found = l.stored(n, name)
				return !slices.ContainsFunc(numbers(lines), func(i int) bool { return found[i] == 0 })
			})
			if !ok {
				missing := slices.DeleteFunc(numbers(lines), func(i int) bool { return found[i] > 0 })
				require.FailNow(l.t, fmt.Sprintf("%d of %d lines %s of %s are missing, from %d on", len(missing), lines, name,
					n.Facts.Name, missing[0]), "%s\n%s", n.journal(), l.observer.journal())
			}
			for number, times := range found {
				require.Equal(l.t, 1, times, "%s %06d of %s", name, number, n.Facts.Name)
			}
		}
	}
}

// numbers are those from 1 on.
func numbers(count int) []int {
	out := make([]int, count)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

func eventually(bound, every time.Duration, met func() bool) bool {
	for end := time.Now().Add(bound); ; time.Sleep(every) {
		if met() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// hostile has a program say what is no text, is too long, or claims to be of somebody else.
func (l *logsLab) hostile(t *testing.T) {
	l.edge.MustExec("sh", "-ec", `printf 'begin \033[2J\007 end\n' | systemd-cat --identifier=hostile`)
	l.edge.MustExec("sh", "-ec", `printf 'binary \377\376 \001 text\n' | systemd-cat --identifier=hostile`)
	// journald cuts a line of a stream; a message by its protocol has no such bound.
	l.edge.MustExec("sh", "-ec", `head -c 1048576 /dev/zero | tr '\0' x | systemd-cat --identifier=hostile`)
	l.edge.MustExec("sh", "-ec", `printf 'MESSAGE=forged\nSYSLOG_IDENTIFIER=hostile\nNODE=edge-2\nCLUSTER=other\n_SPORE_SOURCE=audit\n_SYSTEMD_UNIT=etcd.service\n' | logger --journald`)
	l.write(l.edge, "behind", 20)
	l.arrived()
	out, errs, ok := l.quiet(t.Context(), "logs", "--node", "edge-1", "--since", "10m", "--grep", "begin|binary|forged")
	require.True(t, ok, errs)
	require.Contains(t, out, `begin \x1b[2J\x07 end`)
	require.Regexp(t, `binary .* text`, out)
	require.Contains(t, out, "hostile[")
	require.Contains(t, out, ": forged")
	for _, bad := range []string{"\x1b", "\x07", "\xff"} {
		require.NotContains(t, out, bad)
	}
	out, errs, ok = l.quiet(t.Context(), "logs", "--node", "edge-2", "--since", "10m", "--grep", "forged")
	require.True(t, ok, errs)
	require.Empty(t, out)
	out, errs, ok = l.quiet(t.Context(), "logs", "--node", "edge-1", "--since", "10m", "--grep", "^x{1000}", "--json")
	require.True(t, ok, errs)
	require.Positive(t, strings.Count(out, "xxxx"), "a line of 1 MiB")
}

// cuts has the power of nodes and of the store go at moments that the seed says, while all of them write.
func (l *logsLab) cuts(t *testing.T) {
	rounds := 4
	if os.Getenv("SPORE_SOAK") != "" {
		rounds = 30
	}
	nodes := l.Nodes()
	for round := range rounds {
		lost := nodes[l.random.IntN(len(nodes))]
		for _, n := range nodes {
			l.write(n, "cut", 20+l.random.IntN(200))
		}
		if l.random.IntN(2) == 0 { // Some lines are on their way, and may be lost or not.
			l.say(lost, "way", 50*round, 50*round+50)
		}
		time.Sleep(time.Duration(l.random.IntN(3000)) * time.Millisecond)
		t.Logf("round %d: %s loses power", round+1, lost.Facts.Name)
		lost.PowerLoss()
		for _, n := range nodes {
			if n != lost {
				l.write(n, "cut", 50)
			}
		}
		lost.Start()
		lost.Running()
	}
	l.arrived()
	for _, n := range nodes {
		t.Logf("%s: %s", n.Facts.Name, l.counters(n))
	}
}

// counters are what a node's sender has counted.
func (l *logsLab) counters(n *Node) string {
	out, err := n.Exec("sh", "-c", "cat /run/spore-logs/metrics.prom /run/spore-logs-store/metrics.prom 2>/dev/null | grep -v '^#'")
	if err != nil && out == "" {
		return err.Error()
	}
	return out
}

// floods is how many lines one unit writes as quickly as it can.
const floods = 100_000

// flood has a unit of one node write more than its journal takes; another node's lines arrive meanwhile.
func (l *logsLab) flood(t *testing.T) {
	// journald says of a unit what it did not take when that writes again, half a minute later.
	unit := fmt.Sprintf("[Service]\\nType=oneshot\\nExecStart=/usr/bin/seq -f \"flood %%%%06.0f\" 1 %d\\n"+
		"ExecStart=/usr/bin/sleep 33\\nExecStart=/usr/bin/echo over\\n", floods)
	l.other.MustExec("sh", "-ec", "printf '"+strings.ReplaceAll(unit, "%", "%%")+"' >/run/systemd/system/flood.service; systemctl daemon-reload")
	l.other.MustExec("systemctl", "start", "--no-block", "flood.service")
	for range 5 {
		l.write(l.edge, "beside", 20)
	}
	began := time.Now()
	l.arrived()
	t.Logf("100 lines of another node arrive %.1f s after they were written, beside a flood", time.Since(began).Seconds())
}

// suppressed is journald's own message that it did not take lines.
var suppressed = regexp.MustCompile(`Suppressed (\d+) messages from flood\.service`)

// dropped holds that the flood is whole: what arrived, and what journald says that it did not take.
func (l *logsLab) dropped(t *testing.T) {
	lost := 0
	require.Eventually(t, func() bool {
		said, _ := l.other.Exec("journalctl", "--quiet", "--output=cat", "--unit=flood.service", "--unit=systemd-journald.service", "--since=-10min", "--grep=Suppressed|^over$") // It fails while there is none.
		lost = 0
		for _, m := range suppressed.FindAllStringSubmatch(said, -1) {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			lost += n
		}
		return lost > 0 && strings.Contains(said, "over")
	}, time.Minute, time.Second, "journald says that it did not take lines")
	took, err := strconv.Atoi(l.other.MustExec("sh", "-c", "journalctl --quiet --output=cat --unit=flood.service | grep -c '^flood '"))
	require.NoError(t, err)
	t.Logf("of %d lines journald took %d and said of %d that it did not", floods, took, lost)
	require.Equal(t, floods, took+lost)
	l.write(l.other, "flooded", 20)
	l.arrived()
	stored, errs, ok := l.quiet(t.Context(), "logs", "--node", "edge-2", "--unit", "flood", "--since", "1h", "--grep", "^flood [0-9]+$", "--lines", "100000")
	require.True(t, ok, errs)
	require.Equal(t, took, strings.Count(stored, "\n"), "each line that journald took is in the store")
	require.Eventually(t, func() bool {
		for line := range strings.Lines(l.counters(l.other)) {
			if value, found := strings.CutPrefix(line, `spore_logs_dropped_by_journal_total{store="observer",why="rate"} `); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				return err == nil && int(n) == lost
			}
		}
		return false
	}, time.Minute, time.Second, "what journald dropped is counted")
}

// full takes the room of the store's disk away, and gives it back.
func (l *logsLab) full(t *testing.T) {
	free := l.observer.MustExec("sh", "-c", "df --output=avail -B1 /var | tail -1")
	bytes, err := strconv.ParseInt(strings.TrimSpace(free), 10, 64)
	require.NoError(t, err)
	l.observer.MustExec("fallocate", "-l", strconv.FormatInt(bytes-8<<20, 10), "/var/tmp/full")
	for _, n := range []*Node{l.edge, l.other} {
		l.write(n, "full", 300)
	}
	// More than what is left would take: nothing of it is acknowledged and lost.
	l.other.MustExec("sh", "-ec", "for i in 1 2 3 4 5 6 7 8; do head -c 4000000 /dev/urandom | base64 -w 4000 | systemd-cat --identifier=noise; done")
	l.write(l.other, "full", 100)
	time.Sleep(20 * time.Second)
	require.Equal(t, "active", l.observer.MustExec("systemctl", "is-active", "spore-logs-store.service"))
	t.Logf("with a full disk:\n%s", l.counters(l.observer))
	l.observer.MustExec("rm", "/var/tmp/full")
	l.arrived()
}

// TestAMachineIsADayWithoutTheStoreOfLogs has a machine of its own kernel, clock and disk, which the store does not
// answer for a day of that clock. It is left to make soak for its machine.
func TestAMachineIsADayWithoutTheStoreOfLogs(t *testing.T) {
	if os.Getenv("SPORE_SOAK") == "" {
		t.Skip("elsewhere: `make soak` runs it, by SPORE_SOAK=1")
	}
	l := &logsLab{Lab: New(t, Options{
		Source: "../..", Configs: "testdata/logs", Image: true, Secrets: map[string]string{"mqtt-password-operator": edgePassword},
	}), synced: map[*Node]map[string]int{}}
	l.observer, l.edge = l.Node("observer"), l.Node("edge-1")
	g := l.Boot(l.edge)
	g.AwaitShell()
	g.Shell("date --set='-1 day'")
	const hours = 24
	for hour := range hours {
		g.Shell(fmt.Sprintf("seq -f 'day %%06.0f' %d %d | systemd-cat --identifier=day; journalctl --sync; date --set='+1 hour'", 100*hour+1, 100*(hour+1)))
	}
	l.synced[l.edge] = map[string]int{"day": 100 * hours}
	l.observer.Start()
	l.observer.Running()
	l.arrived()
	out, errs, ok := l.quiet(t.Context(), "logs", "--node", "edge-1", "--since", "2d", "--grep", "^day [0-9]+$", "--lines", "10000", "--json")
	require.True(t, ok, errs)
	var first, last int64
	for line := range strings.Lines(out) {
		var entry struct {
			At string `json:"__REALTIME_TIMESTAMP"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		at, err := strconv.ParseInt(entry.At, 10, 64)
		require.NoError(t, err)
		if first == 0 {
			first = at
		}
		last = at
	}
	require.InDelta(t, (hours-1)*time.Hour.Seconds(), float64(last-first)/1e6, 1800, "each line has the time at which it was written")
}
