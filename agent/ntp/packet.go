// Package ntp is a small time server and the question that is put to one: SNTPv4, the subset of RFC 5905 that its section 14 calls
// a primary or secondary server without the clock algorithms. systemd-timesyncd keeps the clock; this says to others what that is
// worth: whom it comes from, over how many servers, how far off it may be, and that it is worth nothing when that is so.
//
// Left out: symmetric and broadcast modes, control messages (modes 6 and 7, which attacks are amplified with), authentication, and
// extension fields, which are not answered.
package ntp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Port is that of NTP over UDP.
const Port = 123

// size is that of a packet without extension fields, in bytes (RFC 5905, section 7.3).
const size = 48

// maxRequest is the longest request that is read, in bytes: extension fields and a code for authentication may follow.
const maxRequest = 512

// Leap indicators, modes and the version (RFC 5905, figures 9 and 10).
const (
	LeapNone  = 0
	LeapAlarm = 3

	modeClient = 3
	modeServer = 4

	version = 4
	// oldest is the oldest version that is answered; it has the same packets.
	oldest = 3
)

// maxStratum is the first that means unsynchronized (RFC 5905, figure 11); on the wire that is 0.
const maxStratum = 16

// packet is what clients and servers send.
type packet struct {
	leap, version, mode       uint8
	stratum                   uint8
	poll, precision           int8
	rootDelay, rootDispersion time.Duration
	reference                 [4]byte
	updated                   timestamp
	origin, receive, transmit timestamp
}

// parse reads a packet. What follows its 48 bytes is not looked at.
func parse(b []byte) (packet, error) {
	if len(b) < size {
		return packet{}, fmt.Errorf("%d bytes are no NTP packet, which has %d", len(b), size)
	}
	stamp := func(at int) timestamp { return timestamp(binary.BigEndian.Uint64(b[at:])) }
	return packet{
		leap: b[0] >> 6, version: b[0] >> 3 & 7, mode: b[0] & 7, stratum: b[1], poll: int8(b[2]), precision: int8(b[3]),
		rootDelay: fromShort(binary.BigEndian.Uint32(b[4:])), rootDispersion: fromShort(binary.BigEndian.Uint32(b[8:])),
		reference: [4]byte(b[12:16]), updated: stamp(16), origin: stamp(24), receive: stamp(32), transmit: stamp(40),
	}, nil
}

// bytes is the packet as it is sent.
func (p packet) bytes() []byte {
	b := make([]byte, size)
	b[0] = p.leap<<6 | p.version&7<<3 | p.mode&7
	b[1], b[2], b[3] = p.stratum, byte(p.poll), byte(p.precision)
	binary.BigEndian.PutUint32(b[4:], toShort(p.rootDelay))
	binary.BigEndian.PutUint32(b[8:], toShort(p.rootDispersion))
	copy(b[12:], p.reference[:])
	for i, t := range []timestamp{p.updated, p.origin, p.receive, p.transmit} {
		binary.BigEndian.PutUint64(b[16+8*i:], uint64(t))
	}
	return b
}

// timestamp is a time of NTP: seconds since 1900 modulo 2^32, and fractions of 2^-32 (RFC 5905, section 6). 0 is no time.
type timestamp uint64

// epoch is 1970 in seconds since 1900.
const epoch = 2_208_988_800

// stamp is the timestamp of a time. Those 136 years apart have the same one.
func stamp(t time.Time) timestamp {
	return timestamp(uint64(t.Unix()+epoch)<<32 | uint64(t.Nanosecond())<<32/1e9)
}

// since is the time from one timestamp to another, which is less than 68 years: the difference is taken modulo 2^64, so that the
// end of an era, as in February 2036, is none (RFC 5905, section 6).
func (t timestamp) since(from timestamp) time.Duration {
	d := int64(t - from)
	// In two parts: nanoseconds in 2^-32 seconds do not fit into 64 bits.
	return time.Duration(d>>32)*time.Second + time.Duration((d&0xffffffff)*1e9>>32)
}

// fromShort and toShort read and write the short format: seconds in 16.16 bits. What is written is never less than what is meant.
func fromShort(v uint32) time.Duration { return time.Duration(uint64(v) * 1e9 >> 16) }

func toShort(d time.Duration) uint32 {
	const most = time.Duration((1<<32 - 1) * 1e9 >> 16)
	return uint32((uint64(min(max(d, 0), most))<<16 + 1e9 - 1) / 1e9)
}

// ErrNoTime is in the error of a server that says that it does not know the time.
var ErrNoTime = errors.New("it does not know the time itself")
