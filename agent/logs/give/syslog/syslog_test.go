package syslog

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/give/parcel"
	"spore/agent/syslog"
	"spore/test/testca"
)

func entries(t *testing.T, lines ...string) []parcel.Entry {
	t.Helper()
	got, malformed := parcel.Parse([]byte(strings.Join(lines, "\n")))
	require.Zero(t, malformed)
	return got
}

func numbered(t *testing.T, from, to int) []parcel.Entry {
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf(`{"_msg":"entry %d","node":"n"}`, i))
	}
	return entries(t, lines...)
}

func TestAnEntryAsAMessage(t *testing.T) {
	for name, tt := range map[string]struct{ line, want string }{
		"of a unit": {
			`{"_time":"2026-01-02T03:04:05.000678Z","_msg":"hello","cluster":"plant","node":"edge-01","role":"worker","_SPORE_SOURCE":"journal","_SYSTEMD_UNIT":"ssh.service","SYSLOG_IDENTIFIER":"sshd","SYSLOG_FACILITY":"10","_PID":"42","PRIORITY":"4","__CURSOR":"s=a;i=1"}`,
			`<84>1 2026-01-02T03:04:05.000678Z edge-01 sshd 42 - [spore@32473 cluster="plant" node="edge-01" source="journal" unit="ssh.service" role="worker" cursor="s=a;i=1"] hello`,
		},
		"of a pod": {
			`{"_msg":"hello","node":"n","_SPORE_SOURCE":"pod","KUBERNETES_NAMESPACE":"default","KUBERNETES_POD":"web-0","KUBERNETES_CONTAINER":"web","KUBERNETES_STREAM":"stderr"}`,
			`<30>1 - n web - - [spore@32473 node="n" source="pod" namespace="default" pod="web-0" container="web" stream="stderr"] hello`,
		},
		"of the audit log": {`{"_msg":"{}","_SPORE_SOURCE":"audit"}`, `<110>1 - - audit - - [spore@32473 source="audit"] {}`},
		"hostile": {
			`{"_msg":"a\nb\u0000\u202e","node":"x\ny z","_SYSTEMD_UNIT":"\"] [evil@1 a=\"b\\","SYSLOG_FACILITY":"99","PRIORITY":"-1","_PID":"1 2"}`,
			`<30>1 - xyz "][evil@1a="b\ 12 - [spore@32473 node="x#012y z" unit="\"\] [evil@1 a=\"b\\"] a#012b#000?`,
		},
		"nothing": {`{}`, `<30>1 - - - - - - `},
	} {
		require.Equal(t, tt.want, string(message(entries(t, tt.line)[0]).Append(nil, syslog.MaxStream)), name)
	}
}

// server takes messages by streams.
type server struct {
	net.Listener
	mu       sync.Mutex
	got      []string
	accepted int
}

func listen(t *testing.T, config *tls.Config, address string) *server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	t.Cleanup(func() { l.Close() })
	return &server{Listener: l}
}

// take reads one connection; one that ends early reads only so many messages.
func (s *server) take(most int) {
	c, err := s.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	s.mu.Lock()
	s.accepted++
	s.mu.Unlock()
	r := bufio.NewReader(c)
	for i := 0; i < most; i++ {
		text, err := r.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return
		}
		line := make([]byte, n)
		if _, err := io.ReadFull(r, line); err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, string(line[strings.Index(string(line), "] ")+2:]))
		s.mu.Unlock()
	}
}

func (s *server) texts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, ",")
}

