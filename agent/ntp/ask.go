package ntp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// askBound is the longest wait for an answer.
const askBound = 3 * time.Second

// Ask asks a server for the time. What it says of itself has to make sense; whether its time does, is for the caller to judge.
func Ask(ctx context.Context, server netip.AddrPort, now func() time.Time) (Heard, error) {
	h, err := ask(ctx, server, now)
	if err != nil {
		return h, fmt.Errorf("time server %s: %w", server.Addr(), err)
	}
	return h, nil
}

func ask(ctx context.Context, server netip.AddrPort, now func() time.Time) (Heard, error) {
	var d net.Dialer
	// Connected, so that the kernel takes answers from nobody else, and says when nobody listens there.
	conn, err := d.DialContext(ctx, "udp", server.String())
	if err != nil {
		return Heard{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(askBound)); err != nil {
		return Heard{}, err
	}
	// The time that it is sent at is a secret between both: somebody who does not see the question cannot answer it (RFC 9109 and
	// draft-ietf-ntp-data-minimization).
	var secret [8]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return Heard{}, err
	}
	origin := timestamp(binary.BigEndian.Uint64(secret[:]))
	// Of the monotonic clock: between question and answer the clock may be set.
	sent := now()
	if _, err := conn.Write(packet{version: version, mode: modeClient, transmit: origin}.bytes()); err != nil {
		return Heard{}, err
	}
	buf := make([]byte, maxRequest)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return Heard{}, err
		}
		came := now()
		p, err := parse(buf[:n])
		if err != nil || p.mode != modeServer || p.origin != origin {
			continue // Not of this question.
		}
		return judge(p, server.Addr(), sent, came)
	}
}

// judge makes sense of an answer (RFC 5905, section 8 and, for what is refused, section 14).
func judge(p packet, from netip.Addr, sent, came time.Time) (Heard, error) {
	h := Heard{From: from, At: came, State: State{Leap: p.leap, Stratum: p.stratum, Reference: p.reference, RootDelay: p.rootDelay, RootDispersion: p.rootDispersion}}
	switch {
	case p.stratum == 0 && p.leap != LeapAlarm:
		return h, fmt.Errorf("it refuses to answer (%.4q)", p.reference)
	case p.leap == LeapAlarm, p.stratum == 0, p.stratum >= maxStratum:
		return h, ErrNoTime
	case p.receive == 0, p.transmit == 0:
		return h, errors.New("the answer has no time in it")
	}
	elapsed, inside := came.Sub(sent), p.transmit.since(p.receive)
	if inside < 0 || inside > elapsed {
		// A server that says that it took longer than all of it: a clock was set in between.
		inside = 0
	}
	h.Delay = elapsed - inside
	h.Offset = (p.receive.since(stamp(sent)) + p.transmit.since(stamp(came))) / 2
	return h, nil
}
