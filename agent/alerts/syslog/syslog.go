// Package syslog sends alerts to a server of syslog: lines of RFC 5424 over UDP (RFC 5426), TCP with counted octets
// (RFC 6587, section 3.4.1) or TLS (RFC 5425). It listens to nothing.
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
	"strings"
	"time"

	"spore/agent/alerts/notice"
)

const (
	// facility is daemon (RFC 5424, section 6.2.1).
	facility = 3
	// maxLine is what every receiver of UDP should take (RFC 5426, section 3.2); more of a line is cut.
	maxLine = 2048
	// objection is how long a server has to refuse lines.
	objection = 2 * time.Second
	// application is APP-NAME, message MSGID, and element SD-ID. 32473 is the number of examples (RFC 5612): the project
	// has none.
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
	var b strings.Builder
	fmt.Fprintf(&b, "<%d>1 %s %s %s - %s [%s", facility*8+severity,
		now.UTC().Format("2006-01-02T15:04:05.000000Z"), name(host, 255), application, message, element)
	for _, p := range []struct{ key, value string }{
		{"status", status}, {"name", a.Name}, {"severity", a.Severity}, {"instance", a.Instance}, {"cluster", cluster},
		{"since", stamp(a.Since)}, {"until", stamp(a.Until)}, {"fingerprint", a.Fingerprint},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=\"%s\"", p.key, escape.Replace(notice.Text(p.value, 128)))
		}
	}
	b.WriteString("] ")
	b.WriteString(notice.Text(a.Summary, maxLine))
	return []byte(notice.Text(b.String(), maxLine))
}

// escape is for values of structured data (section 6.3.3).
var escape = strings.NewReplacer(`"`, `\"`, `\`, `\\`, `]`, `\]`)

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// name is a text of visible ASCII (section 6), or - where nothing is left.
func name(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// Server is where lines go; Transport is udp, tcp or tls.
type Server struct {
	Address, Transport string
	TLS                *tls.Config
}

// Send sends lines. What nobody acknowledges may be lost: syslog has no answers.
func (s Server) Send(ctx context.Context, lines [][]byte) error {
	c, err := s.dial(ctx)
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
			l = append([]byte(strconv.Itoa(len(l))+" "), l...)
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
	_, err := io.CopyN(io.Discard, c, maxLine)
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return ended
	}
	return errors.Join(err, ended)
}

func (s Server) dial(ctx context.Context) (net.Conn, error) {
	switch s.Transport {
	case "tls":
		d := tls.Dialer{Config: s.TLS}
		return d.DialContext(ctx, "tcp", s.Address)
	case "tcp", "udp":
		return new(net.Dialer).DialContext(ctx, s.Transport, s.Address)
	}
	return nil, fmt.Errorf("the transport %.16q is unknown", s.Transport)
}
