package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spore/wire/shell"
)

// Bounds of the end of a shell. What it has shown is taken to its end; what it has left in the background may have its
// output open, and go on to show something.
const (
	// drainBound is how long more is waited for in all, without what recording and showing it takes.
	drainBound = 500 * time.Millisecond
	// drainMost is how long it may take with that, and drainSize how much it may be, in bytes: a pipe has 1 MiB at most
	// (fcntl(2), F_SETPIPE_SZ).
	drainMost = 30 * time.Second
	drainSize = 1 << 20
	// hangupBound is how long it has after SIGHUP before SIGKILL, and after that before it is left alone.
	hangupBound = 3 * time.Second
)

// program is a shell that runs, on a terminal of its own or on pipes.
type program struct {
	cmd *exec.Cmd
	// in is what it reads, out what it shows. With a terminal they are the same file.
	in, out *os.File
	// terminal is true where it has one.
	terminal bool
	// gone is closed when it has ended, and stuck when SIGKILL has not ended it either: it waits in the kernel, for a disk
	// that does not answer for example.
	gone, stuck chan struct{}
	end         sync.Once
	// rest is what may still be read behind the end.
	rest rest
}

// rest is what may still be read behind the end of a shell.
type rest struct {
	// until is the end of it; it is zero before the first look. wait is how long more is waited for, and size how much
	// it is in bytes.
	until time.Time
	wait  time.Duration
	size  int
}

// start starts a command; with a terminal it has a pseudo-terminal (pty(7)) as its controlling one.
func start(cmd *exec.Cmd, terminal *shell.Terminal) (*program, error) {
	p := &program{cmd: cmd, terminal: terminal != nil, gone: make(chan struct{}), stuck: make(chan struct{})}
	// It leads a session, so that all of it can be told that the line was hung up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var child []*os.File
	var err error
	if terminal != nil {
		child, err = p.onTerminal(*terminal)
	} else {
		child, err = p.onPipes()
	}
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range child {
		_ = f.Close()
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start the shell: %w", err)
	}
	return p, nil
}

func (p *program) onTerminal(t shell.Terminal) ([]*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	p.in, p.out = master, master
	number := 0
	err = control(master, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("unlock a pseudo-terminal: %w", err)
	}
	if err := p.resize(t.Size); err != nil {
		return nil, err
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr.Setctty = true // Its standard input.
	return []*os.File{slave}, nil
}

func (p *program) onPipes() ([]*os.File, error) {
	read, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, write, err := os.Pipe()
	if err != nil {
		return []*os.File{read}, err
	}
	p.out = out
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = read, write, write
	return []*os.File{read, write}, nil
}

// control calls do with the descriptor of a file, which stays one that does not block.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// resize gives the terminal another size; without a terminal it does nothing.
func (p *program) resize(s shell.Size) error {
	if !p.terminal {
		return nil
	}
	err := control(p.in, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
	if err != nil {
		return fmt.Errorf("give the terminal its size: %w", err)
	}
	return nil
}

// endOfFile is Control-D, the character VEOF of a new terminal (termios(3)).
const endOfFile = 4

// noMore tells the shell that nothing more comes.
func (p *program) noMore() error {
	if p.terminal {
		_, err := p.in.Write([]byte{endOfFile})
		return err
	}
	return p.in.Close()
}

// ended tells whether the shell has ended, or will not be waited for.
func (p *program) ended() bool {
	select {
	case <-p.gone:
	case <-p.stuck:
	default:
		return false
	}
	return true
}

// read reads what the shell shows. io.EOF is the end of it.
func (p *program) read(buf []byte) (int, error) {
	now := time.Now()
	behind := p.ended()
	if behind {
		if p.rest.until.IsZero() {
			p.rest = rest{until: now.Add(drainMost), wait: drainBound, size: drainSize}
		}
		if now.After(p.rest.until) || p.rest.wait <= 0 || p.rest.size <= 0 {
			return 0, io.EOF
		}
		if err := p.out.SetReadDeadline(now.Add(p.rest.wait)); err != nil {
			return 0, io.EOF
		}
	}
	n, err := p.out.Read(buf)
	if behind {
		p.rest.wait -= time.Since(now)
		p.rest.size -= n
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // The next call knows whether there is time left.
		err = nil
	case errors.Is(err, unix.EIO), errors.Is(err, os.ErrClosed): // A terminal that nobody has open any more gives EIO.
		err = io.EOF
	}
	return n, err
}

// wait waits for the end of the shell, and returns its exit status as another shell would see it. What it has left in
// the background, with its output open, is not waited for.
func (p *program) wait() int {
	go func() {
		_ = p.cmd.Wait() // The state says more.
		close(p.gone)
	}()
	select {
	case <-p.gone:
	case <-p.stuck:
		_ = p.out.SetReadDeadline(time.Now())
		return 128 + int(unix.SIGKILL)
	}
	_ = p.out.SetReadDeadline(time.Now()) // Who reads looks again, and knows that it has ended.
	s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && s.Signaled():
		return 128 + int(s.Signal())
	case ok:
		return s.ExitStatus()
	}
	return 255
}

// hangup ends the shell and what it runs, as the end of a line does. A shell that is stuck in the kernel is left alone:
// nothing ends it, and another one may be needed all the more.
func (p *program) hangup() {
	p.end.Do(func() {
		group := -p.cmd.Process.Pid
		// What was stopped hears of it when it goes on.
		for _, signals := range [][]unix.Signal{{unix.SIGHUP, unix.SIGCONT}, {unix.SIGKILL}} {
			if p.ended() { // The number may be that of others.
				return
			}
			for _, s := range signals {
				_ = unix.Kill(group, s)
			}
			select {
			case <-p.gone:
				return
			case <-time.After(hangupBound):
			}
		}
		close(p.stuck)
	})
}

func (p *program) close() {
	for _, f := range []*os.File{p.in, p.out} {
		if f != nil {
			_ = f.Close()
		}
	}
}
