package socks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/proxy"
)

// serve starts a server whose Dial is given.
func serve(ctx context.Context, t *testing.T, dial func(ctx context.Context, host string, port uint16) (net.Conn, error)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- Server{Dial: dial}.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return l.Addr().String()
}

// greeter answers what a client says, all of it, once that has ended.
func greeter(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				said, _ := io.ReadAll(conn)
				fmt.Fprintf(conn, "you said %s", said)
			}()
		}
	}()
	return l
}

func TestClientsComeWhereTheyWant(t *testing.T) {
	to := greeter(t)
	asked := make(chan string, 10)
	at := serve(t.Context(), t, func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		asked <- fmt.Sprintf("%s %d", host, port)
		return new(net.Dialer).DialContext(ctx, "tcp", to.Addr().String())
	})
	client, err := proxy.SOCKS5("tcp", at, nil, proxy.Direct)
	require.NoError(t, err)
	for _, target := range []string{"edge-01.plant.example:8883", "10.77.0.9:6443", "[fd00::1]:1"} {
		conn, err := client.Dial("tcp", target)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		// Each way ends by itself: the answer comes after the end of the question.
		require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, "you said hello", string(said))
		require.NoError(t, conn.Close())
	}
	require.Equal(t, []string{"edge-01.plant.example 8883", "10.77.0.9 6443", "fd00::1 1"}, []string{<-asked, <-asked, <-asked})
}

func TestAClientIsToldWhyNot(t *testing.T) {
	var fails error
	at := serve(t.Context(), t, func(context.Context, string, uint16) (net.Conn, error) { return nil, fails })
	client, err := proxy.SOCKS5("tcp", at, nil, proxy.Direct)
	require.NoError(t, err)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("connect: %w", syscall.ECONNREFUSED), "connection refused"},
		{syscall.EHOSTUNREACH, "host unreachable"},
		{syscall.ETIMEDOUT, "host unreachable"},
		{context.DeadlineExceeded, "host unreachable"},
		{fmt.Errorf("x: %w", ErrUnknownName), "host unreachable"},
		{syscall.ENETUNREACH, "network unreachable"},
		{syscall.EAFNOSUPPORT, "address type not supported"},
		{errors.New("other"), "general SOCKS server failure"},
	} {
		fails = tt.err
		_, err := client.Dial("tcp", "a:1")
		require.ErrorContains(t, err, tt.want)
	}
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	name := func(s string) string { return "\x05\x01\x00\x03" + string(rune(len(s))) + s + "\x00\x50" }
	for what, tt := range map[string]struct{ says, hears string }{
		"only a password":        {"\x05\x01\x02", "\x05\xff"},
		"no method":              {"\x05\x00", "\x05\xff"},
		"SOCKS4":                 {"\x04\x01\x00\x50\x0a\x4d\x00\x0b\x00", ""},
		"bind":                   {"\x05\x01\x00" + "\x05\x02\x00\x01\x0a\x4d\x00\x0b\x00\x50", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"},
		"UDP":                    {"\x05\x01\x00" + "\x05\x03\x00\x01\x0a\x4d\x00\x0b\x00\x50", "\x05\x00\x05\x07\x00\x01\x00\x00\x00\x00\x00\x00"},
		"a type that is unknown": {"\x05\x01\x00" + "\x05\x01\x00\x02\x0a\x4d\x00\x0b\x00\x50", "\x05\x00\x05\x08\x00\x01\x00\x00\x00\x00\x00\x00"},
		"port 0":                 {"\x05\x01\x00" + "\x05\x01\x00\x01\x0a\x4d\x00\x0b\x00\x00", "\x05\x00\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"},
		"an empty name":          {"\x05\x01\x00" + name(""), "\x05\x00\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"},
		"a name with a line end": {"\x05\x01\x00" + name("a\nb"), "\x05\x00\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"},
		"half a request":         {"\x05\x01\x00" + "\x05\x01\x00\x03\x20abc", "\x05\x00"},
		"another version then":   {"\x05\x01\x00" + "\x04\x01\x00\x01\x0a\x4d\x00\x0b\x00\x50", "\x05\x00"},
	} {
		t.Run(what, func(t *testing.T) {
			client := &pipe{in: strings.NewReader(tt.says)}
			_, _, err := ask(client)
			require.Error(t, err)
			require.Equal(t, tt.hears, client.out.String())
		})
	}
}

// pipe is a client that has said all that it will say.
type pipe struct {
	in  io.Reader
	out bytes.Buffer
}

func (p *pipe) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.out.Write(b) }

func TestTheEndEndsWhatClientsHaveOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	at := serve(ctx, t, func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	})
	client, err := proxy.SOCKS5("tcp", at, nil, proxy.Direct)
	require.NoError(t, err)
	conn, err := client.Dial("tcp", "a:1")
	require.NoError(t, err)
	silent, err := net.Dial("tcp", at)
	require.NoError(t, err)
	cancel()
	for _, c := range []net.Conn{conn, silent} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout(), "it was closed")
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\x0a\x4d\x00\x0b\x22\xb3"))
	f.Add([]byte("\x05\x02\x00\x02\x05\x01\x00\x03\x07edge-01\x22\xb3rest"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x0910.77.0.9\x00\x50"))
	f.Add([]byte("\x05\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		client := &pipe{in: bytes.NewReader(data)}
		host, port, err := ask(client)
		require.LessOrEqual(t, client.out.Len(), 12, "a greeting and one answer at most")
		if err != nil {
			require.Empty(t, host)
			return
		}
		require.NotZero(t, port)
		require.Equal(t, "\x05\x00", client.out.String())
		if ip, err := netip.ParseAddr(host); err == nil {
			require.Equal(t, ip.Unmap().String(), host)
			return
		}
		require.Regexp(t, `^[A-Za-z0-9._-]{1,255}$`, host)
	})
}
