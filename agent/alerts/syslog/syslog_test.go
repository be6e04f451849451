package syslog

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/alerts/notice"
	"spore/agent/syslog"
	"spore/test/testca"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)

func TestLinesOfAlerts(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		alert notice.Alert
		host  string
		want  string
	}{
		"firing": {
			notice.Alert{Firing: true, Name: "DiskFull", Severity: "critical", Instance: "edge-01", Summary: "edge-01 is full", Since: since, Fingerprint: "c0"}, "observer-01",
			`<26>1 2026-01-02T03:04:05.000678Z observer-01 spore-alerts - alert [alert@32473 status="firing" name="DiskFull" severity="critical" instance="edge-01" cluster="plant" since="2026-01-02T03:00:00Z" fingerprint="c0"] edge-01 is full`,
		},
		"over": {
			notice.Alert{Name: "DiskFull", Severity: "critical", Since: since, Until: since.Add(time.Minute)}, "observer-01",
			`<29>1 2026-01-02T03:04:05.000678Z observer-01 spore-alerts - alert [alert@32473 status="resolved" name="DiskFull" severity="critical" cluster="plant" since="2026-01-02T03:00:00Z" until="2026-01-02T03:01:00Z"] `,
		},
		"hostile": {
			notice.Alert{Firing: true, Name: `x"] \ [y`, Severity: "odd", Instance: "a\nb", Summary: "one\ntwo\x00three"}, "a b\u00e9\n",
			`<28>1 2026-01-02T03:04:05.000678Z ab spore-alerts - alert [alert@32473 status="firing" name="x\"\] \\ [y" severity="odd" instance="a b" cluster="plant"] one two three`,
		},
		"nobody": {notice.Alert{Firing: true}, " ", `<28>1 2026-01-02T03:04:05.000678Z - spore-alerts - alert [alert@32473 status="firing" cluster="plant"] `},
	} {
		require.Equal(t, tt.want, string(Line(tt.alert, "plant", tt.host, now)), name)
	}
	long := notice.Alert{Firing: true, Summary: strings.Repeat("x", 10_000)}
	require.Len(t, Line(long, "plant", "n", now), syslog.MaxDatagram)
}

func TestTCPCountsOctets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got := make(chan string, 1)
	go func() { got <- all(l) }()
	s := Server{Address: l.Addr().String(), Transport: "tcp"}
	require.NoError(t, s.Send(within(t), [][]byte{[]byte("<26>1 one"), []byte("<26>1 two ü")}))
	require.Equal(t, "9 <26>1 one12 <26>1 two ü", <-got)
}

func TestUDPSendsOneLineADatagram(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := Server{Address: l.LocalAddr().String(), Transport: "udp"}
	require.NoError(t, s.Send(within(t), [][]byte{[]byte("one"), []byte("two")}))
	for _, want := range []string{"one", "two"} {
		b := make([]byte, 100)
		n, _, err := l.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, want, string(b[:n]))
	}
}

func TestTLSWantsTheServersCertificate(t *testing.T) {
	ca, err := testca.New("log")
	require.NoError(t, err)
	certificate, key, err := ca.Server("127.0.0.1")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	defer l.Close()
	got := make(chan string, 2)
	go func() {
		for range 2 {
			got <- one(l)
		}
	}()
	s := Server{Address: l.Addr().String(), Transport: "tls", TLS: &tls.Config{RootCAs: ca.Pool()}}
	require.NoError(t, s.Send(within(t), [][]byte{[]byte("one")}))
	require.Equal(t, "3 one", <-got)
	s.TLS = &tls.Config{}
	require.ErrorContains(t, s.Send(within(t), [][]byte{[]byte("one")}), "unknown authority")
	require.Empty(t, <-got)
}

// In TLS 1.3 a client has sent everything before it hears that the server wants a certificate of it.
func TestAServerThatRefusesAfterwards(t *testing.T) {
	ca, err := testca.New("log")
	require.NoError(t, err)
	certificate, key, err := ca.Server("127.0.0.1")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	})
	require.NoError(t, err)
	go all(l)
	s := Server{Address: l.Addr().String(), Transport: "tls", TLS: &tls.Config{RootCAs: ca.Pool()}}
	require.ErrorContains(t, s.Send(within(t), [][]byte{[]byte("one")}), "send to the syslog server: ")
}

func TestAServerThatSaysNothingHasTheLines(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := Server{Address: l.Addr().String(), Transport: "tcp"}
	require.NoError(t, s.Send(within(t), [][]byte{[]byte("one")}), "nobody accepts the connection or closes it")
}

func TestServersThatAreNone(t *testing.T) {
	for name, s := range map[string]Server{
		"nobody listens":       {Address: "127.0.0.1:1", Transport: "tcp"},
		"an unknown transport": {Address: "127.0.0.1:1", Transport: "unix"},
	} {
		require.ErrorContains(t, s.Send(within(t), [][]byte{[]byte("one")}), "connect to the syslog server: ", name)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func all(l net.Listener) string {
	defer l.Close()
	return one(l)
}

func one(l net.Listener) string {
	c, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	data, _ := io.ReadAll(c) // A refused handshake is an error with nothing read.
	return string(data)
}
