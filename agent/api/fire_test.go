package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// patience is how long an operator waits for an answer at most, whoever else opens connections.
const patience = time.Second

// hello is the first message of TLS of a client without a certificate.
func hello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		_ = tls.Client(ours, &tls.Config{ServerName: "n-1", MinVersion: tls.VersionTLS13}).Handshake()
		_ = ours.Close()
	}()
	header := make([]byte, 5)
	_, err := io.ReadFull(theirs, header)
	require.NoError(t, err)
	body := make([]byte, int(header[3])<<8|int(header[4]))
	_, err = io.ReadFull(theirs, body)
	require.NoError(t, err)
	return append(header, body...)
}

// attacker opens connections from one address and keeps them for as long as the server does.
type attacker struct {
	at, from string
	// each is how many a second.
	each int
	// say are what its connections begin with in turn; nil is silence.
	say  [][]byte
	made *atomic.Int64
}

// fire goes on until the context ends.
func (a attacker) fire(ctx context.Context) {
	var open sync.WaitGroup
	defer open.Wait()
	began := time.Now()
	for n := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		for due := int(time.Since(began).Seconds() * float64(a.each)); n < due; n++ {
			text := a.say[n%len(a.say)]
			open.Go(func() { a.connect(ctx, text) })
		}
	}
}

func (a attacker) connect(ctx context.Context, text []byte) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from)}, Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", a.at)
	if err != nil {
		return
	}
	a.made.Add(1)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	defer conn.Close()
	_, _ = conn.Write(text)
	_, _ = io.Copy(io.Discard, conn)
}

// stop is a time in which this process did not run: the machine did other work.
type stop struct{ from, to time.Time }

// stops asks a server that nobody fires at, until the context ends, and returns when that took longer than a moment.
func stops(ctx context.Context, t *testing.T) []stop {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("here"))
			_ = conn.Close()
		}
	}()
	var out []stop
	for from := time.Now(); ctx.Err() == nil; {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		time.Sleep(10 * time.Millisecond)
		to := time.Now()
		if to.Sub(from) > patience/4 {
			out = append(out, stop{from, to})
		}
		from = to
	}
	return out
}

// asked is how long each answer took for which the machine did no other work meanwhile, and how many others there were.
func (b *bench) asked(ctx context.Context, id nodeapi.Identity) (took []time.Duration, others int, err error) {
	halts := make(chan []stop, 1)
	go func() { halts <- stops(ctx, b.t) }()
	var asked []stop
	for ctx.Err() == nil {
		one := stop{from: time.Now()}
		bound, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, failed := b.client(id).Read(bound, "n-1", nodeapi.Request{Path: "/x"}, 1<<10)
		cancel()
		err = errors.Join(err, failed)
		one.to = time.Now()
		asked = append(asked, one)
		time.Sleep(20 * time.Millisecond)
	}
	still := <-halts
	for _, a := range asked {
		if slices.ContainsFunc(still, func(s stop) bool { return a.from.Before(s.to) && s.from.Before(a.to) }) {
			others++
			continue
		}
		took = append(took, a.to.Sub(a.from))
	}
	slices.Sort(took)
	return took, others, err
}

