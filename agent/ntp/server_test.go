package ntp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	client = netip.MustParseAddr("10.77.0.11")
	now    = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
)

// serve runs a server on the loopback and returns where.
func serve(t *testing.T, address string, s *Server) netip.AddrPort {
	t.Helper()
	if s.Now == nil {
		s.Now = time.Now
	}
	ctx, cancel := context.WithCancel(t.Context())
	conns, err := Listen(ctx, []netip.Addr{netip.MustParseAddr(address)}, 0)
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() { require.NoError(t, s.Serve(ctx, conns)) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return conns[0].LocalAddr().(*net.UDPAddr).AddrPort()
}

func always(s State) func() State { return func() State { return s } }

func TestAServerThatIsAheadIsHeardToBe(t *testing.T) {
	const ahead = 90 * 24 * time.Hour
	reference := [4]byte{192, 0, 2, 1}
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := serve(t, address, &Server{
			State: always(State{Stratum: 2, Reference: reference, RootDelay: 20 * time.Millisecond, RootDispersion: 30 * time.Millisecond, Updated: now}),
			Now:   func() time.Time { return time.Now().Add(ahead) },
		})
		h, err := Ask(t.Context(), at, time.Now)
		require.NoError(t, err)
		require.InDelta(t, float64(ahead), float64(h.Offset), float64(100*time.Millisecond))
		require.Less(t, h.Delay, 100*time.Millisecond)
		require.Equal(t, at.Addr(), h.From)
		require.Equal(t, uint8(2), h.State.Stratum)
		require.Equal(t, reference, h.State.Reference)
		require.InDelta(t, float64(20*time.Millisecond), float64(h.State.RootDelay), 2e4)
		require.InDelta(t, float64(30*time.Millisecond), float64(h.State.RootDispersion), 2e4)
	}
}

func TestAServerWithoutTheTimeDoesNotPretend(t *testing.T) {
	at := serve(t, "127.0.0.1", &Server{State: always(Judge(Clock{Wrong: true}, now))})
	_, err := Ask(t.Context(), at, time.Now)
	require.ErrorIs(t, err, ErrNoTime)

	s := Server{State: alarm, Now: func() time.Time { return now }}
	out := s.answer(packet{version: 4, mode: modeClient, transmit: 7}.bytes(), client, now)
	p, err := parse(out)
	require.NoError(t, err)
	require.Equal(t, uint8(LeapAlarm), p.leap)
	require.Zero(t, p.stratum, "16 is 0 on the wire")
	require.Equal(t, "INIT", string(p.reference[:]))
	require.Zero(t, p.updated)
}

func TestWhomItFollowsIsToldNothing(t *testing.T) {
	at := serve(t, "127.0.0.1", &Server{State: always(State{Stratum: 3, Follows: netip.MustParseAddr("127.0.0.1")})})
	_, err := Ask(t.Context(), at, time.Now)
	require.ErrorIs(t, err, ErrNoTime, "two that follow each other agree on anything")
	at = serve(t, "127.0.0.1", &Server{State: always(State{Stratum: 3, Follows: client})})
	_, err = Ask(t.Context(), at, time.Now)
	require.NoError(t, err)
}

func TestOnlyQuestionsOfClientsAreAnswered(t *testing.T) {
	s := Server{State: always(State{Stratum: 2}), Now: func() time.Time { return now }}
	question := packet{version: 4, mode: modeClient, poll: 6, transmit: stamp(now)}
	for name, tc := range map[string]struct {
		data   []byte
		answer bool
	}{
		"a client's":             {question.bytes(), true},
		"a client's of NTPv3":    {packet{version: 3, mode: modeClient, transmit: 1}.bytes(), true},
		"one with extensions":    {append(question.bytes(), make([]byte, 20)...), true},
		"too short":              {question.bytes()[:47], false},
		"empty":                  {nil, false},
		"an older version":       {packet{version: 2, mode: modeClient}.bytes(), false},
		"a version to come":      {packet{version: 5, mode: modeClient}.bytes(), false},
		"another server's":       {packet{version: 4, mode: modeServer}.bytes(), false},
		"a symmetric peer's":     {packet{version: 4, mode: 1}.bytes(), false},
		"a control message":      {packet{version: 4, mode: 6}.bytes(), false},
		"a private message":      {packet{version: 2, mode: 7}.bytes(), false},
		"monlist, the amplifier": {append([]byte{0x17, 0, 3, 0x2a}, make([]byte, 188)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			out := s.answer(tc.data, client, now)
			require.Equal(t, tc.answer, out != nil)
			if out == nil {
				return
			}
			require.Len(t, out, size)
			p, err := parse(out)
			require.NoError(t, err)
			asked, err := parse(tc.data)
			require.NoError(t, err)
			require.Equal(t, asked.transmit, p.origin)
			require.Equal(t, asked.version, p.version)
			require.Equal(t, asked.poll, p.poll)
			require.Equal(t, stamp(now), p.receive)
		})
	}
}

