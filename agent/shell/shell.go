// Package shell opens an emergency shell for a person who has a grant of the operator's offline key (wire/shell). A
// process of root for each call gets the grant through a socket from the API's server (agent/answers), which has no
// rights and only passes on what both sides say. The process trusts the signature alone: it opens the grant again,
// looks that it is for this node, now, and for the certificate that the server has seen, and that nobody has used it.
//
// What is shown is handed to the journal, and is shown when that has taken it and not before. The session ends with
// the shell, with its time, and with the connection. What a person starts with systemd-run(1) or the like goes on: root
// is root. The package does not keep root from changing the record; the records of the call are on another node, too
// (agent/trail).
package shell

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/shell/kept"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// Bounds.
const (
	// maxCall is how much of a call is read, in bytes.
	maxCall = shell.MaxGrant*2 + 4<<10
	// callBound is how long a call may take to come, and how long one frame to go.
	callBound = 10 * time.Second
	// maxRecord is how much of a session is recorded, in bytes: what it shows and what its shell reads from a pipe, and
	// recordCost for each record. The journal has it all and is bounded, and so is a replay.
	maxRecord  = 32 << 20
	recordCost = 64
)

// Unit is the socket of images that have a shell.
const Unit = "spore-shell.socket"

// maxKeys is that of the file of keys, in bytes.
const maxKeys = 1 << 10

// Built tells whether the image has a shell.
func Built(root paths.Root) bool {
	_, err := os.Lstat(root.At(shell.KeysPath))
	return err == nil
}

// Call is what comes first through the socket: a line of JSON. Frames follow the answer.
type Call struct {
	Grant []byte `json:"grant"`
	// Caller is the name in the certificate of whoever asks, Serial its serial number, Fingerprint its SHA-256, Roles its
	// roles, From the address.
	Caller      string         `json:"caller"`
	Serial      string         `json:"serial"`
	Fingerprint string         `json:"fingerprint"`
	Roles       []nodeapi.Role `json:"roles"`
	From        string         `json:"from"`
	// Terminal is that of whoever asks; there is none where the shell is to read a pipe.
	Terminal *shell.Terminal `json:"terminal,omitempty"`
}

// Answer follows a call: a line of JSON. Without an error the shell runs.
type Answer struct {
	Error string `json:"error,omitempty"`
}

// ParseCall reads a call.
func ParseCall(line []byte) (Call, error) {
	var c Call
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Call{}, fmt.Errorf("the call is malformed: %w", err)
	}
	if c.Terminal != nil {
		if err := c.Terminal.Check(); err != nil {
			return Call{}, fmt.Errorf("the call is malformed: %w", err)
		}
	}
	return c, nil
}

// Server opens shells.
type Server struct {
	Machine *node.Machine
	// Send records a part of a session.
	Send func([]Field) error
	// Command is the shell.
	Command func(terminal bool) *exec.Cmd
}

// bearBrokenPipes keeps Go from ending the process when its journal has gone (os/signal). The signal is taken rather
// than ignored: the shell and all that it starts would ignore it, too, and `yes | head` would not end as everywhere
// else.
func bearBrokenPipes() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
}

// Serve is spore-shell@.service: one call, whose connection is its standard input.
func Serve(ctx context.Context, m *node.Machine) error {
	bearBrokenPipes()
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return fmt.Errorf("take the connection of the API: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("the standard input is not the socket of the API")
	}
	journal := &Journal{Path: m.Root.At(journalSocket)}
	defer journal.Close()
	s := Server{Machine: m, Send: journal.Send, Command: bash}
	return s.Serve(ctx, unixConn)
}

// bash is the shell of the image. It keeps no history: the journal does.
func bash(terminal bool) *exec.Cmd {
	cmd := exec.Command("/bin/bash", "-s")
	if terminal {
		cmd = exec.Command("/bin/bash", "--login")
	}
	cmd.Dir = "/"
	cmd.Env = []string{
		"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "HISTFILE=",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	return cmd
}

// Serve answers one call on a connection, and closes it.
func (s *Server) Serve(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, maxCall)
	call, g, unlock, err := s.admit(conn, in)
	if unlock != nil {
		defer unlock()
	}
	if err != nil {
		s.Machine.Say(fmt.Sprintf("a shell is refused: %v", err))
		return s.answer(conn, Answer{Error: err.Error()})
	}
	return s.open(ctx, conn, in, call, g)
}

func (s *Server) answer(conn net.Conn, a Answer) error {
	data, err := json.Marshal(a)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(callBound))
	}
	if err == nil {
		_, err = conn.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("answer the API: %w", err)
	}
	return nil
}