// takes takes connections one after the other, of each so many messages.
func (s *server) takes(most ...int) {
	for _, m := range most {
		s.take(m)
	}
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

const all = 1 << 20

func identity(t *testing.T, name string) (*testca.CA, *tls.Config) {
	t.Helper()
	ca, err := testca.New("log")
	require.NoError(t, err)
	certificate, key, err := ca.Server(name)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return ca, &tls.Config{Certificates: []tls.Certificate{pair}}
}

func receiver(s *server, transport string, config *tls.Config) *Receiver {
	return New(syslog.Server{Address: s.Addr().String(), Transport: transport, TLS: config}, time.Now)
}

func TestEntriesArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	ca, config := identity(t, "127.0.0.1")
	for transport, s := range map[string]*server{"tcp": listen(t, nil, "127.0.0.1:0"), "tls": listen(t, config, "127.0.0.1:0")} {
		go s.takes(all, all)
		r := receiver(s, transport, &tls.Config{RootCAs: ca.Pool()})
		for i := range 10 {
			out, err := r.Give(t.Context(), numbered(t, 2*i, 2*i+2))
			require.NoError(t, err, transport)
			require.Equal(t, parcel.Outcome{Left: []parcel.Entry{}}, out)
			if i == 0 {
				require.Equal(t, "entry 0,entry 1", s.texts(), "given is what was read")
			}
		}
		require.Eventually(t, func() bool { return strings.HasSuffix(s.texts(), "entry 19") }, 10*time.Second, time.Millisecond)
		require.Equal(t, 19, strings.Count(s.texts(), ","), "once")
		require.Equal(t, 2, s.connections(), "one for the first entries, one for all others")
		require.Eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.conn == nil && r.trusted
		}, 5*idle, 10*time.Millisecond, "a connection that idles is ended")
	}
}

func TestAConnectionThatBreaksLosesNothing(t *testing.T) {
	s := listen(t, nil, "127.0.0.1:0")
	r := receiver(s, "tcp", nil)
	// The second connection carries several batches, and ends when some of them were read.
	go s.takes(all, 250, 3, all, all)
	entries := numbered(t, 0, 2000)
	failures := 0
	for len(entries) > 0 {
		n := min(100, len(entries))
		out, err := r.Give(t.Context(), entries[:n])
		entries = entries[n-len(out.Left):]
		if err != nil {
			failures++
			require.ErrorContains(t, err, "the syslog server")
			require.Less(t, failures, 10)
		}
	}
	require.NotZero(t, failures)
	require.Eventually(t, func() bool { return strings.HasSuffix(s.texts(), ",entry 1999") }, 10*time.Second, time.Millisecond)
	got := map[string]int{}
	for _, text := range strings.Split(s.texts(), ",") {
		got[text]++
	}
	require.Len(t, got, 2000)
	require.Equal(t, 1, got["entry 1999"])
}

func TestWhatTheServerReadLongAgoIsNotSentAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	r := New(syslog.Server{}, func() time.Time { return now })
	old, read, unread := frames{[]byte("old"), now.Add(-recent - time.Second)}, frames{[]byte("read"), now}, frames{data: []byte("unread")}
	r.kept = []frames{old, read, unread}
	r.forget()
	require.Equal(t, []frames{read, unread}, r.kept)
	require.Equal(t, len("unread"), r.unread())
	r.broken()
	now = now.Add(time.Hour)
	r.forget()
	require.Len(t, r.kept, 2, "the server was away")
	require.Equal(t, len("unread")+len("read"), r.unread())
	r.kept = []frames{read, {make([]byte, most), now}, {make([]byte, 1), now}}
	r.forget()
	require.Len(t, r.kept, 1, "memory has a bound")
	now = now.Add(-time.Hour)
	r.forget()
	require.Empty(t, r.kept, "the clock was set back")
}

