package lan

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// end is a cable's end in a test, that of a machine.
type end struct {
	t    *testing.T
	dir  string
	conn *net.UnixConn
}

func plug(t *testing.T, dir, name string) *end {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &end{t, dir, conn}
}

// send sends a frame with the given addresses; letters stand for hardware addresses, * for broadcast.
func (e *end) send(to, from, text string) {
	e.t.Helper()
	mac := func(s string) string {
		if s == "*" {
			return strings.Repeat("\xff", addressSize)
		}
		return "\x52\x54\x00\x00\x00" + s
	}
	_, err := e.conn.WriteToUnix([]byte(mac(to)+mac(from)+"\x88\xb5"+text), &net.UnixAddr{Name: filepath.Join(e.dir, Socket), Net: "unixgram"})
	require.NoError(e.t, err)
}

// hear is the text of the next frame; empty when none comes.
func (e *end) hear(within time.Duration) string {
	e.t.Helper()
	frame := make([]byte, maxFrame)
	require.NoError(e.t, e.conn.SetReadDeadline(time.Now().Add(within)))
	n, err := e.conn.Read(frame)
	if err != nil {
		require.ErrorIs(e.t, err, os.ErrDeadlineExceeded)
		return ""
	}
	return string(frame[headerSize:n])
}

const soon, quiet = 10 * time.Second, 150 * time.Millisecond

func TestFramesGoWhereTheirAddressIsAndBroadcastsToAllNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	require.NoError(t, Join(t.Context(), dir))
	t.Chdir(dir) // For a test's sockets too the path is too long.
	a, b, b1, c := plug(t, ".", Card("a-1", 0)), plug(t, ".", Card("b-1", 0)), plug(t, ".", Card("b-1", 1)), plug(t, ".", Card("c.x", 0))

	a.send("*", "a", "who is b?")
	for _, other := range []*end{b, b1, c} {
		require.Equal(t, "who is b?", other.hear(soon))
	}
	b.send("a", "b", "I am")
	require.Equal(t, "I am", a.hear(soon))
	a.send("b", "a", "hello")
	require.Equal(t, "hello", b.hear(soon))
	for _, other := range []*end{a, b1, c} {
		require.Empty(t, other.hear(quiet))
	}
	a.send("x", "a", "to somebody unknown")
	for _, other := range []*end{b, b1, c} {
		require.Equal(t, "to somebody unknown", other.hear(soon))
	}
	a.send("a", "a", "to itself")
	require.Empty(t, a.hear(quiet))
}

func TestAGatewayHearsItsOwnNodeAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Join(t.Context(), dir))
	a, aUp := plug(t, dir, Card("a", 0)), plug(t, dir, Gateway("a"))
	b, bUp := plug(t, dir, Card("b", 0)), plug(t, dir, Gateway("b"))

	a.send("*", "a", "who gives addresses?")
	require.Equal(t, "who gives addresses?", aUp.hear(soon))
	require.Equal(t, "who gives addresses?", b.hear(soon))
	require.Empty(t, bUp.hear(quiet), "it would answer for its own node")

	// Both gateways have the same hardware address.
	bUp.send("b", "g", "for b")
	require.Equal(t, "for b", b.hear(soon))
	aUp.send("a", "g", "for a")
	require.Equal(t, "for a", a.hear(soon))
	a.send("g", "a", "from a")
	require.Equal(t, "from a", aUp.hear(soon))
	require.Empty(t, bUp.hear(quiet))
	b.send("g", "b", "from b")
	require.Equal(t, "from b", bUp.hear(soon))

	a.send("b", "a", "a connection")
	require.Equal(t, "a connection", b.hear(soon))
	a.send("x", "a", "to somebody unknown")
	require.Equal(t, "to somebody unknown", b.hear(soon))
	require.Empty(t, aUp.hear(quiet), "a gateway would answer for any address")

	aUp.send("*", "g", "who is a?")
	require.Equal(t, "who is a?", a.hear(soon))
	aUp.send("b", "g", "past its node")
	require.Empty(t, b.hear(quiet))
}

