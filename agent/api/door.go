package api

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"spore/wire/nodeapi"
)

// Bounds of connections. A stranger is a connection that has not shown a certificate yet.
const (
	// helloBound is for TLS. A slow link takes a round trip, a slow machine a few tenths of a second.
	helloBound = 3 * time.Second
	// maxStrangers are all at once, and strangersEach those of one address. One more has the oldest of them closed:
	// whoever has a certificate shows it within moments, and who is silent is the oldest soon.
	maxStrangers  = 1024
	strangersEach = 32
	// startsBurst and startsEvery bound how fast one address begins connections, each of which may cost a signature: a
	// thousand a second.
	startsBurst = 2000
	startsEvery = time.Millisecond
	// maxOperators and maxNodes are how many connections are served at once of either, and seatsEach those of one
	// certificate's name. No node, broken into or not, takes the room of the others or of operators.
	// Senders of logs have seats of their own: all nodes of a cluster bring their lines to the same store.
	maxOperators = 48
	maxNodes     = 96
	maxSenders   = 512
	seatsEach    = 16
	senderSeats  = 4
	// sayEvery is how often it is said that connections were closed.
	sayEvery = time.Minute
)

// door is a listener of connections whose other side has shown a certificate that holds. Strangers are kept apart from
// those that are served: they take none of their room, and nobody waits for them.
type door struct {
	net.Listener
	config *tls.Config
	say    func(string)
	// ready are those that Accept returns, and closed ends both sides.
	ready  chan arrival
	closed chan struct{}
	shut   func() error

	mu sync.Mutex
	// strangers are all of them, oldest first, and of are those of one address.
	strangers *list.List
	of        map[netip.Prefix]*list.List
	starts    allowance[netip.Prefix]
	// seats are the connections that are served, by whose they are; operators, nodes and senders are their numbers.
	seats                     map[seat]int
	operators, nodes, senders int
	// served are the connections that have seats.
	served map[*connection]struct{}
	// turned counts those that were closed since it was said last.
	turned int
	said   time.Time
}

// arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

// seat is whose a connection is.
type seat struct {
	name             string
	operator, sender bool
}

// stranger is a connection that has not shown a certificate yet. Its elements are its places in the two lists; both are
// nil when it was closed for others.
type stranger struct {
	conn      net.Conn
	from      netip.Prefix
	all, here *list.Element
}

// newDoor begins to let connections in.
func newDoor(l net.Listener, config *tls.Config, say func(string)) *door {
	d := &door{
		Listener: l, config: config, say: say, ready: make(chan arrival), closed: make(chan struct{}),
		strangers: list.New(), of: map[netip.Prefix]*list.List{}, seats: map[seat]int{},
		served: map[*connection]struct{}{},
		starts: allowance[netip.Prefix]{burst: startsBurst, every: startsEvery},
	}
	d.shut = sync.OnceValue(d.end)
	go d.open()
	return d
}

