package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/cluster/facts"
	"spore/wire/machine"
)

var load = machine.Load{
	Uptime: 90061, CPU: machine.CPU{Processors: 4, User: 25, System: 5, Wait: 10, Steal: 1, Idle: 59}, Average: [3]float64{0.5, 1, 1.5},
	Memory:   machine.Memory{Total: 8 << 30, Available: 6 << 30, Cached: 1 << 30},
	Pressure: map[string]machine.Pressure{"cpu": {Some10: 12}, "io": {Some10: 3}},
	Disks:    []machine.DiskRate{{Name: "vda", Read: 2048, Written: 4096, Busy: 50}},
	Network:  []machine.LinkRate{{Name: "eth0", Received: 1 << 20, Sent: 512}},
	Units:    []machine.UnitLoad{{Name: "kafka.service", CPU: 150, Memory: 1 << 30}, {Name: "b.service"}},
	Processes: []machine.Process{
		{PID: 77, Unit: "kafka.service", User: "kafka", CPU: 150, Memory: 1 << 30, State: "R", Threads: 90, Name: "java\x1b[2J"},
		{PID: 1, User: "root", State: "S", Name: "systemd"},
	},
	Tasks: 100, Running: 2,
}

func TestANodeIsShownWithWhatUsesMost(t *testing.T) {
	text := strings.Join(detail("kafka-01", load, 1, 1), "\n")
	for _, want := range []string{
		"kafka-01  up 1d1h  load 0.50 1.00 1.50  100 tasks: 2 running, 0 blocked, 0 zombies",
		"cpu (4)  user 25%  system 5%  wait 10%  stolen 1%  idle 59%",
		"memory  2.0 GiB used of 8.0 GiB, 1.0 GiB files",
		"pressure (cpu io memory)  12% 3% 0%",
		"vda", "2.0 KiB", "50%", "eth0", "1.0 MiB", "kafka.service  150%", "77", `java\x1b[2J`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "systemd", "as many processes as asked for")
	require.NotContains(t, text, "b.service")
	require.NotContains(t, text, "\x1b")
}

func TestOfSeveralNodesEachIsALine(t *testing.T) {
	lines := summary([]row{{node: "a", load: &load}, {node: "b", silent: "it does not answer"}, {node: "c", load: &machine.Load{}}})
	require.Len(t, lines, 4)
	require.Regexp(t, `^a +31% +10% +0\.50/4 +25% of 8\.0 GiB +none +12% 3% 0% +2\.0KiB/s 4\.0KiB/s +1\.0MiB/s 512B/s +100 +1d1h$`, lines[1])
	require.Regexp(t, `^b +it does not answer$`, strings.TrimSpace(lines[2]))
	require.Contains(t, lines[3], "not known")
	var out strings.Builder
	answers := []reach.Answer[verb.Reply]{
		{Node: facts.Node{Name: "a"}, Value: verb.Reply{Results: []json.RawMessage{[]byte(`{"tasks":7}`)}}},
		{Node: facts.Node{Name: "b"}, Err: errors.New("gone")},
	}
	require.NoError(t, printSummary(&out, answers))
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	answers[0].Value.Results[0] = []byte(`[]`)
	require.ErrorContains(t, printSummary(&out, answers), "malformed")
}

func TestAPageFitsOnTheScreen(t *testing.T) {
	var out strings.Builder
	restored := 0
	s := &screen{out: &out, size: func() (int, int) { return 5, 2 }, restore: func() { restored++ }}
	s.draw([]string{"ünïcödé", "b", "c"})
	require.Equal(t, home+"ünïcö"+clearLine+"\r\nb"+clearLine+clearRest, out.String())
	s.close()
	s.close()
	require.Equal(t, 1, restored)
	out.Reset()
	s.draw([]string{"late"})
	require.Empty(t, out.String(), "the terminal is somebody else's again")
}

func TestKeysThatEndIt(t *testing.T) {
	for text, want := range map[string]int{"q": 1, "xxQ": 1, "\x03": 1, "abc": 1} { // Without more to read it ends, too.
		stopped := 0
		keys(strings.NewReader(text), func() { stopped++ })
		require.Equal(t, want, stopped, text)
	}
}

func TestOnlyOfSeveralNodesNoProcessesAreAskedFor(t *testing.T) {
	o := options{seconds: 1, rows: 20}
	require.Equal(t, "yes", o.order(true, false).Arguments["summary"])
	require.Equal(t, "no", o.order(false, true).Arguments["summary"])
	require.Equal(t, "1800", o.order(false, true).Arguments["count"])
	v := verb.Row("top")
	require.NoError(t, v.Check(o.order(true, true)))
	require.Error(t, v.Check(options{seconds: 100, rows: 20}.order(true, false)))
	require.Error(t, v.Check(options{seconds: 1, rows: 0}.order(true, false)))
}

func TestTheTerminalIsGivenBack(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer side.Close()
	before, err := term.GetState(int(side.Fd()))
	require.NoError(t, err)
	stopped := make(chan struct{})
	s, err := openScreen(side, side, func() { close(stopped) })
	require.NoError(t, err)
	during, err := term.GetState(int(side.Fd()))
	require.NoError(t, err)
	require.NotEqual(t, before, during)
	s.draw([]string{"a page"})
	_, err = terminal.WriteString("q")
	require.NoError(t, err)
	<-stopped
	s.close()
	after, err := term.GetState(int(side.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after)
	seen := make([]byte, len(enter+home+"a page"+clearLine+clearRest+leave))
	_, err = io.ReadFull(terminal, seen)
	require.NoError(t, err)
	require.Equal(t, enter+home+"a page"+clearLine+clearRest+leave, string(seen))
}