// admit reads a call, and lets it in when its grant holds. Nothing was used up when it is refused.
func (s *Server) admit(conn net.Conn, in *bufio.Reader) (call Call, g shell.Grant, unlock func(), err error) {
	if err := conn.SetReadDeadline(time.Now().Add(callBound)); err != nil {
		return call, g, nil, fmt.Errorf("read the call: %w", err)
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return call, g, nil, errors.New("the call was cut off or is too large")
	}
	if call, err = ParseCall(line); err != nil {
		return call, g, nil, err
	}
	if !(nodeapi.Caller{Roles: call.Roles}).Is(nodeapi.Owners()...) {
		return call, g, nil, errors.New("a shell is not for this certificate")
	}
	c, n, err := s.Machine.Self()
	if err != nil {
		return call, g, nil, err
	}
	data, err := atomicfile.ReadLimited(s.Machine.Root.At(shell.KeysPath), maxKeys)
	if err != nil {
		return call, g, nil, fmt.Errorf("read whose grants are taken: %w", err)
	}
	keys, err := shell.ParseKeys(data)
	if err != nil {
		return call, g, nil, fmt.Errorf("read whose grants are taken: %w", err)
	}
	if g, err = shell.Open(call.Grant, keys); err != nil {
		return call, g, nil, err
	}
	here := shell.Here{Cluster: c.ID, Node: n.Name, Now: s.Machine.Now(), Certificate: call.Fingerprint}
	if err := g.For(here); err != nil {
		return call, g, nil, err
	}
	book := kept.In(s.Machine.Root)
	if err := book.Used(g.ID); err != nil { // Also while its shell is open.
		return call, g, nil, err
	}
	if unlock, err = book.Lock(g.ID); err != nil {
		return call, g, nil, err
	}
	return call, g, unlock, nil
}

// open records that a session begins, uses the grant up, and runs the shell to its end.
func (s *Server) open(ctx context.Context, conn *net.UnixConn, in *bufio.Reader, call Call, g shell.Grant) error {
	now := s.Machine.Now().UTC().Truncate(time.Second)
	book := kept.In(s.Machine.Root)
	r := &recorder{send: s.Send, session: g.ID, began: time.Now()}
	who := fmt.Sprintf("%q (certificate %s) at %s", clip(call.Caller), clip(call.Serial), clip(call.From))
	err := r.record(shell.StreamBegin, nil,
		fmt.Sprintf("shell %s begins: %s, for at most %d minutes, because: %s", g.ID, who, g.Minutes, g.Reason))
	if err == nil {
		err = book.Begin(shell.Session{
			ID: g.ID, User: clip(call.Caller), Serial: clip(call.Serial), From: clip(call.From),
			Reason: g.Reason, Minutes: g.Minutes, Until: g.Until, Begun: now,
		}, now)
	}
	if err != nil {
		err = fmt.Errorf("no shell without a record of it: %w", err)
		s.Machine.Say(err.Error())
		return s.answer(conn, Answer{Error: err.Error()})
	}
	outcome, failed := s.run(ctx, conn, in, r, g, call.Terminal)
	if failed != nil {
		outcome = shell.Outcome{Status: 255, Why: failed.Error()}
	}
	// Whoever is told the end finds it recorded.
	ended := r.record(shell.StreamEnd, nil,
		fmt.Sprintf("shell %s of %s ended: %s; it has shown %d bytes", g.ID, who, outcome, r.total()))
	noted := book.Change(g.ID, func(k *shell.Session) error {
		k.Ended, k.Result, k.Shown = s.Machine.Now().UTC().Truncate(time.Second), outcome.String(), r.total()
		return nil
	})
	if failed != nil { // It did not start.
		err = s.answer(conn, Answer{Error: outcome.Why})
	} else {
		err = s.last(conn, outcome)
	}
	if outcome.Why != "" {
		err = nil // Nobody may be there to be told.
	}
	return errors.Join(err, ended, noted)
}

// clip keeps what the API's server says within bounds, and has nothing in it that a terminal obeys: it is shown on the
// console and in the journal.
func clip(text string) string {
	text = nodeapi.Harmless(text)
	return strings.ToValidUTF8(text[:min(len(text), 256)], "")
}

// last tells how the session ended.
func (s *Server) last(conn net.Conn, o shell.Outcome) error {
	data, err := json.Marshal(o)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(callBound))
	}
	if err == nil {
		err = shell.WriteFrame(conn, shell.Exit, data)
	}
	if err != nil {
		return fmt.Errorf("tell the end of the session: %w", err)
	}
	return nil
}

// Reasons for an end that is not the shell's own.
var (
	errTime    = errors.New("its time was over")
	errLost    = errors.New("the connection was lost")
	errStopped = errors.New("the node stopped it")
	errMuch    = fmt.Errorf("its record had more than %d MiB", maxRecord>>20)
)

