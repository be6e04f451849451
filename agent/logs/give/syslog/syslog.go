// Package syslog gives entries to a server of syslog (RFC 5424): over TLS or TCP, or over UDP, which loses what it likes.
//
// Syslog has no answers. Over TLS and TCP the server has a batch when it ends its side of the connection after this side
// was ended: then it has read everything. Of a server that does not, what its kernel confirmed counts (SIOCOUTQ,
// tcp(7)). After a connection that broke, what went out within a short time before goes out again: the server may have
// had it in memory alone. So entries may arrive twice; none is lost with a connection.
package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/logs/give/parcel"
	"spore/agent/syslog"
)

const (
	// maxEntries and maxBytes bound what goes out by one connection.
	maxEntries, maxBytes = 4000, 2 << 20
	// patience is how long a connection may take from its beginning to its end.
	patience = time.Minute
	// ends is how long a server has to end its side; then, and not before, the kernel is asked.
	ends = 5 * time.Second
	// recent is for how long a server may have messages in memory alone, and recentBytes bounds what is kept of them.
	recent, recentBytes = 10 * time.Second, 4 << 20
	// burst is after how many datagrams there is a pause, so that the server's buffer, of 200 KiB mostly, holds them.
	burst, rest = 32, 2 * time.Millisecond
	// objection is how long a network has to say that nobody takes datagrams.
	objection = 50 * time.Millisecond
	// maxValue bounds a value of structured data, in bytes.
	maxValue = 512
	// element is the SD-ID. 32473 is the number of examples (RFC 5612): the project has none.
	element = "spore@32473"
	// audited is the facility of the audit log (RFC 5424, section 6.2.1), and daemon that of entries without any.
	audited, daemon = 13, 3
)

// Receiver is one server.
type Receiver struct {
	server syslog.Server
	now    func() time.Time
	// sent are messages that went out a short time ago, and again tells that they have to go out once more.
	sent  []sent
	again bool
}

// sent are the frames of one connection.
type sent struct {
	at     time.Time
	frames []byte
}

// New makes a receiver. now is the time.
func New(s syslog.Server, now func() time.Time) *Receiver { return &Receiver{server: s, now: now} }

// Give sends entries.
func (r *Receiver) Give(ctx context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	out := parcel.Outcome{Left: entries}
	for len(out.Left) > 0 {
		n := parcel.First(out.Left, maxEntries, maxBytes)
		var err error
		if r.server.Transport == "udp" {
			err = r.datagrams(ctx, out.Left[:n])
		} else {
			err = r.stream(ctx, out.Left[:n])
		}
		if err != nil {
			return out, err
		}
		out.Left = out.Left[n:]
	}
	return out, nil
}

// stream sends entries by one connection, behind what has to go out again.
func (r *Receiver) stream(ctx context.Context, entries []parcel.Entry) error {
	r.forget()
	var frames []byte
	for _, e := range entries {
		frames = syslog.AppendFrame(frames, message(e).Append(nil, r.server.Most()))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.connection(ctx, frames); err != nil {
		r.again = len(r.sent) > 0
		return err
	}
	r.again = false
	r.sent = append(r.sent, sent{r.now(), frames})
	return nil
}

// forget forgets what the server has had for long enough, unless it is to go out again.
func (r *Receiver) forget() {
	now, bytes := r.now(), 0
	for i := len(r.sent) - 1; i >= 0; i-- {
		bytes += len(r.sent[i].frames)
		if age := now.Sub(r.sent[i].at); bytes > recentBytes || !r.again && (age > recent || age < 0) {
			r.sent = r.sent[i+1:]
			return
		}
	}
}

func (r *Receiver) connection(ctx context.Context, frames []byte) error {
	c, err := r.server.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if r.again {
		for _, s := range r.sent {
			if _, err := c.Write(s.frames); err != nil {
				return fmt.Errorf("send to the syslog server again: %w", err)
			}
		}
	}
	if _, err := c.Write(frames); err != nil {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	if err := confirmed(ctx, c); err != nil {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	return nil
}

// confirmed ends this side of a connection, and waits until the server ends its own.
func confirmed(ctx context.Context, c net.Conn) error {
	half, is := c.(interface{ CloseWrite() error })
	if !is {
		return errors.New("internal error: the connection has no sides")
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	err := untilEnd(c)
	switch {
	// Many end TLS without its notice, which is io.ErrUnexpectedEOF.
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	case ctx.Err() == nil && errors.Is(err, os.ErrDeadlineExceeded):
	default:
		return fmt.Errorf("the server ended the connection before it had read all: %w", err)
	}
	// One that ended its side at once has read nothing.
	return confirmedByKernel(c)
}

// untilEnd reads until the server ends its side. What it says is nothing of syslog; one that says much is not waited
// for.
func untilEnd(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(ends)); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, syslog.MaxDatagram); err != nil {
		return err
	}
	return errors.New("it says something, as no server of syslog does")
}

// confirmedByKernel tells whether the server's kernel has everything.
func confirmedByKernel(c net.Conn) error {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	t, is := c.(*net.TCPConn)
	if !is {
		return errors.New("internal error: the connection is not TCP")
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var left int
	var asked error
	if err := raw.Control(func(fd uintptr) { left, asked = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); err != nil {
		return err
	}
	switch {
	case asked != nil:
		return fmt.Errorf("ask what the server confirmed: %w", asked)
	case left > 1: // The end of this side counts as one byte.
		return fmt.Errorf("the server does not confirm the last %d bytes", left)
	}
	return nil
}

// datagrams sends each entry as one datagram.
func (r *Receiver) datagrams(ctx context.Context, entries []parcel.Entry) error {
	c, err := r.server.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server: %w", err)
	}
	defer c.Close()
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 && i%burst == 0 {
			time.Sleep(rest)
		}
		if _, err := c.Write(message(e).Append(nil, r.server.Most())); err != nil {
			return fmt.Errorf("send to the syslog server: %w", err)
		}
	}
	return refused(c)
}

// refused tells whether somebody says that nobody listens, which comes behind the datagrams (ICMP).
func refused(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(objection)); err != nil {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	return nil
}

// described are the pairs of structured data, the most important first: the last are left out where there is no room.
var described = []struct{ name, field string }{
	{"cluster", parcel.Cluster}, {"node", parcel.Node}, {"source", parcel.Source}, {"unit", parcel.Unit},
	{"namespace", parcel.Namespace}, {"pod", parcel.Pod}, {"container", parcel.Container},
	{"stream", parcel.Stream}, {"role", parcel.Role}, {"cursor", parcel.Cursor},
}

// message is an entry as a message.
func message(e parcel.Entry) syslog.Message {
	m := syslog.Message{
		Facility: facility(e), Severity: e.Importance(), Time: e.Time, Host: e.Get(parcel.Node),
		Application: e.Get(parcel.Identifier), Process: e.Get(parcel.Process), ID: e.Get(parcel.ID),
		Element: element, Text: e.Text,
	}
	for _, other := range []string{parcel.Unit, parcel.Container, parcel.Source} {
		if m.Application == "" {
			m.Application = e.Get(other)
		}
	}
	for _, d := range described {
		m.Params = append(m.Params, syslog.Param{Name: d.name, Value: parcel.Cut(e.Get(d.field), maxValue)})
	}
	return m
}

func facility(e parcel.Entry) int {
	if n, err := strconv.ParseUint(e.Get(parcel.Facility), 10, 8); err == nil {
		return int(n) // Others than those of the RFC become daemon.
	}
	if e.Get(parcel.Source) == "audit" {
		return audited
	}
	return daemon
}
