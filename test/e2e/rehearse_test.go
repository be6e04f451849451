//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
)

// rehearsal is `spore boot` as a user has it, on an output folder of its own with the suite's image.
type rehearsal struct {
	t        *testing.T
	bin, out string
}

// command is one `spore boot` that runs.
type command struct {
	t      *testing.T
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error
	mu     sync.Mutex
	events []bootEvent
	lines  []string
}

// bootEvent is a line of its JSON, as a script reads it.
type bootEvent struct {
	Event    string `json:"event"`
	Node     string `json:"node"`
	Text     string `json:"text"`
	PID      int    `json:"pid"`
	Forwards []struct {
		Host     int    `json:"host"`
		Guest    string `json:"guest"`
		Protocol string `json:"protocol"`
	} `json:"forwards"`
	Status json.RawMessage `json:"status"`
}

func TestARehearsalOfTwoNodes(t *testing.T) {
	t.Parallel()
	r := newRehearsal(t)
	release := takeSlots(t, guests)
	both := r.start("--node", "edge-01,mqtt-01", "--append", "spore.console", "--json", "--pki", suite.dir)
	edge, mqtt := both.running("edge-01"), both.running("mqtt-01")
	require.Equal(t, "mac", edge.Matched.By)
	require.Equal(t, "ip", mqtt.Matched.By, "each is known by what its DHCP server says")

	t.Run("ports of this host lead to the nodes", func(t *testing.T) {
		a, err := client.Ask("udp", both.address("edge-01", "udp", edgeIP+":53"), "mqtt-01.plant.example", "A")
		require.NoError(t, err)
		require.Equal(t, []string{"A " + mqttIP}, a.Records)
		conn, err := net.DialTimeout("tcp", both.address("mqtt-01", "tcp", mqttIP+":8883"), time.Minute)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	})
	t.Run("cut off from every server, a node has the time from the other", func(t *testing.T) {
		var s vm.Status
		both.await("mqtt-01 to say who keeps its clock", func(e bootEvent) bool {
			if e.Event != "status" || e.Node != "mqtt-01" {
				return false
			}
			var ok bool
			s, ok = vm.ParseStatus(string(e.Status))
			return ok && s.Clock.Synchronized && s.Clock.From != ""
		})
		if s.Clock.From != hostIP { // which serves the time while TestMetal runs
			require.Equal(t, edgeIP, s.Clock.From)
		}
		t.Logf("mqtt-01 has the time from %s", s.Clock.From)
	})
	shell := r.attach("edge-01")
	t.Run("the nodes reach each other, and nobody answers for others", func(t *testing.T) {
		open := "timeout 60 bash -c 'exec 3<>/dev/tcp/%s/8883' && echo open"
		require.Equal(t, []string{"open"}, shell.sh(fmt.Sprintf(open, mqttIP)))
		neighbour := strings.Join(shell.sh("cat /proc/net/arp"), "\n")
		require.Regexp(t, `(?m)^10\.77\.0\.12\s+0x1\s+0x2\s+52:54:00:`, neighbour, "its own card, and not QEMU's 52:55")
		require.NotEqual(t, []string{"open"}, shell.sh(fmt.Sprintf(strings.Replace(open, "60", "5", 1), "10.77.0.99")))
	})
	t.Run("nobody starts a node twice", func(t *testing.T) {
		text, err := r.run("--node", "mqtt-01")
		require.Error(t, err)
		require.Contains(t, text, "mqtt-01 runs already; end it with --kill mqtt-01")
	})
	t.Run("another process ends one node", func(t *testing.T) {
		text, err := r.run("--kill", "mqtt-01")
		require.NoError(t, err, text)
		require.Equal(t, "mqtt-01: ended\n", text)
		both.await("the end of mqtt-01", func(e bootEvent) bool { return e.Event == "ended" && e.Node == "mqtt-01" })
		require.True(t, both.lives())
		a, err := client.Ask("udp", both.address("edge-01", "udp", edgeIP+":53"), "edge-01.plant.example", "A")
		require.NoError(t, err)
		require.Equal(t, []string{"A " + edgeIP}, a.Records)
	})
	t.Run("and all of them", func(t *testing.T) {
		text, err := r.run("--kill", "--json")
		require.NoError(t, err, text)
		require.Contains(t, text, `{"event":"killed","node":"edge-01","text":"ended"}`)
		require.Contains(t, text, `{"event":"killed","node":"mqtt-01","text":"did not run"}`)
		require.NoError(t, both.wait(), "that is no error of the command that started them")
	})
	release()

	defer takeSlots(t, 1)()
	t.Run("what a node kept is there at its next start, and Ctrl-C ends it", func(t *testing.T) {
		again := r.start("--node", "edge-01")
		again.awaitText(`^edge-01: no bundle: no folder with the keys`)
		again.awaitText(`^edge-01: 127\.0\.0\.1:\d+ leads to 10\.77\.0\.11:8883/tcp$`)
		again.awaitText(`"bundle":\{"serial":\d+,"from":"state"`)
		require.NoError(t, again.cmd.Process.Signal(os.Interrupt))
		require.NoError(t, again.wait())
		_, err := r.run("--console", "edge-01")
		require.Error(t, err)
	})
}

func newRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	r := &rehearsal{t: t, bin: filepath.Join(t.TempDir(), "spore"), out: t.TempDir()}
	build := exec.Command("go", "build", "-o", r.bin, "./builder")
	build.Dir = sourceTree
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Symlink(suite.image, filepath.Join(r.out, "spore.img")))
	return r
}

