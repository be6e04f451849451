package syslog

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
)

// MaxDatagram is what every receiver of UDP should take (RFC 5426, section 3.2). MaxStream is below what every receiver
// of TLS should, 8192 (RFC 5425, section 4.3.1): rsyslog takes 8096 where its settings do not say more, and others end
// the connection at more.
const MaxDatagram, MaxStream = 2048, 8000

// Server is where messages go; Transport is udp, tcp or tls.
type Server struct {
	Address, Transport string
	TLS                *tls.Config
}

// Dial connects.
func (s Server) Dial(ctx context.Context) (net.Conn, error) {
	switch s.Transport {
	case "tls":
		d := tls.Dialer{Config: s.TLS}
		return d.DialContext(ctx, "tcp", s.Address)
	case "tcp", "udp":
		return new(net.Dialer).DialContext(ctx, s.Transport, s.Address)
	}
	return nil, fmt.Errorf("the transport %.16q is unknown", s.Transport)
}

// Most is how long a message may be, in bytes.
func (s Server) Most() int {
	if s.Transport == "udp" {
		return MaxDatagram
	}
	return MaxStream
}

// AppendFrame appends a message as it stands in a stream: behind the number of its bytes.
func AppendFrame(b, message []byte) []byte {
	b = strconv.AppendInt(b, int64(len(message)), 10)
	b = append(b, ' ')
	return append(b, message...)
}
