// Package syslog gives entries to a server of syslog (RFC 5424): over TLS or TCP, or over UDP, which loses what it
// likes.
//
// Syslog has no answers. A server has read everything when it ends its side of a connection after this side was ended.
// The first entries are given when it did so; then it is trusted, and a connection is used for some time: entries are
// given when its kernel has confirmed them (SIOCOUTQ, tcp(7)), and are kept until the connection has ended in that way,
// and for a while longer, since the server may have them in memory alone. When a connection breaks, all that is kept
// goes out again, and the server is not trusted until it has ended a connection as it should. So entries may arrive
// twice; none is lost with a connection.
package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/logs/give/parcel"
	"spore/agent/syslog"
)

const (
	// maxEntries and maxBytes bound what goes out at once.
	maxEntries, maxBytes = 4000, 2 << 20
	// patience is how long a batch may take: a server may be slow.
	patience = 5 * time.Minute
	// used is for how long a connection is used, and idle after how long without entries it is ended.
	used, idle = 30 * time.Second, 3 * time.Second
	// ends is how long a server has to end its side; then, and not before, the kernel is asked.
	ends = 5 * time.Second
	// recent is for how long a server may have messages in memory alone, and most bounds what is kept, in bytes.
	recent, most = 10 * time.Second, 4 << 20
	// glance is how long a look takes at what a server says, between two of which the kernel confirms.
	glance = 5 * time.Millisecond
	// burst is after how many datagrams there is a pause, so that the server's buffer, of 200 KiB mostly, holds them.
	burst, breath = 32, 2 * time.Millisecond
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

	// mu is for a connection that idles, which is ended meanwhile.
	mu      sync.Mutex
	conn    net.Conn
	began   time.Time
	trusted bool
	rest    *time.Timer
	// kept may have to go out again; the last of it went out by conn.
	kept []frames
}

