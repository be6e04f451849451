// Package rehearse runs `spore boot` as a user does, for tests: it reads the lines of JSON that the command prints, and types on
// the consoles of machines. It knows nothing of what the machines are for.
package rehearse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"

	"spore/builder/vm"
)

// ending is how long a command may take to end beyond the limit of what it waits for.
const ending = time.Minute

// Event is a line of the command's JSON, as a script reads it.
type Event struct {
	Event string `json:"event"`
	Node  string `json:"node"`
	Text  string `json:"text"`
	// PID is the machine's process.
	PID      int `json:"pid"`
	Forwards []struct {
		Host     int    `json:"host"`
		Guest    string `json:"guest"`
		Protocol string `json:"protocol"`
	} `json:"forwards"`
	Status json.RawMessage `json:"status"`
}

// Command is one `spore boot` that runs.
type Command struct {
	t      *testing.T
	cmd    *exec.Cmd
	limit  time.Duration
	ended  chan struct{}
	err    error
	mu     sync.Mutex
	events []Event
	lines  []string
	bad    bytes.Buffer
}

// Start starts a command, which ends with the test at the latest. limit bounds each wait for what its machines do.
func Start(t *testing.T, cmd *exec.Cmd, limit time.Duration) *Command {
	t.Helper()
	c := &Command{t: t, cmd: cmd, limit: limit, ended: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = io.MultiWriter(os.Stderr, &c.bad)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			c.add(lines.Text())
		}
		c.err = errors.Join(lines.Err(), cmd.Wait())
		close(c.ended)
	}()
	t.Cleanup(func() {
		c.Interrupt()
		<-c.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(cmd.Args, " "), strings.Join(c.Lines(), "\n"))
		}
	})
	return c
}

func (c *Command) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	var e Event
	if json.Unmarshal([]byte(line), &e) == nil {
		c.events = append(c.events, e)
	}
}

// Lines is all that the command has printed.
func (c *Command) Lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// Lives tells whether the command runs.
func (c *Command) Lives() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// Interrupt is Ctrl-C: a power cut for the machines of the command.
func (c *Command) Interrupt() { _ = c.cmd.Process.Signal(os.Interrupt) } // It may have ended.

// Wait waits for the end of the command.
func (c *Command) Wait() error {
	select {
	case <-c.ended:
		return c.err
	case <-time.After(c.limit + ending):
		return errors.New("the command does not end")
	}
}

// Stderr is what the command, which has ended, has complained of.
func (c *Command) Stderr() string {
	<-c.ended
	return c.bad.String()
}

// until waits until something holds, while the command runs.
func (c *Command) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(c.limit); !holds(); time.Sleep(100 * time.Millisecond) {
		require.True(c.t, c.Lives(), "the command ended (%v) while waiting for %s", c.err, what)
		require.True(c.t, time.Now().Before(end), "waiting for %s", what)
	}
}

// Await returns the first event that ok accepts.
func (c *Command) Await(what string, ok func(Event) bool) Event {
	c.t.Helper()
	var found Event
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

// AwaitText waits for a line that matches a regular expression, and returns what its groups match.
func (c *Command) AwaitText(pattern string) []string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	c.until("a line that matches "+pattern, func() bool {
		for _, l := range c.Lines() {
			if m := re.FindStringSubmatch(l); m != nil {
				found = m[1:]
				return true
			}
		}
		return false
	})
	return found
}

// Running waits until all roles of a node run, with nothing that failed, and returns the status line that says so.
func (c *Command) Running(node string) vm.Status {
	c.t.Helper()
	var s vm.Status
	c.Await(node+" to run its roles", func(e Event) bool {
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
	return s
}

// ProxyAddress is where the command says that the way into the network is.
func (c *Command) ProxyAddress() string {
	c.t.Helper()
	return strings.Join(c.AwaitText(`SOCKS5 proxy (\S+) into the network|"event":"proxy","address":"([^"]+)"`), "")
}

// Proxy dials into the network; it is a proxy.ContextDialer, too.
func (c *Command) Proxy() proxy.Dialer {
	c.t.Helper()
	d, err := proxy.SOCKS5("tcp", c.ProxyAddress(), nil, proxy.Direct)
	require.NoError(c.t, err)
	return d
}

// started is the event of a node's start.
func (c *Command) started(node string) Event {
	c.t.Helper()
	return c.Await("the start of "+node, func(e Event) bool { return e.Event == "started" && e.Node == node })
}

// Address is this host's end of the forward to a port of a node, such as 53/udp.
func (c *Command) Address(node, port string) string {
	c.t.Helper()
	for _, f := range c.started(node).Forwards {
		if strings.HasSuffix(f.Guest+"/"+f.Protocol, ":"+port) {
			return fmt.Sprintf("127.0.0.1:%d", f.Host)
		}
	}
	require.Fail(c.t, "no port of this host leads to "+port+" of "+node)
	return ""
}

// CPU is the processor time that a node's machine has had until now; 0 when it has ended.
func (c *Command) CPU(node string) time.Duration {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.started(node).PID))
	if err != nil {
		return 0
	}
	// proc_pid_stat(5): the name ends with the last bracket; utime and stime are fields 14 and 15, in hundredths of a second.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(c.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
