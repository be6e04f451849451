package shell

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"spore/builder/cmd/reach"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// startBound is how long a node may take to open a shell: it tells another node of it first.
const startBound = 30 * time.Second

// session is a shell as its person has it.
type session struct {
	cmd   *cobra.Command
	node  string
	grant []byte

	// mu is held by whoever writes a frame.
	mu   sync.Mutex
	conn io.ReadWriteCloser
}

// open opens the shell, and stays until it has ended.
func (s *session) open(c *reach.Cluster) (shell.Outcome, error) {
	in, isTerminal := s.terminal()
	q := nodeapi.Request{
		Method: http.MethodPost, Path: nodeapi.ShellPath, Query: url.Values{},
		Header: http.Header{shell.GrantHeader: {base64.StdEncoding.EncodeToString(s.grant)}},
	}
	if isTerminal {
		size, err := sizeOf(in)
		if err != nil {
			return shell.Outcome{}, err
		}
		q.Query.Set(shell.TermParameter, termName())
		q.Query.Set(shell.RowsParameter, strconv.Itoa(int(size.Rows)))
		q.Query.Set(shell.ColumnsParameter, strconv.Itoa(int(size.Columns)))
	}
	ctx, cancel := context.WithCancelCause(s.cmd.Context())
	defer cancel(nil)
	patience := time.AfterFunc(max(c.Timeout, startBound), func() { cancel(errors.New("no answer in time")) })
	conn, err := c.Client.Upgrade(ctx, s.node, q, shell.Protocol)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return shell.Outcome{}, err
	}
	patience.Stop()
	s.conn = conn
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if isTerminal {
		// The shell's own terminal does what this one did: echo, lines, Control-C.
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return shell.Outcome{}, fmt.Errorf("take the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		go s.resizes(ctx, in)
	}
	go s.beat(ctx)
	go s.send()
	return s.show(ctx)
}

// terminal is the terminal of whoever asks; it is none where input or output leads elsewhere.
func (s *session) terminal() (*os.File, bool) {
	in, ok := s.cmd.InOrStdin().(*os.File)
	out, too := s.cmd.OutOrStdout().(*os.File)
	if !ok || !too || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, false
	}
	return in, true
}

// termName is the kind of terminal, for programs of the node: one that all know where this one's name is odd.
func termName() string {
	t := shell.Terminal{Kind: os.Getenv("TERM"), Size: shell.Size{Rows: 1, Columns: 1}}
	if t.Check() != nil {
		return "vt100"
	}
	return t.Kind
}

func sizeOf(f *os.File) (shell.Size, error) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return shell.Size{}, fmt.Errorf("look how large the terminal is: %w", err)
	}
	size := shell.Size{Rows: uint16(min(max(rows, 0), 1<<16-1)), Columns: uint16(min(max(columns, 0), 1<<16-1))}
	if size.Check() != nil { // One of a serial line may say nothing.
		size = shell.Size{Rows: 24, Columns: 80}
	}
	return size, nil
}

func (s *session) write(kind shell.Kind, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shell.WriteFrame(s.conn, kind, data)
}

// resizes tells the node each change of the terminal's size.
func (s *session) resizes(ctx context.Context, in *os.File) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if size, err := sizeOf(in); err == nil && s.write(shell.Resize, size.Encode()) != nil {
				return
			}
		}
	}
}

// beat gives the node a sign now and then.
func (s *session) beat(ctx context.Context) {
	t := time.NewTicker(shell.Pulse)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if s.write(shell.Alive, nil) != nil {
				return
			}
		}
	}
}

// send sends what is typed, until it ends. A connection that has gone is seen by show.
func (s *session) send() {
	buf := make([]byte, shell.MaxFrame)
	for {
		n, err := s.cmd.InOrStdin().Read(buf)
		if n > 0 && s.write(shell.Input, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = s.write(shell.End, nil)
			return
		}
	}
}

// show shows what the shell shows, as it is, until it has ended. A node that gives no sign any more is given up.
func (s *session) show(ctx context.Context) (shell.Outcome, error) {
	silent := time.AfterFunc(shell.Silence, func() { _ = s.conn.Close() })
	defer silent.Stop()
	for {
		kind, data, err := shell.ReadFrame(s.conn)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return shell.Outcome{}, cause
			}
			return shell.Outcome{}, fmt.Errorf("the connection was lost, and the session with it: %w", err)
		}
		silent.Reset(shell.Silence)
		switch kind {
		case shell.Output:
			if _, err := s.cmd.OutOrStdout().Write(data); err != nil {
				return shell.Outcome{}, fmt.Errorf("show what the shell shows: %w", err)
			}
		case shell.Exit:
			return shell.ParseOutcome(data)
		case shell.Alive:
		default:
			return shell.Outcome{}, shell.ErrFrame
		}
	}
}
