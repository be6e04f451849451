package gate

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// end is a connection from an address.
type end struct {
	net.Conn
	from   *net.TCPAddr
	closed bool
}

func (e *end) RemoteAddr() net.Addr { return e.from }

func (e *end) Close() error {
	e.closed = true
	return nil
}

func from(address string) *end { return &end{from: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}} }

func TestWhoHasShownNoCertificateGivesUpTheSeat(t *testing.T) {
	m := newRoom(nil)
	var ends []*end
	var seats []*seat
	for range seatsEach {
		e := from("10.0.0.1")
		s := m.sit(e)
		require.NotNil(t, s)
		ends, seats = append(ends, e), append(seats, s)
	}
	seats[0].take()
	other := m.sit(from("10.0.0.2"))
	require.NotNil(t, other, "one address does not take the room of another")

	require.NotNil(t, m.sit(from("10.0.0.1")))
	require.False(t, ends[0].closed, "it is known")
	require.True(t, ends[1].closed, "it was the oldest that is not")
	require.Equal(t, seatsEach, m.of[netip.MustParseAddr("10.0.0.1")])

	for e := m.strangers.Front(); e != nil; e = m.strangers.Front() {
		e.Value.(*seat).take()
	}
	require.Nil(t, m.sit(from("10.0.0.1")), "all that are there are known")
	require.NoError(t, seats[0].Close())
	require.NoError(t, seats[0].Close(), "once more")
	require.NotNil(t, m.sit(from("10.0.0.1")))
}

func TestARoomThatIsFullHasRoomForWhoComes(t *testing.T) {
	m := newRoom(nil)
	var ends []*end
	for i := range maxSeats {
		e := from(net.IPv4(10, 1, byte(i>>8), byte(i)).String())
		require.NotNil(t, m.sit(e))
		ends = append(ends, e)
	}
	require.NotNil(t, m.sit(from("10.0.0.1")))
	require.True(t, ends[0].closed)
	require.False(t, ends[1].closed)
	require.Equal(t, maxSeats, m.seats)
}
