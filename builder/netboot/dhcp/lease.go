package dhcp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// offerTime is how long an address is kept for a client that was offered it.
	offerTime = 30 * time.Second
	// declineTime is how long an address that somebody else uses is left alone.
	declineTime = 10 * time.Minute
)

// Fixed is the address of a node.
type Fixed struct {
	// MACs and UUID are those that the address is for; UUID may be empty.
	MACs []string
	UUID string
	Lease
}

// Lease is an address for a machine.
type Lease struct {
	Address netip.Addr
	// Hostname is the node's; empty for machines that are no node.
	Hostname string
}

// Leases are the addresses of a network: those of nodes, and a range for machines that are not known yet.
type Leases struct {
	now         func() time.Time
	first, last netip.Addr
	subnet      netip.Prefix

	mu       sync.Mutex
	byMAC    map[string]Lease
	byUUID   map[string]Lease
	reserved map[netip.Addr]bool
	// given holds the addresses of the range that are taken, by address. It is bounded by the range.
	given map[netip.Addr]holder
}

type holder struct {
	mac   string
	until time.Time
}

// maxRange is the most addresses that the range for unknown machines may have.
const maxRange = 4096

// LeaseOptions describe Leases.
type LeaseOptions struct {
	Subnet netip.Prefix
	// First and Last are the range for machines that are no node; both are in it.
	First, Last netip.Addr
	// Fixed are the nodes, Reserved the addresses that nobody is to get: routers, this machine, virtual addresses.
	Fixed    []Fixed
	Reserved []netip.Addr
	Now      func() time.Time
}

// NewLeases checks the range and takes the nodes in.
func NewLeases(o LeaseOptions) (*Leases, error) {
	if !o.Subnet.Addr().Is4() || !o.Subnet.Contains(o.First) || !o.Subnet.Contains(o.Last) || o.Last.Less(o.First) {
		return nil, fmt.Errorf("the range %s-%s does not lie in the network %s", o.First, o.Last, o.Subnet)
	}
	n := 1
	for a := o.First; a != o.Last; a = a.Next() {
		if n++; n > maxRange {
			return nil, fmt.Errorf("the range %s-%s has more than %d addresses", o.First, o.Last, maxRange)
		}
	}
	l := &Leases{
		now: o.Now, first: o.First, last: o.Last, subnet: o.Subnet.Masked(), given: map[netip.Addr]holder{},
	}
	l.SetNodes(o.Fixed, o.Reserved)
	return l, nil
}

// SetNodes puts the nodes of another build in the place of those that there were. Machines that are no node keep what they have,
// unless it is a node's address now: then they are denied it when they ask next.
func (l *Leases) SetNodes(fixed []Fixed, reserved []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byMAC, l.byUUID, l.reserved = map[string]Lease{}, map[string]Lease{}, map[netip.Addr]bool{}
	for _, f := range fixed {
		for _, m := range f.MACs {
			l.byMAC[strings.ToLower(m)] = f.Lease
		}
		if f.UUID != "" {
			l.byUUID[strings.ToLower(f.UUID)] = f.Lease
		}
		l.reserved[f.Address] = true
	}
	for _, a := range reserved {
		l.reserved[a] = true
	}
	l.reserved[l.subnet.Addr()], l.reserved[broadcast(l.subnet)] = true, true
	for a := range l.given {
		if l.reserved[a] {
			delete(l.given, a)
		}
	}
}

// broadcast is the last address of a network.
func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

// DefaultRange is the range for unknown machines where the operator names none: the upper eighth of the network, at most 64
// addresses.
func DefaultRange(p netip.Prefix) (first, last netip.Addr) {
	last = broadcast(p).Prev()
	first = last
	size := 1 << (32 - p.Bits())
	for range min(64, max(size/8, 2)) - 1 {
		first = first.Prev()
	}
	return first, last
}

// fixed is the lease of a node, known by its card or by its UUID.
func (l *Leases) fixed(mac string, uuids []string) (Lease, bool) {
	if f, ok := l.byMAC[mac]; ok {
		return f, true
	}
	for _, u := range uuids {
		if f, ok := l.byUUID[u]; ok {
			return f, true
		}
	}
	return Lease{}, false
}

// offer finds an address for a machine: its own, the one that it had, the one that it asks for, or a free one.
func (l *Leases) offer(mac string, uuids []string, asked netip.Addr) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.fixed(mac, uuids); ok {
		// The system that boots says its MAC only; it is to get the same address.
		l.remember(mac, f, uuids)
		return f, nil
	}
	now := l.now()
	for a, h := range l.given {
		if h.mac == mac {
			l.hold(a, mac, offerTime)
			return Lease{Address: a}, nil
		}
	}
	if l.free(asked, now) {
		l.hold(asked, mac, offerTime)
		return Lease{Address: asked}, nil
	}
	for a := l.first; ; a = a.Next() {
		if l.free(a, now) {
			l.hold(a, mac, offerTime)
			return Lease{Address: a}, nil
		}
		if a == l.last {
			return Lease{}, fmt.Errorf("all addresses of %s-%s are taken; widen --range", l.first, l.last)
		}
	}
}

// maxRemembered bounds the cards that are learned for nodes with a UUID.
const maxRemembered = 4096

func (l *Leases) remember(mac string, f Lease, uuids []string) {
	if _, ok := l.byMAC[mac]; !ok && len(uuids) > 0 && len(l.byMAC) < maxRemembered {
		l.byMAC[mac] = f
	}
}

// confirm gives an address for the time of a lease.
func (l *Leases) confirm(mac string, uuids []string, wanted netip.Addr) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.fixed(mac, uuids); ok {
		if f.Address != wanted {
			return Lease{}, fmt.Errorf("this machine's address is %s", f.Address)
		}
		l.remember(mac, f, uuids)
		return f, nil
	}
	h, taken := l.given[wanted]
	if taken && h.mac == mac || l.free(wanted, l.now()) {
		// One address for a machine, and so no more in the map than there are machines and addresses.
		for a, h := range l.given {
			if h.mac == mac && a != wanted {
				delete(l.given, a)
			}
		}
		l.hold(wanted, mac, leaseTime)
		return Lease{Address: wanted}, nil
	}
	if taken {
		return Lease{}, errors.New("another machine has this address")
	}
	return Lease{}, fmt.Errorf("the address does not lie in %s-%s", l.first, l.last)
}

func (l *Leases) hold(a netip.Addr, mac string, d time.Duration) {
	until := l.now().Add(d)
	if h := l.given[a]; h.mac == mac && h.until.After(until) {
		until = h.until
	}
	l.given[a] = holder{mac, until}
}

// free tells whether an address of the range can be given.
func (l *Leases) free(a netip.Addr, now time.Time) bool {
	if !a.IsValid() || a.Less(l.first) || l.last.Less(a) || l.reserved[a] {
		return false
	}
	h, taken := l.given[a]
	return !taken || !h.until.After(now)
}

// release frees what a machine has.
func (l *Leases) release(mac string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, h := range l.given {
		if h.mac == mac {
			delete(l.given, a)
		}
	}
}

// decline leaves an address alone that the machine that was given it found in use. Others cannot say so.
func (l *Leases) decline(mac string, a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.given[a]; ok && h.mac == mac {
		l.given[a] = holder{"", l.now().Add(declineTime)}
		return true
	}
	f, ok := l.byMAC[mac]
	return ok && f.Address == a
}

// Addresses are those that machines of the range have, sorted.
func (l *Leases) Addresses() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []netip.Addr
	for a, h := range l.given {
		if h.until.After(l.now()) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