// Accept waits for a connection whose other side has shown a certificate.
func (d *door) Accept() (net.Conn, error) {
	select {
	case a := <-d.ready:
		return a.conn, a.err
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and all strangers. Those that were accepted stay.
func (d *door) Close() error { return d.shut() }

func (d *door) end() error {
	close(d.closed)
	err := d.Listener.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.strangers.Len() > 0 {
		d.turn(d.strangers.Front().Value.(*stranger))
	}
	return err
}

// open takes connections as they come. It waits for none of them, so that the kernel's queue stays short.
func (d *door) open() {
	for {
		conn, err := d.Listener.Accept()
		if err == nil {
			d.admit(conn)
			continue
		}
		// The server knows which errors pass, and comes again a moment later.
		if !d.pass(arrival{err: err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// pass hands something to Accept; false when nobody takes it any more.
func (d *door) pass(a arrival) bool {
	select {
	case d.ready <- a:
		return true
	case <-d.closed:
		return false
	}
}

// admit begins with a connection, or closes it.
func (d *door) admit(conn net.Conn) {
	s := &stranger{conn: conn, from: origin(conn.RemoteAddr())}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closed:
		drop(conn)
		return
	default:
	}
	now := time.Now()
	if !d.starts.take(s.from, now) {
		drop(conn)
		d.tell(now, s.from)
		return
	}
	here := d.of[s.from]
	if here == nil {
		here = list.New()
		d.of[s.from] = here
	}
	switch {
	case here.Len() >= strangersEach:
		d.turn(here.Front().Value.(*stranger))
		d.tell(now, s.from)
	case d.strangers.Len() >= maxStrangers:
		oldest := d.strangers.Front().Value.(*stranger)
		d.turn(oldest)
		d.tell(now, oldest.from)
	}
	d.of[s.from] = here // It may have been the last one there.
	s.all, s.here = d.strangers.PushBack(s), here.PushBack(s)
	go d.greet(s)
}

// turn closes a stranger.
func (d *door) turn(s *stranger) {
	d.leave(s)
	drop(s.conn)
}

// leave takes a connection out of the strangers; false when it was closed for others meanwhile.
func (d *door) leave(s *stranger) bool {
	if s.all == nil {
		return false
	}
	d.strangers.Remove(s.all)
	here := d.of[s.from]
	here.Remove(s.here)
	if here.Len() == 0 {
		delete(d.of, s.from)
	}
	s.all, s.here = nil, nil
	return true
}

// tell says now and then that connections are closed.
func (d *door) tell(now time.Time, from netip.Prefix) {
	d.turned++
	if now.Sub(d.said) < sayEvery {
		return
	}
	d.say(fmt.Sprintf("too many connections at once: closed %d since this was said last, the last one from %s",
		d.turned, from.Addr()))
	d.said, d.turned = now, 0
}

// greet asks a stranger for its certificate, and has it served when it holds.
func (d *door) greet(s *stranger) {
	c := &connection{Conn: s.conn, leave: func() {}}
	t := tls.Server(c, d.config)
	err := s.conn.SetDeadline(time.Now().Add(helloBound))
	if err == nil {
		err = t.Handshake()
	}
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil {
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nThis is a port of HTTPS; ask it by `spore`.\n")
	}
	if err == nil {
		err = s.conn.SetDeadline(time.Time{})
	}
	d.mu.Lock()
	there := d.leave(s)
	seated := err == nil && there && d.sit(c, s.from)
	d.mu.Unlock()
	if !seated || !d.pass(arrival{conn: t}) {
		_ = t.Close()
	}
}

// sit gives whoever has shown a certificate a seat, as long as there is one.
func (d *door) sit(c *connection, from netip.Prefix) bool {
	who := seat{name: c.caller.Name, operator: c.caller.Is(nodeapi.Lookers()...)}
	taken, most, each := &d.nodes, maxNodes, seatsEach
	switch {
	case who.operator:
		taken, most = &d.operators, maxOperators
	case c.caller.Is(nodeapi.Sender) && !c.caller.Is(nodeapi.Node):
		who.sender = true
		taken, most, each = &d.senders, maxSenders, senderSeats
	}
	if *taken >= most || d.seats[who] >= each {
		d.tell(time.Now(), from)
		return false
	}
	*taken++
	d.seats[who]++
	d.served[c] = struct{}{}
	c.leave = sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		*taken--
		delete(d.served, c)
		if d.seats[who]--; d.seats[who] == 0 {
			delete(d.seats, who)
		}
	})
	return true
}

// cut closes the connections of some callers.
func (d *door) cut(who func(nodeapi.Caller) bool) {
	var gone []*connection
	d.mu.Lock()
	for c := range d.served {
		if who(c.caller) {
			gone = append(gone, c)
		}
	}
	d.mu.Unlock()
	for _, c := range gone { // Each leaves its seat by itself.
		_ = c.Close()
	}
}

// origin is what counts as one address: of IPv6 the network of a host, which has all of its addresses.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// drop closes a connection at once, and leaves the kernel nothing to remember of it.
func drop(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