// frames are messages that went out together. Once the server has read them, read is when.
type frames struct {
	data []byte
	read time.Time
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

// stream sends entries by a connection. With an error, all that is kept goes out again before other entries do.
func (r *Receiver) stream(ctx context.Context, entries []parcel.Entry) error {
	var data []byte
	for _, e := range entries {
		data = syslog.AppendFrame(data, message(e).Append(nil, r.server.Most()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest != nil {
		r.rest.Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.send(ctx, data); err != nil {
		r.broken()
		return err
	}
	r.rest = time.AfterFunc(idle, r.idles)
	return nil
}

func (r *Receiver) send(ctx context.Context, data []byte) error {
	if age := r.now().Sub(r.began); r.conn != nil && (age < 0 || age > used || r.unread()+len(data) > most) {
		if err := r.end(ctx); err != nil {
			return err
		}
	}
	r.forget()
	if r.conn == nil {
		if err := r.connect(ctx); err != nil {
			return err
		}
	}
	stop := r.within(ctx)
	defer stop()
	if _, err := r.conn.Write(data); err != nil {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	if r.trusted {
		if err := arrived(ctx, r.conn); err != nil {
			return fmt.Errorf("send to the syslog server: %w", err)
		}
		r.kept = append(r.kept, frames{data: data})
		return nil
	}
	if err := r.end(ctx); err != nil {
		return err
	}
	r.kept = append(r.kept, frames{data, r.now()})
	return nil
}

// connect connects, and sends again what a connection that broke may have lost.
func (r *Receiver) connect(ctx context.Context) error {
	c, err := r.server.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server: %w", err)
	}
	r.conn, r.began = c, r.now()
	stop := r.within(ctx)
	defer stop()
	for _, k := range r.kept {
		if r.trusted { // The last connection ended as it should.
			break
		}
		if _, err := c.Write(k.data); err != nil {
			return fmt.Errorf("send to the syslog server again: %w", err)
		}
	}
	return nil
}

// within has what is done with the connection end with a context.
func (r *Receiver) within(ctx context.Context) (stop func() bool) {
	c := r.conn
	return context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
}

// end ends the connection. Without an error the server has read everything.
func (r *Receiver) end(ctx context.Context) error {
	stop := r.within(ctx)
	defer stop()
	if err := confirmed(ctx, r.conn); err != nil {
		return fmt.Errorf("send to the syslog server: %w", err)
	}
	_ = r.conn.Close() // Both sides have ended.
	r.conn, r.trusted = nil, true
	for i := range r.kept {
		if r.kept[i].read.IsZero() {
			r.kept[i].read = r.now()
		}
	}
	return nil
}

// idles ends a connection by which nothing goes.
func (r *Receiver) idles() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.conn != nil && r.end(ctx) != nil { // The next entries say so, where it is still so.
		r.broken()
	}
}

// broken has all that is kept go out again by the next connection.
func (r *Receiver) broken() {
	r.forget()
	if r.conn != nil {
		_ = r.conn.Close() // It is not used any more.
	}
	r.conn, r.trusted = nil, false
	for i := range r.kept {
		r.kept[i].read = time.Time{}
	}
}

// forget forgets what the server has read for long enough.
func (r *Receiver) forget() {
	now, bytes := r.now(), 0
	for i, k := range slices.Backward(r.kept) {
		bytes += len(k.data)
		old := now.Sub(k.read) > recent || now.Before(k.read)
		if !k.read.IsZero() && (old || bytes > most) {
			r.kept = slices.Delete(r.kept, 0, i+1)
			return
		}
	}
}

// unread is how much is kept that the server may not have read, in bytes.
func (r *Receiver) unread() (bytes int) {
	for _, k := range r.kept {
		if k.read.IsZero() {
			bytes += len(k.data)
		}
	}
	return bytes
}

// arrived waits until the server's kernel has confirmed everything, unless the server ends the connection.
func arrived(ctx context.Context, c net.Conn) error {
	for {
		if err := quiet(c); err != nil {
			return err
		}
		left, err := unconfirmed(c)
		if err != nil || left == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the server does not confirm the last %d bytes: %w", left, err)
		}
	}
}

// quiet tells that the server says nothing, as it should.
func quiet(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(glance)); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err == nil:
		return errSpeaks
	}
	return fmt.Errorf("the server ended the connection: %w", err)
}

var errSpeaks = errors.New("it says something, as no server of syslog does")

// confirmed ends this side of a connection, and waits until the server ends its own.
func confirmed(ctx context.Context, c net.Conn) error {
	half, is := c.(interface{ CloseWrite() error })
	if !is {
		return errors.New("internal error: the connection has no sides")
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	err := untilEnd(ctx, c)
	switch {
	// Many end TLS without its notice, which is io.ErrUnexpectedEOF.
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	case ctx.Err() == nil && errors.Is(err, os.ErrDeadlineExceeded):
	default:
		return fmt.Errorf("the server ended the connection before it had read all: %w", err)
	}
	// One that ended its side at once has read nothing. The end of this side counts as one byte.
	if left, err := unconfirmed(c); err != nil || left > 1 {
		return errors.Join(err, fmt.Errorf("the server does not confirm the last %d bytes", left))
	}
	return nil
}

// untilEnd reads until the server ends its side. What it says is nothing of syslog; one that says much is not waited
// for.
func untilEnd(ctx context.Context, c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(ends)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // The deadline that it has set is gone (within).
		return err
	}
	if _, err := io.CopyN(io.Discard, c, syslog.MaxDatagram); err != nil {
		return err
	}
	return errSpeaks
}

// unconfirmed is how many bytes the server's kernel has not confirmed.
func unconfirmed(c net.Conn) (bytes int, err error) {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	t, is := c.(*net.TCPConn)
	if !is {
		return 0, errors.New("internal error: the connection is not TCP")
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0, err
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { bytes, asked = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); err != nil {
		return 0, err
	}
	if asked != nil {
		return 0, fmt.Errorf("ask what the server confirmed: %w", asked)
	}
	return bytes, nil
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
			time.Sleep(breath)
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