func TestAClientThatAsksTooOftenIsNotAnswered(t *testing.T) {
	at := serve(t, "127.0.0.1", &Server{State: always(State{Stratum: 2}), Limit: &Limit{}})
	for range burst {
		_, err := Ask(t.Context(), at, time.Now)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Ask(ctx, at, time.Now)
	require.Error(t, err)
	time.Sleep(pause)
	_, err = Ask(t.Context(), at, time.Now)
	require.NoError(t, err, "it is answered again when it has been silent")
}

func TestTheLimitIsOfEachClientAndOfAll(t *testing.T) {
	l := &Limit{}
	other := netip.MustParseAddr("10.77.0.12")
	for i := range burst + 2 {
		require.Equal(t, i < burst, l.allow(client, now))
	}
	require.True(t, l.allow(other, now), "others are answered")
	require.False(t, l.allow(client, now.Add(-time.Hour)), "a clock that was set back gives nothing")
	require.False(t, l.allow(client, now.Add(-time.Hour).Add(pause/2)))
	require.True(t, l.allow(client, now.Add(-time.Hour).Add(pause)), "and takes nothing")

	l, answered := &Limit{}, 0
	a := netip.MustParseAddr("10.0.0.0")
	for range 3 * maxClients {
		if a = a.Next(); l.allow(a, now) {
			answered++
		}
	}
	require.Equal(t, all, answered, "forged addresses share one limit")
	for i := range 3 * maxClients {
		a = a.Next()
		l.allow(a, now.Add(time.Duration(i)*time.Second))
	}
	require.LessOrEqual(t, len(l.clients), maxClients)
}

func TestAnAnswerOfAnotherQuestionIsNotTaken(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer conn.Close()
	go func() {
		buf := make([]byte, 100)
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		p, _ := parse(buf[:n])
		p.mode, p.stratum, p.receive, p.transmit = modeServer, 1, stamp(now), stamp(now)
		for _, wrong := range []func(p packet) []byte{
			func(p packet) []byte { p.origin = 5; return p.bytes() },
			func(p packet) []byte { return p.bytes()[:40] },
			func(p packet) []byte { p.mode = modeClient; return p.bytes() },
		} {
			p.origin = stamp(now)
			_, _ = conn.WriteToUDPAddrPort(wrong(p), from)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Ask(ctx, conn.LocalAddr().(*net.UDPAddr).AddrPort(), time.Now)
	require.Error(t, err)

	_, err = Ask(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), time.Now)
	require.ErrorContains(t, err, "connection refused", "nobody listens, and that is known at once")
}

func TestWhatAnswersAreRefused(t *testing.T) {
	good := packet{version: 4, mode: modeServer, stratum: 1, receive: stamp(now), transmit: stamp(now)}
	for name, tc := range map[string]struct {
		change func(p *packet)
		want   string
	}{
		"it does not know the time": {func(p *packet) { p.leap = LeapAlarm }, "does not know the time itself"},
		"stratum 16":                {func(p *packet) { p.stratum = 16 }, "does not know the time itself"},
		"go away":                   {func(p *packet) { p.stratum, p.reference = 0, [4]byte{'R', 'A', 'T', 'E'} }, `refuses to answer ("RATE")`},
		"no time in it":             {func(p *packet) { p.transmit = 0 }, "no time in it"},
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			tc.change(&p)
			_, err := judge(p, client, now, now)
			require.ErrorContains(t, err, tc.want)
		})
	}
	late := good
	late.transmit = stamp(now.Add(time.Hour))
	h, err := judge(late, client, now, now.Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, time.Second, h.Delay, "a server cannot have taken longer than all of it")
}
