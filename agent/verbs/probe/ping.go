package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"spore/wire/machine"
)

// Numbers of ICMP as protocols (IANA, Protocol Numbers).
const (
	protocol4 = 1
	protocol6 = 58
)

// pinger asks one address by echo requests (RFC 792, RFC 4443).
type pinger struct {
	to   netip.Addr
	conn *icmp.PacketConn
	id   int
}

func newPinger(ctx context.Context, host string) (*pinger, error) {
	to, err := resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	// The kernel gives the answers of all programs to each of these sockets; the id tells ours.
	p := &pinger{to: to, id: os.Getpid() & 0xffff}
	how := "ip4:icmp"
	if to.Is6() {
		how = "ip6:ipv6-icmp"
	}
	if p.conn, err = icmp.ListenPacket(how, ""); err != nil {
		return nil, fmt.Errorf("open a socket for ICMP: %w", err)
	}
	return p, nil
}

func (p *pinger) close() { _ = p.conn.Close() }

// ask sends a request and waits for its answer.
func (p *pinger) ask(ctx context.Context, number int) machine.Probe {
	out := machine.Probe{Number: number, To: p.to.String()}
	message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: p.id, Seq: number, Data: make([]byte, 56)}}
	if p.to.Is6() {
		message.Type = ipv6.ICMPTypeEchoRequest
	}
	data, err := message.Marshal(nil)
	if err != nil {
		out.Problem = "internal error: " + err.Error()
		return out
	}
	begun := time.Now()
	if at, ok := ctx.Deadline(); ok {
		_ = p.conn.SetDeadline(at)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := p.conn.WriteTo(data, &net.IPAddr{IP: p.to.AsSlice(), Zone: p.to.Zone()}); err != nil {
		out.Problem = cause(err)
		return out
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := p.conn.ReadFrom(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			out.Problem = fmt.Sprintf("no answer within %s", answerBound)
			return out
		case err != nil:
			out.Problem = cause(err)
			return out
		}
		took := since(begun)
		answer, problem, ours := parseReply(buf[:n], p.to.Is6(), p.id, number)
		switch {
		case !ours:
			continue
		case problem != "":
			out.Problem = fmt.Sprintf("%s says: %s", from, problem)
		default:
			out.Milliseconds, out.Answer = took, answer
		}
		return out
	}
}

// parseReply reads a message of ICMP. It is ours when it answers the request with this id and number, or says what
// became of it.
func parseReply(data []byte, six bool, id, number int) (answer, problem string, ours bool) {
	protocol := protocol4
	if six {
		protocol = protocol6
	}
	m, err := icmp.ParseMessage(protocol, data)
	if err != nil {
		return "", "", false
	}
	switch body := m.Body.(type) {
	case *icmp.Echo:
		reply := m.Type == ipv4.ICMPTypeEchoReply || m.Type == ipv6.ICMPTypeEchoReply
		return fmt.Sprintf("%d bytes", len(data)), "", reply && body.ID == id && body.Seq == number
	case *icmp.DstUnreach:
		return "", fmt.Sprintf("%v (code %d)", m.Type, m.Code), quotes(body.Data, six, id, number)
	case *icmp.TimeExceeded:
		return "", fmt.Sprintf("%v (code %d)", m.Type, m.Code), quotes(body.Data, six, id, number)
	}
	return "", "", false
}

// quotes tells whether a packet that came back is the request: its IP header, and at least 8 bytes.
func quotes(packet []byte, six bool, id, number int) bool {
	header := 40
	if !six {
		if len(packet) == 0 {
			return false
		}
		header = int(packet[0]&0xf) * 4
	}
	if len(packet) < header+8 {
		return false
	}
	echo := packet[header:]
	request := byte(8)
	if six {
		request = 128
	}
	return echo[0] == request && int(echo[4])<<8|int(echo[5]) == id && int(echo[6])<<8|int(echo[7]) == number
}
