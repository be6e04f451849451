// Package apart runs the server of network boot in a process of its own: DHCP, TFTP and HTTP are answered by one that
// has no terminal, no keys and no way to them, whoever it is started by.
//
// The program starts itself again. The new process takes the following off before it reads anything from the network:
//
//	files     all but the output folder, to read, and what the program needs to start (landlock(7))
//	processes those outside of it: it can trace none, and since Linux 6.12 signal none (landlock(7))
//	rights    what other programs could give it (PR_SET_NO_NEW_PRIVS)
//	root      where it was started by root: it is nobody once its ports are open
//	terminal  it has a session of its own, and pipes
//
// Where it was not started by root, it keeps the account of who started it, and the two capabilities that the program
// file may have. It ends with the process that started it: its standard input does.
package apart

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"spore/builder/netboot"
	"spore/builder/netboot/approvals"
	"spore/builder/netboot/control"
	"spore/builder/netboot/dhcp"
)

// Command is the word that the program is started with; Confined follows it once the process has taken off what it can
// before its ports are open.
const (
	Command  = "serve-network"
	Confined = "--confined"
)

// controlFD is the control socket in the new process.
const controlFD = 3

// maxLine bounds one line of the new process, in bytes.
const maxLine = 1 << 20

// Setup is what the server is told: netboot.Options without what is of the process that started it.
type Setup struct {
	// Folder is the name of the folder for network boot in the output folder, which is the working directory.
	Folder             string
	Card               netboot.Card
	DHCP               dhcp.Mode
	First, Last        netip.Addr
	HTTPPort, TFTPPort int
	Install            map[string]string
	Answers            map[string]string
}

// message is one line of the new process.
type message struct {
	// Say is for the operator, Base the URL of the folder once all ports are open, and Error why the server ends.
	Say   string `json:"say,omitempty"`
	Base  string `json:"base,omitempty"`
	Error string `json:"error,omitempty"`
}

// Child is the new process.
type Child struct {
	// Base is the URL of the folder.
	Base string
	cmd  *exec.Cmd
	in   io.Closer
	done chan error
	// patience is how long it has to end once it was told to.
	patience time.Duration
}

// endBound is the patience.
const endBound = 5 * time.Second

// Start starts the process and returns when its ports are open. listener is the control socket. say is called for each
// line that is for the operator.
func Start(out string, s Setup, listener *control.Listener, say func(format string, args ...any)) (*Child, error) {
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command("/proc/self/exe", Command)
	cmd.Dir = out
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var failed tail
	cmd.Stderr = &failed
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server's own process: %w", err)
	}
	c := &Child{cmd: cmd, in: in, done: make(chan error, 1), patience: endBound}
	base := make(chan string, 1)
	go func() { c.done <- c.listen(said, &failed, base, say) }()
	if err := json.NewEncoder(in).Encode(s); err != nil {
		c.Close()
		return nil, errors.Join(<-c.done, err)
	}
	select {
	case c.Base = <-base:
		return c, nil
	case err := <-c.done:
		c.done <- err
		if err == nil {
			err = errors.New("the server's own process has ended")
		}
		return nil, err
	}
}

// listen hands on what the process says, until it ends.
func (c *Child) listen(said io.Reader, failed *tail, base chan<- string, say func(format string, args ...any)) error {
	var end error
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch {
		case m.Base != "":
			select {
			case base <- control.Printable(m.Base):
			default:
			}
		case m.Error != "":
			end = errors.New(control.Printable(m.Error))
		default:
			say("%s", control.Printable(m.Say))
		}
	}
	_, _ = io.Copy(io.Discard, said)
	if err := c.cmd.Wait(); err != nil && end == nil {
		end = fmt.Errorf("the server's own process has failed: %w\n%s", err, control.Printable(failed.String()))
	}
	return end
}

// tail keeps the last of what was written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-4096):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// Close has the process end.
func (c *Child) Close() { c.in.Close() }

// Wait waits until the process ends, or has it end with the context.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case err := <-c.done:
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = errors.New("the server's own process has ended")
		}
		return err
	case <-ctx.Done():
		return c.end()
	}
}

// end has the process end, also one that somebody took over from the network and that does not want to.
func (c *Child) end() error {
	c.Close()
	select {
	case <-c.done:
		return nil
	case <-time.After(c.patience):
	}
	if err := c.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("the server's own process (%d) did not end when it was told to: %w; kill it", c.cmd.Process.Pid, err)
	}
	<-c.done
	return errors.New("the server's own process did not end when it was told to, and was killed")
}

// Run is the new process, with the words behind Command. It ends when its standard input does.
func Run(args []string, in io.Reader, out io.Writer) error {
	speaker := &speaker{w: json.NewEncoder(out)}
	if len(args) != 1 || args[0] != Confined {
		return confine(speaker.say)
	}
	err := run(in, speaker)
	if err != nil {
		speaker.send(message{Error: err.Error()})
	}
	return nil
}

// speaker sends messages from any goroutine.
type speaker struct {
	mu sync.Mutex
	w  *json.Encoder
}

func (s *speaker) send(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.w.Encode(m) // Who listened is gone; the end of the standard input says so, too.
}

func (s *speaker) say(format string, args ...any) { s.send(message{Say: fmt.Sprintf(format, args...)}) }

func run(in io.Reader, speaker *speaker) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	words := json.NewDecoder(in)
	var s Setup
	if err := words.Decode(&s); err != nil {
		return fmt.Errorf("internal error: read what to serve: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0) // At once: the ports are to be free for the next one.
	}()
	file := os.NewFile(controlFD, "control")
	socket, err := net.FileListener(file) // It has a copy.
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("internal error: take the control socket: %w", err)
	}
	defer socket.Close()
	kept, err := approvals.Load(".")
	if err != nil {
		speaker.say("%v", err)
	}
	server, err := netboot.Open(ctx, netboot.Options{
		Dir: s.Folder, Card: s.Card, DHCP: s.DHCP, First: s.First, Last: s.Last, HTTPPort: s.HTTPPort, TFTPPort: s.TFTPPort, Install: s.Install, Answers: s.Answers,
		Approved: kept, Say: speaker.say, Now: time.Now,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	if err := dropRoot(s.Folder); err != nil {
		return err
	}
	speaker.send(message{Base: server.Base()})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return control.ServeOn(ctx, socket, server) })
	return group.Wait()
}
