package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"spore/agent/verbs"
	"spore/wire/machine"
)

// shownAnswers bounds the records of an answer that are told.
const shownAnswers = 16

// question is one question to one server (RFC 1035).
type question struct {
	// server is HOST:PORT.
	server string
	name   dnsmessage.Name
	kind   dnsmessage.Type
}

// questions asks each server for the IPv4 and the IPv6 addresses of a name. The name is whole: no domain is tried
// behind it.
func questions(r *verbs.Run, target string) (out []question, err error) {
	list, err := servers(r)
	if err != nil {
		return nil, err
	}
	name, err := dnsmessage.NewName(strings.TrimSuffix(target, ".") + ".")
	if err != nil {
		return nil, fmt.Errorf("%q is not a name of DNS: %w", target, err)
	}
	for _, s := range list {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
			out = append(out, question{net.JoinHostPort(s, "53"), name, kind})
		}
	}
	return out, nil
}

// ask asks once, by UDP, and by TCP where the answer does not fit.
func (q question) ask(ctx context.Context, number int) machine.Probe {
	p := machine.Probe{Number: number, To: fmt.Sprintf("%s %s", q.server, strings.TrimPrefix(q.kind.String(), "Type"))}
	id := uint16(rand.Uint32())
	query, err := q.query(id)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	begun := time.Now()
	answer, more, err := q.exchange(ctx, "udp", query, id)
	if err == nil && more {
		answer, _, err = q.exchange(ctx, "tcp", query, id)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errTimeout(err):
		p.Problem = fmt.Sprintf("no answer within %s", answerBound)
	case err != nil:
		p.Problem = cause(err)
	default:
		p.Milliseconds, p.Answer = since(begun), answer
	}
	return p
}

func (q question) query(id uint16) ([]byte, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: q.name, Type: q.kind, Class: dnsmessage.ClassINET}},
	}
	data, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("%s is not a name of DNS: %w", q.name, err)
	}
	return data, nil
}

// exchange sends the question and reads the answer; more says that it was cut off to fit into a datagram.
func (q question) exchange(ctx context.Context, how string, query []byte, id uint16) (answer string, more bool, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, how, q.server)
	if err != nil {
		return "", false, err
	}
	defer conn.Close()
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return "", false, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if how == "tcp" { // Its length comes first (RFC 1035, section 4.2.2).
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(query); err != nil {
		return "", false, err
	}
	for {
		data, err := receive(conn, how)
		if err != nil {
			return "", false, err
		}
		answer, more, ours, err := q.parse(data, id)
		if ours || err != nil && how == "tcp" {
			return answer, more, err
		}
	}
}

func receive(conn net.Conn, how string) ([]byte, error) {
	if how == "udp" {
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		return buf[:n], err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, buf)
	return buf, err
}

// parse reads an answer. It is ours when it has the id and the question; an error of the server is an error then.
func (q question) parse(data []byte, id uint16) (answer string, more, ours bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(data)
	if err != nil {
		return "", false, false, fmt.Errorf("the answer is malformed: %w", err)
	}
	asked, err := p.Question()
	if err != nil || h.ID != id || !h.Response || asked.Type != q.kind || !strings.EqualFold(asked.Name.String(), q.name.String()) {
		return "", false, false, errors.New("it is the answer to another question")
	}
	if h.RCode != dnsmessage.RCodeSuccess {
		return "", false, true, errors.New("the server says " + strings.TrimPrefix(h.RCode.String(), "RCode"))
	}
	if h.Truncated {
		return "", true, true, nil
	}
	if err := p.SkipAllQuestions(); err != nil {
		return "", false, true, fmt.Errorf("the answer is malformed: %w", err)
	}
	var out []string
	for len(out) < shownAnswers {
		r, err := p.Answer()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return "", false, true, fmt.Errorf("the answer is malformed: %w", err)
		}
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			out = append(out, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.CNAMEResource:
			out = append(out, "is called "+b.CNAME.String())
		}
	}
	if len(out) == 0 {
		return "no such record", false, true, nil
	}
	return strings.Join(out, ", "), false, true, nil
}