func TestAnotherProcessGoesOnAsTheSwitch(t *testing.T) {
	dir := t.TempDir()
	first, end := context.WithCancel(t.Context())
	require.NoError(t, Join(first, dir))
	require.NoError(t, Join(t.Context(), dir))
	a, b := plug(t, dir, Card("a", 0)), plug(t, dir, Card("b", 0))
	a.send("*", "a", "one")
	require.Equal(t, "one", b.hear(soon))
	end()
	require.Eventually(t, func() bool {
		_, err := a.conn.WriteToUnix([]byte(strings.Repeat("\xff", headerSize)+"two"), &net.UnixAddr{Name: filepath.Join(dir, Socket), Net: "unixgram"})
		return err == nil && b.hear(quiet) == "two"
	}, soon, 20*time.Millisecond)
}

func TestAMachineThatStandsStillHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Join(t.Context(), dir))
	a, b := plug(t, dir, Card("a", 0)), plug(t, dir, Card("b", 0))
	plug(t, dir, Card("still", 0))
	for range 3000 {
		a.send("*", "a", "x")
		require.Equal(t, "x", b.hear(soon))
	}
}

func TestABurstLosesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Join(t.Context(), dir))
	a, b := plug(t, dir, Card("a", 0)), plug(t, dir, Card("b", 0))
	const burst = 500
	for range burst {
		a.send("*", "a", "x")
	}
	for range burst {
		require.Equal(t, "x", b.hear(soon))
	}
}

// record is a port that remembers.
type record struct {
	name string
	sent *[]string
}

func (r record) send(frame []byte) { *r.sent = append(*r.sent, r.name+" "+string(frame[headerSize:])) }
func (r record) close()            { *r.sent = append(*r.sent, r.name+" closed") }

func TestAnEndThatIsGoneIsForgotten(t *testing.T) {
	var sent []string
	there := []string{"a.0", "b.0"}
	w := newSwitch(func() []string { return there }, func(name string) port { return record{name, &sent} })
	all := []byte(strings.Repeat("\xff", addressSize) + "\x52\x54\x00\x00\x00a\x88\xb5")
	now := time.Unix(0, 0)
	w.take("a.0", append(all, "1"...), now)
	require.Equal(t, []string{"b.0 1", "a.up 1"}, sent)
	sent, there = nil, []string{"a.0", "c.0"}
	w.take("a.0", append(all, "2"...), now.Add(time.Second))
	require.ElementsMatch(t, []string{"b.0 closed", "a.up closed", "c.0 2", "a.up 2"}, sent)
}

func TestWhatIsLearnedIsBounded(t *testing.T) {
	w := newSwitch(func() []string { return nil }, func(name string) port { return record{name, new([]string)} })
	for i := range 3 * maxLearned {
		frame := make([]byte, headerSize)
		frame[addressSize], frame[addressSize+1], frame[addressSize+2] = 2, byte(i>>8), byte(i)
		frame[addressSize+3] = byte(i >> 16)
		w.take("a.0", frame, time.Unix(0, 0))
		require.LessOrEqual(t, len(w.at), maxLearned)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add("a.0", []byte("\xff\xff\xff\xff\xff\xffabcdef\x08\x00x"))
	f.Add("a.up", []byte("abcdefABCDEF\x08\x00x"))
	f.Add("..", []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, from string, frame []byte) {
		var sent []string
		w := newSwitch(func() []string { return []string{"a.0", "a.up", "b.0"} }, func(name string) port { return record{name, &sent} })
		w.take(from, frame, time.Unix(0, 0))
		w.take(from, frame, time.Unix(9, 0))
		for _, s := range sent {
			require.False(t, strings.HasPrefix(s, from+" ") && !strings.HasSuffix(s, " closed") && !strings.HasSuffix(from, ".up"), "it comes back")
		}
	})
}
