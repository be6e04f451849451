package gate

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

const (
	// maxSeats are connections at once, and seatsEach those of one address. One more has the oldest of them closed that has
	// yet to show a certificate that holds; where there is none, it is closed itself.
	maxSeats, seatsEach = 512, 64
)

// room is a listener whose connections are bounded, so that nobody without a certificate keeps others out.
type room struct {
	net.Listener
	mu sync.Mutex
	// strangers have yet to show a certificate, oldest first.
	strangers *list.List
	seats     int
	of        map[netip.Addr]int
}

// seat is a connection in the room.
type seat struct {
	net.Conn
	room *room
	from netip.Addr
	// stranger is its place in the list; nil when it is known, or closed.
	stranger *list.Element
	leave    func()
}

// seatKey is where the context of a request has its connection.
type seatKey struct{}

func newRoom(l net.Listener) *room {
	return &room{Listener: l, strangers: list.New(), of: map[netip.Addr]int{}}
}

// Accept waits for a connection that has room.
func (m *room) Accept() (net.Conn, error) {
	for {
		conn, err := m.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if s := m.sit(conn); s != nil {
			return s, nil
		}
		_ = conn.Close()
	}
}

// sit makes room for a connection; nil where there is none.
func (m *room) sit(conn net.Conn) *seat {
	s := &seat{Conn: conn, room: m}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		s.from = a.AddrPort().Addr().Unmap()
	}
	m.mu.Lock()
	var turned *seat
	full := m.of[s.from] >= seatsEach
	if full || m.seats >= maxSeats {
		if turned = m.oldest(s.from, full); turned == nil {
			m.mu.Unlock()
			return nil
		}
		m.forget(turned)
	}
	m.seats++
	m.of[s.from]++
	s.stranger = m.strangers.PushBack(s)
	s.leave = sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.forget(s)
		m.seats--
		if m.of[s.from]--; m.of[s.from] == 0 {
			delete(m.of, s.from)
		}
	})
	m.mu.Unlock()
	if turned != nil {
		_ = turned.Close()
	}
	return s
}

// oldest is the stranger that gives up its seat: of one address, or of all.
func (m *room) oldest(from netip.Addr, ofAddress bool) *seat {
	for e := m.strangers.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*seat); !ofAddress || s.from == from {
			return s
		}
	}
	return nil
}

// forget takes a connection out of the strangers.
func (m *room) forget(s *seat) {
	if s.stranger != nil {
		m.strangers.Remove(s.stranger)
		s.stranger = nil
	}
}

// take keeps the seat for whoever has shown a certificate.
func (s *seat) take() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.forget(s)
}

// Close closes the connection, and leaves the seat.
func (s *seat) Close() error {
	defer s.leave()
	return s.Conn.Close()
}