// session is a shell that is open.
type session struct {
	conn net.Conn
	in   *bufio.Reader
	rec  *recorder
	p    *program
	// stop ends it, with a reason.
	stop context.CancelCauseFunc
	// mu is held by whoever writes a frame. With over, the last one is on its way.
	mu   sync.Mutex
	over bool
}

// run runs the shell. An error is one of its start.
func (s *Server) run(
	ctx context.Context, conn *net.UnixConn, in *bufio.Reader, rec *recorder, g shell.Grant, terminal *shell.Terminal,
) (shell.Outcome, error) {
	cmd := s.Command(terminal != nil)
	if terminal != nil {
		cmd.Env = append(cmd.Env, "TERM="+terminal.Kind)
	}
	p, err := start(cmd, terminal)
	if err != nil {
		return shell.Outcome{}, err
	}
	defer p.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The monotonic clock: nobody lengthens a session by setting the other one.
	timer := time.AfterFunc(time.Duration(g.Minutes)*time.Minute, func() { stop(errTime) })
	defer timer.Stop()
	unhook := context.AfterFunc(ctx, p.hangup)
	defer unhook()
	o := &session{conn: conn, in: in, rec: rec, p: p, stop: stop}
	if err := s.answer(conn, Answer{}); err != nil {
		stop(errLost)
	}
	go o.watch(ctx, conn)
	go o.take()
	go o.beat(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		o.show()
	}()
	status := p.wait()
	<-shown
	outcome := shell.Outcome{Status: status}
	if ctx.Err() != nil {
		if outcome.Why = errStopped.Error(); !errors.Is(context.Cause(ctx), context.Canceled) {
			outcome.Why = context.Cause(ctx).Error()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	return outcome, nil
}

// show records what the shell shows, and passes it on.
func (o *session) show() {
	buf := make([]byte, shell.MaxFrame)
	for {
		n, err := o.p.read(buf)
		if n > 0 {
			if err := o.rec.part(shell.StreamOutput, buf[:n]); err != nil {
				o.stop(err)
				return
			}
			if err := o.write(shell.Output, buf[:n]); err != nil {
				o.stop(errLost)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (o *session) write(kind shell.Kind, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return nil
	}
	if err := o.conn.SetWriteDeadline(time.Now().Add(shell.Silence)); err != nil {
		return err
	}
	return shell.WriteFrame(o.conn, kind, data)
}

// take gives the shell what its person sends.
func (o *session) take() {
	for {
		// Whoever is there gives a sign.
		if err := o.conn.SetReadDeadline(time.Now().Add(shell.Silence)); err != nil {
			o.stop(errLost)
			return
		}
		kind, data, err := shell.ReadFrame(o.in)
		switch {
		case errors.Is(err, shell.ErrFrame):
			o.stop(err)
			return
		case err != nil:
			o.stop(errLost)
			return
		}
		if err := o.obey(kind, data); err != nil {
			o.stop(err)
			return
		}
	}
}

// obey does what a frame says. A shell that reads no more is no error: it says why by its end.
func (o *session) obey(kind shell.Kind, data []byte) error {
	switch kind {
	case shell.Input:
		if o.p.ended() { // Nobody reads it any more.
			return nil
		}
		if !o.p.terminal { // Nothing shows what it reads.
			if err := o.rec.part(shell.StreamInput, data); err != nil {
				return err
			}
		}
		_, _ = o.p.in.Write(data)
	case shell.End:
		_ = o.p.noMore()
	case shell.Resize:
		size, err := shell.ParseSize(data)
		if err != nil {
			return err
		}
		return o.p.resize(size)
	case shell.Alive:
	default:
		return shell.ErrFrame
	}
	return nil
}

// beat gives a sign of life now and then.
func (o *session) beat(ctx context.Context) {
	t := time.NewTicker(shell.Pulse)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := o.write(shell.Alive, nil); err != nil {
				o.stop(errLost)
				return
			}
		}
	}
}

// watchEvery is how long a look at the connection takes: the session ends within that time.
const watchEvery = 500 * time.Millisecond

// watch ends the session when the other side has gone, also while the shell takes nothing and so nothing is read.
func (o *session) watch(ctx context.Context, conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	for err == nil && ctx.Err() == nil {
		var n int
		var failed error
		err = raw.Control(func(fd uintptr) {
			n, failed = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, int(watchEvery.Milliseconds()))
		})
		switch {
		case errors.Is(failed, unix.EINTR):
		case failed != nil:
			err = failed
		case n > 0:
			o.stop(errLost)
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		o.stop(fmt.Errorf("watch the connection: %w", err))
	}
}
