package ntp

import (
	"crypto/md5"
	"net/netip"
	"time"
)

// State is what a server says of its own clock.
type State struct {
	// Leap is the leap indicator, LeapAlarm when the clock is worth nothing.
	Leap uint8
	// Stratum is the number of servers to the reference clock: 1 to 15.
	Stratum uint8
	// Reference is the reference identifier (RFC 5905, section 7.3): the server that is followed, or a code.
	Reference [4]byte
	// RootDelay and RootDispersion are the way to the reference clock and back, and how far off the clock may be besides.
	RootDelay, RootDispersion time.Duration
	// Updated is when the clock was last set; zero when it never was.
	Updated time.Time
	// Follows is the server that is followed now, if there is one. It is never told the time: two that follow each other
	// would agree on anything.
	Follows netip.Addr
}

// localStratum is that of a clock that no server has set. It is so far from 1 that any server is better, and near enough to 16
// that nodes may follow each other (as the orphan mode of ntpd has it).
const localStratum = 10

// localDispersion is what a clock of its own admits: it says that it is one second off, which nobody knows, so that clients which
// weigh servers take any other. timesyncd takes up to 5 s.
const localDispersion = time.Second

// drift is how much an oscillator that nobody corrects may go wrong, in parts of a million. RFC 5905 has 15 (PHI) for one whose
// frequency is known.
const drift = 50

// Reference identifiers of clocks that follow nobody (RFC 5905, figure 12, and its kiss codes, figure 13).
var (
	referenceLocal   = [4]byte{'L', 'O', 'C', 'L'}
	referenceUnknown = [4]byte{'I', 'N', 'I', 'T'}
)

// alarm is the state of a clock that is worth nothing.
func alarm() State { return State{Leap: LeapAlarm, Stratum: maxStratum, Reference: referenceUnknown} }

// Clock is what is known of the clock of this machine.
type Clock struct {
	// Synchronized is the kernel's word: something has set the clock in the last hours. MaxError is its bound.
	Synchronized bool
	MaxError     time.Duration
	// Wrong says that the clock could not be right when the machine started, and that no server has set it since.
	Wrong bool
	// Follows is the server that timesyncd is in contact with.
	Follows netip.Addr
	// Heard is what the server that set the clock last says of itself; nil when none was asked yet.
	Heard *Heard
}

// Heard is an answer of a server.
type Heard struct {
	From  netip.Addr
	State State
	// Offset is the server's clock minus the own one, Delay the way there and back.
	Offset, Delay time.Duration
	// At is when it came.
	At time.Time
}

// Judge says what the own clock is worth to others.
func Judge(c Clock, now time.Time) State {
	switch {
	case c.Synchronized && c.Heard != nil:
		return c.Heard.passedOn(c.Follows, now)
	case c.Wrong:
		return alarm()
	}
	// Set by nobody that can be asked, or by nobody at all: as good as the machine's own clock. Nodes that are cut off from
	// every server agree on this one.
	d := localDispersion
	if c.Synchronized {
		d = c.MaxError
	}
	return State{Stratum: localStratum, Reference: referenceLocal, RootDispersion: d, Updated: now.Truncate(time.Minute), Follows: c.Follows}
}

// passedOn is the state of a clock that follows another, or did so.
func (h *Heard) passedOn(follows netip.Addr, now time.Time) State {
	s := h.State
	s.Stratum++
	if s.Stratum >= maxStratum {
		return alarm()
	}
	s.Reference, s.Follows, s.Updated = referenceOf(h.From), follows, h.At
	s.RootDelay += h.Delay
	s.RootDispersion += h.Offset.Abs() + max(now.Sub(h.At), 0)*drift/1e6 + resolution
	return s
}

// referenceOf is the identifier of a server: its IPv4 address, or the first bytes of the MD5 hash of its IPv6 address (RFC 5905,
// section 7.3).
func referenceOf(a netip.Addr) [4]byte {
	a = a.Unmap()
	if a.Is4() {
		return a.As4()
	}
	b := a.As16()
	sum := md5.Sum(b[:])
	return [4]byte(sum[:4])
}