// The figure of docs/node-api.md is what this test prints. A machine that does other work at the same time may stop
// this process for a second, which says nothing of the server: what was asked then does not count, and further rounds
// follow until there are enough answers that do.
func TestAnOperatorIsAnsweredUnderFire(t *testing.T) {
	const rounds, round, enough = 12, 5 * time.Second, 40
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin, nodeapi.Node))
	id := b.issue("anna", organizations("spore:admin"))
	kinds := [][]byte{nil, hello(t), []byte("GET / HTTP/1.1\r\nHost: n-1\r\n\r\n")}
	counted := 0
	for i := 0; counted < enough; i++ {
		require.Less(t, i, rounds, "the machine does too much other work: only %d answers count", counted)
		var made atomic.Int64
		attackers := []attacker{{b.at, "127.0.1.1", 1000, kinds, &made}}
		for i := range 100 {
			attackers = append(attackers, attacker{b.at, fmt.Sprintf("127.0.2.%d", i+1), 10, kinds, &made})
		}
		ctx, cancel := context.WithTimeout(context.Background(), round)
		var firing sync.WaitGroup
		for _, a := range attackers {
			firing.Go(func() { a.fire(ctx) })
		}
		took, others, err := b.asked(ctx, id)
		cancel()
		firing.Wait()
		require.NoError(t, err, "nobody who has a certificate is turned away")
		t.Logf("%d connections in %s, %d answers, and %d while the machine did other work",
			made.Load(), round, len(took), others)
		if len(took) == 0 {
			continue
		}
		worst := took[len(took)-1]
		t.Logf("an operator asks while one address opens 1000 connections a second and a hundred open 10 each: "+
			"half of the answers are there within %s, the slowest within %s",
			took[len(took)/2].Round(time.Millisecond), worst.Round(time.Millisecond))
		require.Less(t, worst, patience)
		if made.Load() > int64(round.Seconds()*2000*3/4) {
			counted += len(took)
		}
	}
}

// open opens connections from an address, and keeps them until the test ends.
func (b *bench) open(from string, number int, text []byte) (conns []net.Conn) {
	b.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range number {
		c, err := dialer.Dial("tcp", b.at)
		require.NoError(b.t, err)
		b.t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write(text)
		require.NoError(b.t, err)
		conns = append(conns, c)
	}
	return conns
}

// hold opens connections with a certificate, each with a request that was answered, and keeps them until the test ends.
func (b *bench) hold(id nodeapi.Identity, number int) (held []net.Conn, err error) {
	b.t.Helper()
	config := &tls.Config{RootCAs: b.ca.Pool(), ServerName: "n-1", Certificates: []tls.Certificate{pair(b.t, id)}}
	for range number {
		c, err := tls.Dial("tcp", b.at, config)
		require.NoError(b.t, err)
		b.t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "GET /x HTTP/1.1\r\nHost: n-1\r\n\r\n")
		if err == nil {
			var res *http.Response
			if res, err = http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				_, err = io.Copy(io.Discard, res.Body)
			}
		}
		if err != nil {
			return held, err
		}
		held = append(held, c)
	}
	return held, nil
}

// quick asks, and wants an answer in time. The machine may do other work meanwhile: one of three has to be.
func (b *bench) quick(id nodeapi.Identity) {
	b.t.Helper()
	best := time.Hour
	for range 3 {
		began := time.Now()
		_, err := b.ask(id, nodeapi.Request{Path: "/x"})
		require.NoError(b.t, err)
		if best = min(best, time.Since(began)); best < patience {
			return
		}
	}
	require.Less(b.t, best, patience)
}

func TestWhoIsSilentTakesNobodysRoom(t *testing.T) {
	for name, text := range map[string][]byte{"silent": nil, "after the first message": hello(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin))
			id := b.issue("anna", organizations("spore:admin"))
			b.open("127.0.1.1", 200, text)
			b.quick(id)
			b.open("127.0.0.1", 200, text)
			b.quick(id) // from the same address
			for i := range 50 {
				b.open(fmt.Sprintf("127.0.2.%d", i+1), strangersEach, text)
			}
			b.quick(id)
		})
	}
}

func TestAHandshakeHasThreeSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin))
	for _, text := range [][]byte{nil, hello(t)} {
		began := time.Now()
		conn := b.open("127.0.0.1", 1, text)[0]
		require.NoError(t, conn.SetDeadline(began.Add(20*time.Second)))
		_, err := io.Copy(io.Discard, conn)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it stays open")
		require.GreaterOrEqual(t, time.Since(began), helloBound-100*time.Millisecond)
	}
}