func TestServersThatTakeNothing(t *testing.T) {
	ca, config := identity(t, "other.example")
	refuses := config.Clone()
	refuses.ClientAuth, refuses.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	for name, tt := range map[string]struct {
		config *tls.Config
		name   string
		does   func(net.Conn)
		want   string
	}{
		"ends at once":          {nil, "", func(c net.Conn) { c.Close() }, "to the syslog server"},
		"answers something":     {nil, "", func(c net.Conn) { _, _ = io.WriteString(c, strings.Repeat("x", 5000)); _, _ = io.Copy(io.Discard, c) }, "says something"},
		"has another name":      {config, "", handshake, "certificate"},
		"wants a certificate":   {refuses, "other.example", handshake, "certificate required"},
		"speaks no TLS":         {nil, "other.example", func(c net.Conn) { _, _ = io.WriteString(c, "hello, who is there?\n"); c.Close() }, "connect to the syslog server: "},
		"resets the connection": {nil, "", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() }, "to the syslog server"},
	} {
		s := listen(t, tt.config, "127.0.0.1:0")
		go func() {
			for {
				c, err := s.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					tt.does(c)
					time.Sleep(time.Second)
				}()
			}
		}()
		transport, client := "tcp", (*tls.Config)(nil)
		if tt.config != nil || tt.name != "" {
			transport, client = "tls", &tls.Config{RootCAs: ca.Pool(), ServerName: tt.name}
		}
		e, r := numbered(t, 0, 3), receiver(s, transport, client)
		for range 3 {
			out, err := r.Give(t.Context(), e)
			require.ErrorContains(t, err, tt.want, name)
			require.Equal(t, e, out.Left, name)
		}
		// One that was as it should be before is not trusted for longer than it is so.
		r.trusted = true
		e = numbered(t, 0, 3)
		for range 1000 { // What it says arrives a while later.
			if _, err := r.Give(t.Context(), e); err != nil {
				break
			}
		}
		_, err := r.Give(t.Context(), e)
		require.ErrorContains(t, err, tt.want, name)
		require.False(t, r.trusted, name)
	}
}

func handshake(c net.Conn) {
	if t, is := c.(*tls.Conn); is {
		_ = t.Handshake()
	}
}

func TestAServerThatHangsEndsWithTheContext(t *testing.T) {
	ca, _ := identity(t, "127.0.0.1")
	s := listen(t, nil, "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := receiver(s, "tls", &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}).Give(ctx, numbered(t, 0, 1))
	require.Error(t, err)
	go func() {
		if c, err := s.Accept(); err == nil {
			<-t.Context().Done()
			c.Close()
		}
	}()
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	before := time.Now()
	_, err = receiver(s, "tcp", nil).Give(ctx, numbered(t, 0, 3000))
	require.Error(t, err)
	require.Less(t, time.Since(before), ends-time.Second)
}

func TestAContextThatHasEndedIsNotWaitedFor(t *testing.T) {
	s := listen(t, nil, "127.0.0.1:0")
	c, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := time.Now()
	require.ErrorIs(t, confirmed(ctx, c), context.Canceled)
	require.Less(t, time.Since(before), ends-time.Second)
}

func TestAServerThatNeverEndsItsSideHasWhatItsKernelConfirmed(t *testing.T) {
	t.Parallel()
	s := listen(t, nil, "127.0.0.1:0")
	_, err := receiver(s, "tcp", nil).Give(t.Context(), numbered(t, 0, 3))
	require.NoError(t, err, "nobody accepts the connection or ends it")
}

func TestUDP(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	long := entries(t, `{"_msg":"`+strings.Repeat("x", 10_000)+`","node":"n"}`)
	r := New(syslog.Server{Address: l.LocalAddr().String(), Transport: "udp"}, time.Now)
	out, err := r.Give(t.Context(), append(numbered(t, 0, 100), long...))
	require.NoError(t, err)
	require.Empty(t, out.Left)
	b := make([]byte, 1<<16)
	for i := range 100 {
		n, _, err := l.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`<30>1 - n - - - [spore@32473 node="n"] entry %d`, i), string(b[:n]))
	}
	n, _, err := l.ReadFrom(b)
	require.NoError(t, err)
	require.Equal(t, syslog.MaxDatagram, n)
	require.NoError(t, l.Close())
	out, err = r.Give(t.Context(), numbered(t, 0, 1))
	require.ErrorContains(t, err, "refused")
	require.Len(t, out.Left, 1)
}
