package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ports of client and server (RFC 2131, section 4.1).
const (
	clientPort = 68
	serverPort = 67
)

// Card is a network card that is up.
type Card struct {
	Name string
	MAC  [6]byte
}

// String is the card for people.
func (c Card) String() string { return fmt.Sprintf("%s (%s)", c.Name, net.HardwareAddr(c.MAC[:])) }

// Options say what to ask for.
type Options struct {
	// Cards are asked on all at once; an earlier one is preferred when several get an answer.
	Cards []Card
	// UUID is SMBIOS's, as the firmware has it; nil when it is none.
	UUID []byte
	// XID begins the numbers of the exchanges.
	XID uint32
	// NeedURL says that an answer without the URL of an image is none.
	NeedURL bool
	// Bound is how long to wait for an answer.
	Bound time.Duration
	// First is the first wait before a question is asked again; it is doubled up to Longest.
	First, Longest time.Duration
	// Say reports what is waited for.
	Say func(string)
}

// Lease is what was agreed on.
type Lease struct {
	Card    Card
	Address netip.Prefix
	Server  netip.Addr
	Routers []netip.Addr
	DNS     []netip.Addr
	Domain  string
	// URL is what to boot; empty when none was given. From is the server that gave it.
	URL  string
	From netip.Addr
	id   identity
}

// String is the lease for people.
func (l Lease) String() string {
	s := fmt.Sprintf("%s on %s from %s", l.Address, l.Card, l.Server)
	if l.URL != "" {
		s += fmt.Sprintf(", %s from %s", l.URL, l.From)
	}
	return s
}

// received is an answer on a card.
type received struct {
	card  int
	reply Reply
}

// Acquire asks on all cards until one has an address, and the URL of an image where that is needed. Its error says what was
// asked and what came.
func Acquire(ctx context.Context, o Options) (Lease, error) {
	if len(o.Cards) == 0 {
		return Lease{}, errors.New("there is no network card to ask a DHCP server on")
	}
	ctx, cancel := context.WithTimeout(ctx, o.Bound)
	defer cancel()
	x := exchange{Options: o, came: make(chan received, 64)}
	defer x.close()
	for i, c := range o.Cards {
		if err := x.open(ctx, i, c); err != nil {
			return Lease{}, err
		}
	}
	return x.run(ctx)
}

type exchange struct {
	Options
	ids   []identity
	conns []net.PacketConn
	came  chan received
	// heard are the answers so far, one for each server, card and kind.
	heard []received
}

func (x *exchange) close() {
	for _, c := range x.conns {
		c.Close()
	}
}

// open listens on one card.
func (x *exchange) open(ctx context.Context, index int, c Card) error {
	conn, err := listen(ctx, c.Name)
	if err != nil {
		return err
	}
	id := identity{xid: x.XID + uint32(index), mac: c.MAC, uuid: x.UUID}
	x.conns, x.ids = append(x.conns, conn), append(x.ids, id)
	go func() {
		b := make([]byte, maxMessage+1)
		for {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			r, err := Parse(b[:n])
			if err != nil || r.xid != id.xid || r.mac != id.mac {
				continue // Another client's, or no answer at all.
			}
			select {
			case x.came <- received{index, r}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

func listen(ctx context.Context, card string) (net.PacketConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		fail := raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1),
				unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, card))
		})
		return errors.Join(fail, err)
	}}
	conn, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf("0.0.0.0:%d", clientPort))
	if err != nil {
		return nil, fmt.Errorf("listen for DHCP on %s: %w", card, err)
	}
	return conn, nil
}

// run asks again and again, each time with more patience.
func (x *exchange) run(ctx context.Context) (Lease, error) {
	for wait, round := x.First, 0; ; wait, round = min(2*wait, x.Longest), round+1 {
		for i, id := range x.ids {
			x.send(i, id.message(discover, netip.Addr{}, id.boot()))
		}
		card, address, url, ok := x.offers(ctx, wait)
		if !ok {
			if ctx.Err() != nil {
				return Lease{}, x.silence()
			}
			if round > 0 {
				x.Say(x.waitsFor())
			}
			continue
		}
		if l, ok := x.take(ctx, card, address, url); ok {
			return l, nil
		}
		if ctx.Err() != nil {
			return Lease{}, x.silence()
		}
	}
}

func (x *exchange) send(card int, message []byte) {
	// A card without a carrier fails here or later; what is missing is said in the end.
	_, _ = x.conns[card].WriteTo(message, &net.UDPAddr{IP: net.IPv4bcast, Port: serverPort})
}

// offers waits until the answers so far are enough, or the time is over.
func (x *exchange) offers(ctx context.Context, wait time.Duration) (card int, address, url Reply, ok bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return x.choose()
		case <-timer.C:
			return x.choose()
		case r := <-x.came:
			if r.reply.kind != offer {
				continue
			}
			x.hear(r)
			// The first card is the one that is wanted most; others may answer sooner and wait until the time is over.
			if card, address, url, ok = x.choose(); ok && card == 0 && (!x.NeedURL || url.URL() != "") {
				return card, address, url, true
			}
		}
	}
}