func TestTheOldestOfAnAddressGoesFirst(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin))
	conns := b.open("127.0.1.1", 1, nil)
	time.Sleep(100 * time.Millisecond)
	other := b.open("127.0.1.2", 1, nil)[0]
	conns = append(conns, b.open("127.0.1.1", strangersEach, nil)...)
	require.NoError(t, conns[0].SetReadDeadline(time.Now().Add(2*time.Second)))
	_, err := conns[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it is closed before its time")
	for _, stays := range []net.Conn{other, conns[len(conns)-1]} {
		require.NoError(t, stays.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err = stays.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
}

// Whoever was let in may be a node that was broken into.
func TestNoCertificateTakesTheRoomOfOthers(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin, nodeapi.Node))
	node := func(i int) nodeapi.Identity {
		return b.issue(fmt.Sprintf("n-%d", i+2), organizations("spore:nodes"))
	}
	bad := node(0)
	held, err := b.hold(bad, seatsEach)
	require.NoError(t, err)
	_, err = b.hold(bad, 1)
	require.Error(t, err, "it has its share")
	b.quick(node(1))
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool { more, err := b.hold(bad, 1); held = append(held, more...); return err == nil },
		5*time.Second, 20*time.Millisecond, "a seat that was left is free")
	for i := 1; i < maxNodes/seatsEach; i++ {
		_, err := b.hold(node(i), seatsEach)
		require.NoError(t, err)
	}
	_, err = b.hold(node(maxNodes), 1)
	require.Error(t, err, "all seats of nodes are taken")
	b.quick(b.issue("anna", organizations("spore:admin")))
}

// All nodes of a cluster bring what they log to the same store, over connections that stay.
func TestSendersOfLogsTakeNoRoomOfNodes(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin, nodeapi.Node, nodeapi.Sender))
	for i := range maxNodes + 4 {
		_, err := b.hold(b.issue(fmt.Sprintf("n-%d", i+2), organizations("spore:sender")), 1)
		require.NoError(t, err)
	}
	loud := b.issue("loud", organizations("spore:sender"))
	_, err := b.hold(loud, senderSeats)
	require.NoError(t, err)
	_, err = b.hold(loud, 1)
	require.Error(t, err, "it has its share")
	b.quick(b.issue("loud", organizations("spore:nodes")))
	b.quick(b.issue("anna", organizations("spore:admin")))
}

func TestWhatCountsAsOneAddress(t *testing.T) {
	of := func(text string) string {
		return origin(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))).String()
	}
	for text, want := range map[string]string{
		"10.1.2.3:5":               "10.1.2.3/32",
		"[::ffff:10.1.2.3]:5":      "10.1.2.3/32",
		"[2001:db8:1:2:3::4]:5":    "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:9": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:9":         "fe80::/64",
	} {
		require.Equal(t, want, of(text), text)
	}
	require.Equal(t, netip.Prefix{}, origin(&net.UnixAddr{Name: "x"}))
}

func TestAnAllowance(t *testing.T) {
	began := time.Now()
	a := allowance[string]{burst: 3, every: time.Second}
	for i, want := range []bool{true, true, true, false, false} {
		require.Equal(t, want, a.take("a", began), i)
	}
	require.True(t, a.take("b", began), "each has its own")
	require.False(t, a.take("a", began.Add(900*time.Millisecond)))
	require.True(t, a.take("a", began.Add(1100*time.Millisecond)))
	require.False(t, a.take("a", began.Add(1200*time.Millisecond)))
	later := began.Add(time.Hour)
	for i, want := range []bool{true, true, true, false} {
		require.Equal(t, want, a.take("a", later), "no more than the burst is saved up: %d", i)
	}
}

func TestAnAllowanceRemembersSoMany(t *testing.T) {
	began := time.Now()
	a := allowance[int]{burst: 2, every: time.Second}
	for i := range maxKnown {
		a.take(i, began)
	}
	require.Len(t, a.left, maxKnown)
	a.take(-1, began)
	require.LessOrEqual(t, len(a.left), maxKnown/2+1, "where all have taken some")
	a.take(-1, began)
	for i := range maxKnown {
		a.take(i+maxKnown, began.Add(time.Minute))
	}
	require.LessOrEqual(t, len(a.left), maxKnown, "those of a minute ago have all there is again")
}

func TestAServerThatEndsLeavesNobodyWaiting(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	time.Sleep(50 * time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
}
