// Package syslog sends alerts to a server of syslog: a message of each (spore/agent/syslog). It listens to nothing.
package syslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"spore/agent/alerts/notice"
	"spore/agent/syslog"
)

const (
	// facility is daemon (RFC 5424, section 6.2.1).
	facility = 3
	// objection is how long a server has to refuse lines.
	objection = 2 * time.Second
	// application is APP-NAME, message MSGID, and element SD-ID. 32473 is the number of examples (RFC 5612): the
	// project has none.
	application, message, element = "spore-alerts", "alert", "alert@32473"
)

// severities are those of RFC 5424, by those of alerts.
var severities = map[string]int{"critical": 2, "warning": 4, "info": 6}

// resolved is the severity of an alert that is over: notice.
const resolved = 5

// Line is the line of an alert, from a host at a time.
func Line(a notice.Alert, cluster, host string, now time.Time) []byte {
	severity, known := severities[a.Severity]
	if !known {
		severity = severities["warning"]
	}
	status := "firing"
	if !a.Firing {
		severity, status = resolved, "resolved"
	}
	m := syslog.Message{
		Facility: facility, Severity: severity, Time: now, Host: host, Application: application, ID: message,
		Element: element, Text: notice.Text(a.Summary, syslog.MaxDatagram),
	}
	for _, p := range []syslog.Param{
		{Name: "status", Value: status}, {Name: "name", Value: a.Name}, {Name: "severity", Value: a.Severity},
		{Name: "instance", Value: a.Instance}, {Name: "cluster", Value: cluster},
		{Name: "since", Value: stamp(a.Since)}, {Name: "until", Value: stamp(a.Until)},
		{Name: "fingerprint", Value: a.Fingerprint},
	} {
		m.Params = append(m.Params, syslog.Param{Name: p.Name, Value: notice.Text(p.Value, 128)})
	}
	return m.Append(nil, syslog.MaxDatagram)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Server is where lines go; Transport is udp, tcp or tls.
type Server syslog.Server

// Send sends lines. What nobody acknowledges may be lost: syslog has no answers.
func (s Server) Send(ctx context.Context, lines [][]byte) error {
	c, err := syslog.Server(s).Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to the syslog server: %w", err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return fmt.Errorf("connect to the syslog server: %w", err)
		}
	}
	for _, l := range lines {
		if s.Transport != "udp" {
			l = syslog.AppendFrame(nil, l)
		}
		if _, err := c.Write(l); err != nil {
			return fmt.Errorf("send to the syslog server: %w", err)
		}
	}
	if half, is := c.(interface{ CloseWrite() error }); is {
		if err := taken(c, half.CloseWrite); err != nil {
			return fmt.Errorf("send to the syslog server: %w", err)
		}
	}
	return nil
}

// taken ends a connection, and hears a server that refuses what it was sent: it says so only after a client has sent,
// such as one that wants a certificate of the client (TLS 1.3), or one that has ended. A server that says nothing for
// some time has nothing against it.
func taken(c net.Conn, end func() error) error {
	ended := end()
	if err := c.SetReadDeadline(time.Now().Add(objection)); err != nil {
		return errors.Join(ended, err)
	}
	_, err := io.CopyN(io.Discard, c, syslog.MaxDatagram)
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return ended
	}
	return errors.Join(err, ended)
}