// hear keeps an answer, the newest of each server.
func (x *exchange) hear(r received) {
	for i, h := range x.heard {
		if h.card == r.card && h.reply.Server == r.reply.Server && h.reply.kind == r.reply.kind {
			x.heard[i] = r
			return
		}
	}
	if len(x.heard) < 64 {
		x.heard = append(x.heard, r)
	}
}

// choose takes the first card with an address, and a URL where it is needed: that of the server that calls itself an
// HTTPClient's first.
func (x *exchange) choose() (card int, address, url Reply, ok bool) {
	for card := range x.ids {
		var address, url *Reply
		for i := range x.heard {
			h := &x.heard[i]
			if h.card != card || h.reply.kind != offer {
				continue
			}
			r := &h.reply
			if r.URL() != "" && (url == nil || forHTTP(*r) && !forHTTP(*url)) {
				url = r
			}
			if r.Address.IsValid() && (address == nil || r.URL() != "" && address.URL() == "") {
				address = r
			}
		}
		if address == nil || x.NeedURL && url == nil {
			continue
		}
		if url == nil {
			url = &Reply{}
		}
		return card, *address, *url, true
	}
	return 0, Reply{}, Reply{}, false
}

func forHTTP(r Reply) bool { return strings.HasPrefix(r.Class, "HTTPClient") }

// take accepts an offer; it is not the machine's before the server says so.
func (x *exchange) take(ctx context.Context, card int, address, url Reply) (Lease, bool) {
	id := x.ids[card]
	ask := id.message(request, netip.Addr{}, option(optServer, address.Server), option(optAddress, address.Address), id.boot())
	for wait, tries := x.First, 0; tries < 3; wait, tries = min(2*wait, x.Longest), tries+1 {
		x.send(card, ask)
		timer := time.NewTimer(wait)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return Lease{}, false
			case <-timer.C:
				waiting = false
			case r := <-x.came:
				x.hear(r)
				if r.card != card || r.reply.Server != address.Server || r.reply.kind == offer {
					continue
				}
				timer.Stop()
				if r.reply.kind == nak || !r.reply.Address.IsValid() {
					x.forget(card, address.Server)
					return Lease{}, false
				}
				return x.lease(card, r.reply, url), true
			}
		}
	}
	x.forget(card, address.Server)
	return Lease{}, false
}

// forget drops an offer that its server did not keep to.
func (x *exchange) forget(card int, server netip.Addr) {
	for i, h := range x.heard {
		if h.card == card && h.reply.Server == server && h.reply.kind == offer {
			x.heard = append(x.heard[:i], x.heard[i+1:]...)
			return
		}
	}
}

func (x *exchange) lease(card int, r, url Reply) Lease {
	l := Lease{
		Card: x.Cards[card], Address: netip.PrefixFrom(r.Address, r.Bits), Server: r.Server, Routers: r.Routers, DNS: r.DNS, Domain: r.Domain,
		URL: url.URL(), From: url.Server, id: x.ids[card],
	}
	if l.URL == "" {
		l.URL, l.From = r.URL(), r.Server
	}
	return l
}

func (x *exchange) waitsFor() string {
	what := "an address"
	if x.NeedURL {
		what += " and the URL of the image"
	}
	return "waiting for " + what + " from a DHCP server; " + x.asked()
}

// asked says what was asked where, and what came.
func (x *exchange) asked() string {
	var cards, came []string
	for _, c := range x.Cards {
		cards = append(cards, c.String())
	}
	for _, h := range x.heard {
		came = append(came, h.reply.String()+" on "+x.Cards[h.card].Name)
	}
	if came == nil {
		came = []string{"nothing"}
	}
	return fmt.Sprintf("asked as %s on %s; came: %s", Class, strings.Join(cards, ", "), strings.Join(came, "; "))
}

func (x *exchange) silence() error {
	what := "no DHCP server gave an address"
	if x.NeedURL {
		what += " and the http:// URL of an image"
	}
	return fmt.Errorf("%s within %s; %s", what, x.Bound, x.asked())
}

// Release gives the lease back, while the card still has its address. The server sends no answer.
func (l Lease) Release(ctx context.Context) error {
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: l.Address.Addr().AsSlice(), Port: clientPort}}
	c, err := d.DialContext(ctx, "udp4", netip.AddrPortFrom(l.Server, serverPort).String())
	if err != nil {
		return fmt.Errorf("give back %s: %w", l.Address.Addr(), err)
	}
	defer c.Close()
	if _, err := c.Write(l.id.message(release, l.Address.Addr(), option(optServer, l.Server))); err != nil {
		return fmt.Errorf("give back %s: %w", l.Address.Addr(), err)
	}
	return nil
}