// takeSlots waits until a number of machines may run, and lets others run until the test or release ends. It never has some of
// them while it waits for more: two that do so would wait for ever.
func takeSlots(t *testing.T, n int) (release func()) {
	t.Helper()
	have := 0
	give := func() {
		for ; have > 0; have-- {
			<-suite.slots
		}
	}
	for have < n {
		select {
		case suite.slots <- struct{}{}:
			have++
		default:
			give()
			time.Sleep(time.Second)
		}
	}
	release = sync.OnceFunc(give)
	t.Cleanup(release)
	return release
}

func (r *rehearsal) args(args []string) []string {
	return append([]string{"boot", r.out}, args...)
}

// run runs a command to its end.
func (r *rehearsal) run(args ...string) (string, error) {
	out, err := exec.Command(r.bin, r.args(args)...).CombinedOutput()
	return string(out), err
}

// start starts a command, which ends with the test at the latest.
func (r *rehearsal) start(args ...string) *command {
	r.t.Helper()
	c := &command{t: r.t, cmd: exec.Command(r.bin, r.args(args)...), ended: make(chan struct{})}
	out, err := c.cmd.StdoutPipe()
	require.NoError(r.t, err)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(r.t, c.cmd.Start())
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			c.add(lines.Text())
		}
		c.err = errors.Join(lines.Err(), c.cmd.Wait())
		close(c.ended)
	}()
	r.t.Cleanup(func() {
		_ = c.cmd.Process.Signal(os.Interrupt)
		<-c.ended
		writeResult(r.t.Name()+".boot", strings.Join(c.text(), "\n"))
		if r.t.Failed() {
			r.t.Logf("spore boot %s said:\n%s", strings.Join(args, " "), strings.Join(c.text(), "\n"))
		}
	})
	return c
}

func (c *command) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	var e bootEvent
	if json.Unmarshal([]byte(line), &e) == nil {
		c.events = append(c.events, e)
	}
}

func (c *command) text() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

func (c *command) lives() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

func (c *command) wait() error {
	select {
	case <-c.ended:
		return c.err
	case <-time.After(time.Minute):
		return errors.New("the command does not end")
	}
}

// until waits until something holds.
func (c *command) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(bootLimit); !holds(); time.Sleep(100 * time.Millisecond) {
		require.True(c.t, c.lives(), "the command ended (%v) while waiting for %s", c.err, what)
		require.True(c.t, time.Now().Before(end), "waiting for %s", what)
	}
}

// await returns the first event that ok accepts.
func (c *command) await(what string, ok func(bootEvent) bool) bootEvent {
	c.t.Helper()
	var found bootEvent
	c.until(what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.events, ok)
		if i >= 0 {
			found = c.events[i]
		}
		return i >= 0
	})
	return found
}

func (c *command) awaitText(pattern string) {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	c.until("a line that matches "+pattern, func() bool { return slices.ContainsFunc(c.text(), re.MatchString) })
}

// running waits until a node's roles run.
func (c *command) running(node string) vm.Status {
	c.t.Helper()
	var s vm.Status
	c.await(node+" to run", func(e bootEvent) bool {
		if e.Event != "status" || e.Node != node {
			return false
		}
		var ok bool
		s, ok = vm.ParseStatus(string(e.Status))
		return ok && s.System == "running" && s.Times["running"] > 0
	})
	require.Equal(c.t, node, s.Node)
	require.Empty(c.t, s.Failed, s.Raw)
	require.Empty(c.t, s.Held, s.Raw)
	require.Equal(c.t, "partition", s.State.Kind)
	return s
}

// address is this host's end of a forward.
func (c *command) address(node, protocol, guest string) string {
	c.t.Helper()
	e := c.await("the start of "+node, func(e bootEvent) bool { return e.Event == "started" && e.Node == node })
	for _, f := range e.Forwards {
		if f.Protocol == protocol && f.Guest == guest {
			return fmt.Sprintf("127.0.0.1:%d", f.Host)
		}
	}
	require.Fail(c.t, "no port leads to "+guest)
	return ""
}

// session is the shell on a console that another process shows.
type session struct {
	t       *testing.T
	conn    net.Conn
	console *vm.Console
	mark    int
}

// attach is what spore boot --console does at a terminal.
func (r *rehearsal) attach(node string) *session {
	r.t.Helper()
	dir, err := os.Open(filepath.Join(r.out, "vm", node))
	require.NoError(r.t, err)
	defer dir.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/console", dir.Fd())) // A socket's path is short.
	require.NoError(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	s := &session{t: r.t, conn: conn}
	s.console = vm.Collect(conn, io.Discard, func() (wall, cpu time.Duration) { return 0, 0 })
	s.mark = s.line(0, `login: root \(automatic login\)`)
	for end := time.Now().Add(bootLimit); ; { // What is typed before the first prompt is lost.
		s.send("echo shell $((6 * 7))\r")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, mark, err := s.console.AwaitMatch(ctx, s.mark, regexp.MustCompile(`^shell 42$`))
		cancel()
		if err == nil {
			s.mark = mark
			return s
		}
		require.True(r.t, time.Now().Before(end), "no shell on the console: %v", err)
	}
}

func (s *session) send(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.conn, text)
	require.NoError(s.t, err)
}

func (s *session) line(from int, pattern string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	_, mark, err := s.console.AwaitMatch(ctx, from, regexp.MustCompile(pattern))
	require.NoError(s.t, err)
	return mark
}

// sh types a command and returns what it prints.
func (s *session) sh(text string) []string {
	s.t.Helper()
	from := s.mark
	s.send("(" + text + ") 2>&1 | sed 's/^/>> /'; echo '>> 'end $((6 * 7))\r")
	s.mark = s.line(from, `^>> end 42$`)
	var out []string
	for _, l := range s.console.Lines(from) {
		if printed, ok := strings.CutPrefix(l.Text, ">> "); ok && printed != "end 42" {
			out = append(out, printed)
		}
	}
	return out
}
